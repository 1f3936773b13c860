"""The default interval's coverage measured anew, by more draws than its peers had.

With 5,000 replications coverage has an error of up to 0.5 points, which is much beside the 1.5 that
it is held to from 50 labels on. There the default has 20,000 of its own here, with other seeds than
benchmarks/coverage, and what they say of its coverage is written into that one's results;
widths, which are compared with the peers' on the same draws, stay.

    PYTHONPATH=src DESSL_DATA=... python -m benchmarks.coverage.fine --populations P.npz --out FILE
    PYTHONPATH=src python -m benchmarks.coverage.fine --take FILE       # into coverage.json and .md

The first writes the populations down where P.npz does not exist, and reads them where it does:
another machine, whose scikit-learn may fit other models, then measures the same ones.
"""

import argparse
import json
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.machine import machine

from dessl._files import write_whole
from dessl.evaluation.debiased.estimate import chosen_fit
from dessl.evaluation.debiased.intervals import tail_of
from dessl.evaluation.debiased.proxies import METRICS, sampled
from dessl.evaluation.debiased.score import score_bounds

from .draws import CONFIDENCES, LABELS, METRIC_NAMES, drawn, held
from .populations import Population, populations
from .report import markdown, one_record_a_line
from .verdict import DEFAULT, ENOUGH_LABELS

RESULTS = Path(__file__).parents[1] / "results"
REPLICATIONS = 20_000
FIRST_SEED = 10_000  # to which m is added


def measured(
    population: tuple[str, Any, Any], metric: str, m: int, replications: int
) -> list[dict[str, Any]]:
    """The default's coverage of one population, metric and number of labels, by confidence."""
    torch.set_num_threads(1)
    name, probabilities, y = population
    kind = METRICS[metric]
    rows = sampled(kind, (probabilities,), y, ())
    generator = torch.Generator().manual_seed(FIRST_SEED + m)
    bounds = np.empty((len(CONFIDENCES), replications, 2))
    for replication in range(replications):
        sample = drawn(rows, m, generator)
        fit = chosen_fit(sample, kind, DEFAULT)
        for k, confidence in enumerate(CONFIDENCES):
            tail = tail_of(confidence, "two-sided")
            bounds[k, replication] = score_bounds(fit, sample, kind, tail)
    truth = float(rows.loss.mean())
    place = {"population": name, "metric": metric, "labels": m}
    return [
        {**place, "confidence": confidence, **held(low, high, truth)}
        for confidence, (low, high) in zip(CONFIDENCES, bounds.transpose(0, 2, 1), strict=True)
    ]


def kept_populations(file: Path | None, smoke: bool) -> list[Population]:
    """The populations of a file; where there is none they are built, and written to it."""
    if file is None or not file.exists():
        built = list(populations(smoke))
        if file is not None:
            arrays = {f"p{i}": p.probabilities.numpy() for i, p in enumerate(built)}
            labels = {f"y{i}": p.y.numpy() for i, p in enumerate(built)}
            np.savez(file, names=np.array([p.name for p in built]), **arrays, **labels)
        return built
    with np.load(file, allow_pickle=False) as found:
        return [
            Population(str(name), torch.as_tensor(found[f"p{i}"]), torch.as_tensor(found[f"y{i}"]))
            for i, name in enumerate(found["names"])
        ]


def taken(report: dict[str, Any], fine: dict[str, Any]) -> dict[str, Any]:
    """The report with the default's coverage as measured here."""
    found = {_key(r): r for r in fine["results"]}
    results = [
        r | found.get(_key(r), {}) if r["interval"] == DEFAULT else r for r in report["results"]
    ]
    return {**report, "fine_machine": fine["machine"], "results": results}


def _key(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(record[name] for name in ("population", "metric", "labels", "confidence"))


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="few replications, two populations")
    parser.add_argument("--replications", type=int, default=None)
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--populations", type=Path, help="a .npz of them, read or written")
    parser.add_argument("--out", type=Path, help="a file for what is measured")
    parser.add_argument("--take", type=Path, help="measure nothing: take this file's results")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of coverage.json")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure all cells, or take what was measured into the results."""
    options = arguments(argv)
    if options.take:
        file = options.results / "coverage.json"
        report = taken(json.loads(file.read_text()), json.loads(options.take.read_text()))
        write_whole(file, one_record_a_line(report))
        write_whole(file.with_suffix(".md"), markdown(report))
        return
    started = time.perf_counter()
    replications = options.replications or (10 if options.smoke else REPLICATIONS)
    cells = [
        ((p.name, p.probabilities.numpy(), p.y.numpy()), metric, m)
        for p in kept_populations(options.populations, options.smoke)
        for metric in METRIC_NAMES
        for m in ((50,) if options.smoke else LABELS)
        if m >= ENOUGH_LABELS
    ]
    with ProcessPoolExecutor(options.workers) as pool:
        waiting = [pool.submit(measured, *cell, replications) for cell in cells]
        results = []
        for future in waiting:
            results += future.result()
            seconds = round(time.perf_counter() - started)
            for r in results[-len(CONFIDENCES) :]:
                print(f"{seconds} s: {r}", flush=True)
            if options.out:
                report = {"machine": machine(seconds=seconds), "results": results}
                write_whole(options.out, one_record_a_line(report))


if __name__ == "__main__":
    main()
