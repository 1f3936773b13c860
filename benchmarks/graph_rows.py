"""The graph teacher as its unlabelled rows grow: time, memory, and whether more rows help.

300 labels and 5,000 test rows, drawn three times among the rows of one graph; 10 classes.

- clusters: each class is ten clusters of benchmarks/neighbours.py, which overlap a little;
- spirals: each class is one arm of a spiral in two columns, beside eight columns of noise.

--probes changes how many cells of k-means the index of neighbours searches, and so its recall.
Two settings of the teacher, the most local and the farthest of common use. One process for each
size, one thread. Time is that of the graph, one fit and the prediction of the test rows; memory is
the peak of the process, imports included.

    PYTHONPATH=src python benchmarks/graph_rows.py --rows 5000 50000 200000 1000000
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dessl.evaluation import mean_interval
from dessl.teachers.neighbours import EXACT_UP_TO, PROBES
from machine import machine
from neighbours import clusters_of

RESULTS = Path(__file__).parent / "results" / "graph_rows.json"
LABELS, TEST, CLASSES, DRAWS = 300, 5_000, 10, 3
LIMIT = 200_000  # rows that teachers see at most
SETTINGS = ((0.8, 1.0), (0.95, 0.1))  # α and smoothing
Made = tuple[NDArray[np.float32], NDArray[np.int64]]


def clusters(n: int) -> Made:
    """Rows around 100 centres, ten of each class."""
    rows, own = clusters_of(n)
    return rows, own % CLASSES


def spirals(n: int) -> Made:
    """Rows along ten arms, which turn once around the middle."""
    rng = np.random.default_rng(0)
    y = rng.integers(CLASSES, size=n)
    along = np.sqrt(rng.uniform(0.04, 1, size=n))
    angle = 2 * np.pi * (along + y / CLASSES)
    rows = np.column_stack([10 * along * np.cos(angle), 10 * along * np.sin(angle)])
    rows = np.hstack([rows + 0.25 * rng.normal(size=rows.shape), rng.normal(size=(n, 8))])
    return np.asarray(rows, np.float32), y


DATA = {"clusters": clusters, "spirals": spirals}


def measured(name: str, n: int, probes: int) -> dict[str, Any]:
    """One graph, and the log loss of each setting and draw, in this process."""
    from dessl.teachers import neighbours
    from dessl.teachers.graph import Graph, SharedEdges
    from dessl.teachers.space import Space

    torch.set_num_threads(1)
    neighbours.PROBES = probes
    rows, y = (torch.from_numpy(part) for part in DATA[name](n + TEST))
    x_test, y_test, candidates = rows[-TEST:], y[-TEST:], LABELS * DRAWS
    x_l, y_l, x_u = rows[:candidates], y[:candidates], rows[candidates:-TEST]
    # Distances as they are, so that both sets mean what they say.
    shared = SharedEdges(Space.unchanged(rows.shape[1]))
    began, used = time.perf_counter(), time.process_time()
    shared.of(x_l, x_u)
    seconds = {"graph": time.perf_counter() - began}
    processor = {"graph": time.process_time() - used}
    losses: dict[str, list[float]] = {}
    for alpha, smoothing in SETTINGS:
        graph = Graph(alpha, smoothing, edges=shared)
        for draw in range(DRAWS):
            held = torch.arange(candidates) // LABELS != draw
            began, used = time.perf_counter(), time.process_time()
            graph.fit(x_l, y_l, x_u, CLASSES, held=held)
            fitted, spent = time.perf_counter() - began, time.process_time() - used
            began, used = time.perf_counter(), time.process_time()
            log_p = graph.predict_log_proba(x_test)
            seconds |= {"fit": fitted, "predict": time.perf_counter() - began}
            processor |= {"fit": spent, "predict": time.process_time() - used}
            loss = -float(log_p[torch.arange(TEST), y_test].mean())
            losses.setdefault(graph.name, []).append(round(loss, 5))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {
        "data": name, "rows": n, "probes": probes, "columns": rows.shape[1], "labels": LABELS,
        "seconds": {part: round(value, 2) for part, value in seconds.items()},
        "processor_seconds": {part: round(value, 2) for part, value in processor.items()},
        "gigabytes": round(peak, 2), "log_loss": losses,
    }  # fmt: skip


def report(content: Mapping[str, Any]) -> str:
    """Processor seconds, memory and log loss at each size."""
    facts = content["machine"]
    lines = [
        "# The graph teacher as rows grow", "",
        f"Measured by benchmarks/graph_rows.py ({facts['cpu']}, one thread, torch "
        f"{facts['torch']}): {LABELS} labels, {CLASSES} classes, processor seconds of the graph, "
        f"of one fit at α=0.95, and of the prediction of {TEST:,} rows; log loss over {DRAWS} "
        f"draws of the labels, and its paired difference from that with 200,000 rows, with 95 % "
        f"t-intervals.", "",
        "| data | rows | cells searched | setting | graph, s | fit, s | predict, s | gigabytes | "
        "log loss | difference |",
        "|---|---:|---:|---|---:|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    limits = {
        one["data"]: one["log_loss"]
        for one in content["found"]
        if one["probes"] == PROBES and one["rows"] == LIMIT
    }
    for one in content["found"]:
        searched = str(one["probes"]) if one["rows"] > EXACT_UP_TO else "all"
        spent = one["processor_seconds"]
        times = [f"{spent[part]:.1f}" for part in ("graph", "fit", "predict")]
        for name, found in one["log_loss"].items():
            here = np.array(found)
            less = here - np.array(limits.get(one["data"], {}).get(name, np.nan))
            cells = [one["data"], f"{one['rows']:,}", searched, name, *times]
            cells += [f"{one['gigabytes']:.2f}", f"{here.mean():.3f}"]
            half = mean_interval(less.tolist()).half_width if np.abs(less).max() > 0 else np.nan
            cells += ["" if np.isnan(half) else f"{less.mean():+.3f} ± {half:.3f}"]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> None:
    """Measure each size in its own process, beside those that were measured before."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=list(DATA))
    parser.add_argument("--rows", nargs="+", type=int, default=[5_000, 50_000, 200_000])
    parser.add_argument("--out", type=Path, default=RESULTS, help="JSON; a table beside it")
    parser.add_argument("--probes", type=int, default=PROBES, help="cells searched")
    parser.add_argument("--only", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.only:
        print(json.dumps(measured(options.only[0], int(options.only[1]), options.probes)))
        return
    before = json.loads(options.out.read_text())["found"] if options.out.exists() else []
    known = {(one["data"], one["rows"], one["probes"]): one for one in before}
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    for n in options.rows:
        for name in options.data:
            command = [sys.executable, __file__, "--only", name, str(n)]
            command += ["--probes", str(options.probes)]
            found = subprocess.check_output(command, text=True, env=environment)
            known[name, n, options.probes] = json.loads(found.splitlines()[-1])
            print(json.dumps(known[name, n, options.probes]), flush=True)
            content = {"machine": machine(), "found": [known[key] for key in sorted(known)]}
            options.out.write_text(json.dumps(content, indent=1) + "\n")
            options.out.with_suffix(".md").write_text(report(content))


if __name__ == "__main__":
    main()
