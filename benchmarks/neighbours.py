"""Our index of nearest neighbours against faiss, hnswlib and pynndescent.

The 8 nearest other rows of every row, as the graph needs them, the index included; one process and
one thread for each. Recall is the share of the exact neighbours of 1,000 rows that were found. A
library takes part where it is installed. Time is on the clock and of the processor; memory is the
peak of the process less what it held with the rows loaded and everything imported. pynndescent
compiles itself first, which is timed apart.

- clusters: 100 clusters in 40 columns, each with a spread in 10 directions of its own, and noise;
- cloud: one normal cloud of 30 independent columns, where no index can be good;
- mnist: the 50 principal components of MNIST's 70,000 images, as teachers see them (DESSL_DATA).

    PYTHONPATH=src python benchmarks/neighbours.py
    PYTHONPATH=src DESSL_DATA=DATA python benchmarks/neighbours.py --data mnist --rows 20000 70000
    PYTHONPATH=src python benchmarks/neighbours.py --data clusters --rows 1000000 --minutes 5
"""

import argparse
import importlib.metadata
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from machine import machine

RESULTS = Path(__file__).parent / "results" / "neighbours.json"
K, ASKED, BLOCK = 8, 1_000, 10_000
EXACT_UP_TO = 20_000  # rows, as in dessl.teachers.neighbours
Rows = NDArray[np.float32]
Found = NDArray[np.int64]  # (n, K), and the row itself in some methods


def clusters_of(n: int) -> tuple[Rows, NDArray[np.int64]]:
    """Rows (n, 40) around 100 centres, mostly spread in 10 directions, and their clusters."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(100, 40)).astype(np.float32)
    spreads = 0.5 * rng.normal(size=(100, 10, 40)).astype(np.float32)
    rows, of = np.empty((n, 40), np.float32), np.empty(n, np.int64)
    for first in range(0, n, BLOCK):
        own = rng.integers(100, size=min(BLOCK, n - first))
        for cluster in range(100):
            here = first + np.flatnonzero(own == cluster)
            along = rng.standard_normal((len(here), 10), np.float32)
            noise = 0.1 * rng.standard_normal((len(here), 40), np.float32)
            rows[here] = centres[cluster] + along @ spreads[cluster] + noise
            of[here] = cluster
    return rows, of


def clusters(n: int) -> Rows:
    """The same without their clusters."""
    return clusters_of(n)[0]


def cloud(n: int) -> Rows:
    """Rows (n, 30) of independent normal numbers."""
    return np.random.default_rng(0).standard_normal((n, 30), np.float32)


def mnist(n: int) -> Rows:
    """Rows (n, 50) of MNIST."""
    import torch

    from dessl.data import load
    from dessl.teachers.space import Space

    data = load("mnist", download=False)
    assert data.test is not None
    images = torch.cat([data.x, data.test.x]).flatten(1)[:n].float()
    return Space.of(images)(images).numpy()


DATA: dict[str, Callable[[int], Rows]] = {"clusters": clusters, "cloud": cloud, "mnist": mnist}


def ours(rows: Rows, probes: int) -> Found:
    """k-means cells; 0 probes compare with every row."""
    import torch

    from dessl.teachers import neighbours

    neighbours.PROBES = probes
    index = neighbours.Index(torch.from_numpy(rows), exact=not probes)
    return index.nearest_others(K).numbers.numpy()


def faiss(rows: Rows, probes: int) -> Found:
    """Cells as ours, of an inverted file with whole vectors."""
    import faiss

    faiss.omp_set_num_threads(1)
    cells = round(2 * len(rows) ** 0.5)
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(rows.shape[1]), rows.shape[1], cells)
    index.cp.min_points_per_centroid, index.cp.max_points_per_centroid = 1, 32
    index.cp.niter = 6
    index.train(rows)
    index.add(rows)
    index.nprobe = probes
    return np.asarray(index.search(rows, K + 1)[1])


def hnswlib(rows: Rows, effort: int) -> Found:
    """A hierarchy of small worlds, 16 links a row; the effort is that of building and search."""
    import hnswlib

    index = hnswlib.Index("l2", rows.shape[1])
    index.init_index(len(rows), M=16, ef_construction=effort, random_seed=0)
    index.set_num_threads(1)
    index.add_items(rows)
    index.set_ef(effort)
    return np.asarray(index.knn_query(rows, K + 1)[0]).astype(np.int64)


def pynndescent(rows: Rows, neighbours: int) -> Found:
    """Descent on a graph of that many neighbours, of which the nearest are used."""
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [place for place in sys.path if place != here]  # coverage/ hides numba's
    from pynndescent import NNDescent

    index = NNDescent(rows, n_neighbors=neighbours, random_state=0, n_jobs=1)
    return np.asarray(index.neighbor_graph[0])[:, : K + 1].astype(np.int64)


METHODS: dict[str, tuple[Callable[[Rows, int], Found], int]] = {
    "ours, exact": (ours, 0),
    "ours, 8 cells": (ours, 8),
    "ours, 32 cells": (ours, 32),
    "faiss, 8 cells": (faiss, 8),
    "faiss, 32 cells": (faiss, 32),
    "hnswlib, effort 40": (hnswlib, 40),
    "hnswlib, effort 100": (hnswlib, 100),
    "pynndescent, 15 neighbours": (pynndescent, 15),
    "pynndescent, 30 neighbours": (pynndescent, 30),
}
COMPARED = "ours, 8 cells"  # what the graph uses above 20,000 rows


def recall(rows: Rows, found: Found) -> float:
    """The share of the exact neighbours of some rows that is in found (n, K or more)."""
    import torch

    from dessl.teachers.neighbours import Index

    some = np.random.default_rng(1).permutation(len(rows))[:ASKED]
    every = torch.from_numpy(rows)
    exact = Index(every, exact=True).nearest(every[some], K + 1).numbers.tolist()
    hits = sum(
        len(others(row, true) & others(row, found[row].tolist()))
        for row, true in zip(some.tolist(), exact, strict=True)
    )
    return hits / (K * len(some))


def others(row: int, near: Sequence[int]) -> set[int]:
    """The first neighbours that are not the row itself."""
    return set([one for one in near if one != row][:K])


def held() -> float:
    """Gigabytes that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e9


