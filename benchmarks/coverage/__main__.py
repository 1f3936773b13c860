"""Coverage and width of intervals for accuracy and Brier score from few labels.

Each replication draws m labelled and 5,000 unlabelled rows from a population with replacement, and
gives the same rows to every interval; the truth is the population's own mean. Coverage comes with
its Monte-Carlo standard error. Needs ppi-python; glide-py takes part where it is installed.

    PYTHONPATH=src DESSL_DATA=... python -m benchmarks.coverage     # an hour and a half on one core
    PYTHONPATH=src python -m benchmarks.coverage --smoke            # seconds

benchmarks/coverage/fine.py then measures the default's coverage more finely.
"""

import argparse
import importlib.metadata
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from benchmarks.machine import machine

from dessl.evaluation.debiased.estimate import bounds_of, chosen_fit
from dessl.evaluation.debiased.intervals import Bounds, tail_of
from dessl.evaluation.debiased.proxies import METRICS, Sample, sampled

from .draws import CONFIDENCES, LABELS, METRIC_NAMES, UNLABELLED, drawn, held
from .limits import width_at_coverage
from .peers import PPIMeanEstimator, glide_ppi, student, tuned_ppi, wilson
from .populations import Population, populations
from .report import markdown, one_record_a_line
from .verdict import DEFAULT

RESULTS = Path(__file__).parents[1] / "results"
BOOTSTRAP_DRAWS = 399
OURS = (DEFAULT, "leverage_t", "cross_fit", "bootstrap")
OTHERS_TAKE_PART = 2000  # replications that our methods other than the default take part in
STRETCHABLE = ("Student t", "ppi-python", "glide-py")  # centre ± quantile · error


class Draws(NamedTuple):
    """Bounds of one interval in all replications of a cell, and which draws had one value of L."""

    low: list[float]
    high: list[float]
    constant: list[bool]


def intervals(
    sample: Sample, metric: str, ours: Sequence[str], generator: torch.Generator
) -> Iterator[tuple[str, float, Bounds]]:
    """Every interval at every confidence: (name, confidence, bounds), peers' not cut to a range."""
    kind = METRICS[metric]
    fits = {name: chosen_fit(sample, kind, name) for name in ours}
    loss, h = sample.loss.numpy(), sample.labelled.h.numpy()
    h_unlabelled = sample.unlabelled.h.numpy()
    for confidence in CONFIDENCES:
        tail = tail_of(confidence, "two-sided")
        for name, fit in fits.items():
            bounds = bounds_of(fit, sample, kind, tail, name, BOOTSTRAP_DRAWS, generator)
            yield name, confidence, bounds
        yield "Student t", confidence, student(loss, confidence)
        if metric == "accuracy":
            yield "Wilson", confidence, wilson(loss, confidence)
        yield "ppi-python", confidence, tuned_ppi(loss, h, h_unlabelled, confidence)
        if PPIMeanEstimator:
            yield "glide-py", confidence, glide_ppi(loss, h, h_unlabelled, confidence)


def cell(population: Population, metric: str, m: int, replications: int) -> list[dict[str, Any]]:
    """Coverage and width of every interval for one population, metric and number of labels."""
    rows = sampled(METRICS[metric], (population.probabilities,), population.y, ())
    truth = float(rows.loss.mean())
    generator, redrawn = (torch.Generator().manual_seed(seed) for seed in (m, 0))
    found: dict[tuple[str, float], Draws] = {}
    for replication in range(replications):
        sample = drawn(rows, m, generator)
        ours = OURS if replication < OTHERS_TAKE_PART else OURS[:1]
        for name, confidence, bounds in intervals(sample, metric, ours, redrawn):
            draws = found.setdefault((name, confidence), Draws([], [], []))
            draws.low.append(bounds.low)
            draws.high.append(bounds.high)
            draws.constant.append(bool((sample.loss == sample.loss[0]).all()))
    place = {"population": population.name, "metric": metric, "truth": truth, "labels": m}
    greatest = METRICS[metric].high
    records = {key: summary(draws, truth, greatest) for key, draws in found.items()}
    for (name, confidence), record in records.items():
        if name in STRETCHABLE:
            low, high = (np.array(bound) for bound in found[name, confidence][:2])
            coverage = records[DEFAULT, confidence]["coverage"]
            width = width_at_coverage(low, high, truth, coverage, greatest)
            record["width_at_default_coverage"] = width
    return [
        {**place, "interval": name, "confidence": confidence, **record}
        for (name, confidence), record in records.items()
    ]


def summary(draws: Draws, truth: float, greatest: float) -> dict[str, Any]:
    """Coverage with its error, misses on either side, width; and the same where L was constant.

    Bounds are cut to the metric's range first: widths are compared there.
    """
    low, high = np.maximum(0.0, draws.low), np.minimum(greatest, draws.high)
    constant = np.array(draws.constant)
    covered = (low <= truth) & (truth <= high)
    return {
        **held(low, high, truth),
        "width": float((high - low).mean()),
        "constant_draws": int(constant.sum()),
        "constant_coverage": float(covered[constant].mean()) if constant.any() else None,
        "constant_width": float((high - low)[constant].mean()) if constant.any() else None,
    }


def packages() -> dict[str, str]:
    """The versions of the packages that take part."""
    names = ("scipy", "scikit-learn", "ppi-python", *(["glide-py"] if PPIMeanEstimator else []))
    versions = {name: importlib.metadata.version(name) for name in names}
    if PPIMeanEstimator and sys.version_info < (3, 12):
        versions["glide-py"] += " (which asks for Python 3.12)"
    return versions


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="few replications, two populations")
    parser.add_argument("--replications", type=int, default=None)
    parser.add_argument("--out", type=Path, default=None, help="folder of the results")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    """Run all cells, print the table, write it down."""
    options = arguments(argv)
    torch.set_num_threads(1)
    replications = options.replications or (10 if options.smoke else 5000)
    labels = (50,) if options.smoke else LABELS
    started, results = time.perf_counter(), []
    for population in populations(options.smoke):
        for metric in METRIC_NAMES:
            for m in labels:
                results += cell(population, metric, m, replications)
        print(f"{population.name}: {time.perf_counter() - started:.0f} s", flush=True)
    seconds = time.perf_counter() - started
    report = {
        "machine": machine(**packages()),
        "unlabelled": UNLABELLED,
        "seconds": seconds,
        "results": results,
    }
    print(markdown(report))
    folder = options.out or (None if options.smoke else RESULTS)
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "coverage.json").write_text(one_record_a_line(report))
        (folder / "coverage.md").write_text(markdown(report))


if __name__ == "__main__":
    main()