def measured(data: str, n: int, method: str) -> dict[str, Any]:
    """Time, memory and recall of one method, in this process."""
    import torch

    import dessl.teachers.neighbours  # noqa: F401  # so that it does not count as rows

    torch.set_num_threads(1)
    run, setting = METHODS[method]
    rows = np.ascontiguousarray(DATA[data](n))
    began = time.perf_counter()
    run(rows[:5000].copy(), setting)  # imports, and compiles
    first, before = time.perf_counter() - began, held()
    began, used = time.perf_counter(), time.process_time()
    found = run(rows, setting)
    seconds, used = time.perf_counter() - began, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    return {
        "data": data, "rows": n, "columns": rows.shape[1], "method": method,
        "seconds": round(seconds, 2), "processor_seconds": round(used, 2),
        "gigabytes": round(max(0.0, peak - before), 3), "recall": round(recall(rows, found), 4),
        "seconds_of_a_first_call": round(first, 1),
    }  # fmt: skip


def limited(data: str, n: int, method: str, minutes: float) -> dict[str, Any]:
    """The same in a process of its own, which may take that long; why not, if it failed."""
    command = [sys.executable, __file__, "--only", data, str(n), method]
    environment = os.environ | dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
    )
    asked = {"data": data, "rows": n, "method": method}
    try:
        run = subprocess.run(
            command, env=environment, timeout=60 * minutes, check=True, capture_output=True
        )
    except subprocess.TimeoutExpired:
        return asked | {"gave up": f"more than {minutes:g} minutes"}
    except subprocess.CalledProcessError as error:
        return asked | {"gave up": error.stderr.decode().strip().splitlines()[-1]}
    return dict(json.loads(run.stdout.splitlines()[-1]))


def report(content: Mapping[str, Any]) -> str:
    """One table; a ratio is to ours on the same rows."""
    facts, found = content["machine"], content["found"]
    versions = ", ".join(f"{name} {version}" for name, version in content["versions"].items())
    lines = [
        "# Nearest neighbours", "",
        f"Measured by benchmarks/neighbours.py ({facts['cpu']}, one thread, torch "
        f"{facts['torch']}, {versions}). The 8 nearest other rows of every row; the ratio is of "
        f"processor seconds to those of {COMPARED}, which the graph uses above 20,000 rows.", "",
        "| data | rows | method | seconds | processor seconds | ratio | gigabytes | recall |",
        "|---|---:|---|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    key = "processor_seconds"
    base = {(o["data"], o["rows"]): o.get(key) for o in found if o["method"] == COMPARED}
    for one in found:
        start = f"| {one['data']} | {one['rows']:,} | {one['method']} |"
        if "gave up" in one:
            lines.append(f"{start} {one['gave up']} | | | | |")
            continue
        ours = base.get((one["data"], one["rows"]))
        ratio = f"{one[key] / ours:.2f}" if ours else ""
        lines.append(
            f"{start} {one['seconds']:.1f} | {one[key]:.1f} | {ratio} | "
            f"{one['gigabytes']:.2f} | {one['recall']:.3f} |"
        )
    return "\n".join(lines) + "\n"


def versions() -> dict[str, str]:
    """Of the libraries that are installed."""
    found = {}
    for name in ("faiss-cpu", "hnswlib", "pynndescent"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def main() -> None:
    """Measure each case in its own process, beside those that were measured before."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=["clusters", "cloud"])
    parser.add_argument("--rows", nargs="+", type=int, default=[20_000, 100_000])
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--minutes", type=float, default=5.0, help="the most for one case")
    parser.add_argument("--out", type=Path, default=RESULTS, help="JSON; a table beside it")
    parser.add_argument("--only", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        data, n, method = options.only
        print(json.dumps(measured(data, int(n), method)))
        return
    before = json.loads(options.out.read_text())["found"] if options.out.exists() else []
    known = {(one["data"], one["rows"], one["method"]): one for one in before}
    for data in options.data:
        for n in options.rows:
            for method in options.methods:
                if METHODS[method] == (ours, 0) and n > EXACT_UP_TO:
                    continue
                known[data, n, method] = limited(data, n, method, options.minutes)
                print(json.dumps(known[data, n, method]), flush=True)
                places = (list(DATA), list(METHODS))
                found = sorted(
                    known.values(),
                    key=lambda o: (
                        places[0].index(o["data"]), o["rows"], places[1].index(o["method"])
                    ),
                )  # fmt: skip
                content = {"machine": machine(), "versions": versions(), "found": found}
                options.out.write_text(json.dumps(content, indent=1) + "\n")
                options.out.with_suffix(".md").write_text(report(content))


if __name__ == "__main__":
    main()
