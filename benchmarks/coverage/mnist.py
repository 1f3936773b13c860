"""Coverage on MNIST with labels drawn by the designs of benchmarks/propensity.py.

A network is trained as there: on 12,000 images, of which digit k is labelled with probability
0.03 · 10^(k/9), with known propensities; a second one, the complete case, is compared with it. The
other 58,000 images are the population. Each replication draws 1,000 or 4,000 of them and labels
them anew, by class or by brightness (0.03 to 0.3), and asks for the 90 % and 95 % intervals of
accuracy, Brier score and capped cross-entropy, of the first network and of the difference of both:

known              the true probabilities of the labelled rows
EM from y          estimated by class, with strata=y; of 4,000 rows
estimated from x   by logistic regression on 50 principal components; of 4,000 rows
not told           labels taken as missing at random

    PYTHONPATH=src:benchmarks python -m benchmarks.coverage.mnist MNIST_FOLDER --rows ROWS.npz
    PYTHONPATH=src:benchmarks python -m benchmarks.coverage.mnist --rows ROWS.npz --jobs 16

The first trains the networks and writes what they answer; the second needs nothing else.
Results are written as they come, and cells that are there are not measured again.
"""

import argparse
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from benchmarks.machine import machine
from numpy.typing import NDArray
from torch import Tensor

from dessl import SemiData
from dessl._files import write_whole
from dessl.evaluation.debiased.compare import compared_bounds, compared_fit
from dessl.evaluation.debiased.design import Design, best_design, design_of
from dessl.evaluation.debiased.estimate import bounds_of, chosen_fit
from dessl.evaluation.debiased.intervals import tail_of
from dessl.evaluation.debiased.proxies import METRICS, Metric, Proxies, Sample, sampled
from dessl.safety.propensity import propensity_from_x, propensity_from_y

from .draws import CONFIDENCES, held
from .more_report import covered, near_nominal, table
from .report import one_record_a_line

RESULTS = Path(__file__).parents[1] / "results"
WAYS = ("known", "EM from y", "estimated from x", "not told")
ESTIMATED = {"class": "EM from y", "brightness": "estimated from x"}
LEAST_ROWS = 4000  # to estimate: EM needs three labels of each class, one of which has 3 % of them
NAMES = ("accuracy", "brier", "cross_entropy")
REPLICATIONS, BLOCK = 4000, 250

Record = dict[str, Any]


class Rows(NamedTuple):
    """The population: classes, principal components, chances by design, L and H by question."""

    y: Tensor
    z: Tensor
    chances: dict[str, Tensor]
    asked: dict[tuple[str, str], Sample]  # (metric, "one model" or "two models")


def prepare(folder: Path, file: Path) -> None:
    """Train the two networks and write what they answer to the other images."""
    from dessl.safety.propensity import known_propensity
    from dessl.teachers.space import Space
    from propensity import LAM, ROWS, chances, read_mnist, trained

    parts = read_mnist(folder)
    x, y = torch.cat(parts[::2]), torch.cat(parts[1::2])
    generator = torch.Generator().manual_seed(1000)
    order = torch.randperm(len(y), generator=generator)
    own, rest = order[:ROWS], order[ROWS:]
    chance = chances("class", x[own], y[own])
    labelled = torch.rand(ROWS, generator=generator, dtype=torch.float64) < chance
    space = Space.of(x[own])
    data = SemiData(space(x[own]), torch.where(labelled, y[own], -1))
    networks = (
        trained(known_propensity(data, chance).on(data), "debiased", LAM, seed=0),
        trained(data, "complete_case", 0.0, seed=0),
    )
    z = space(x[rest]).float()
    with torch.no_grad():
        first, second = (network.eval()(z).softmax(1).numpy() for network in networks)
    by_design = {design: chances(design, x[rest], y[rest]).numpy() for design in ESTIMATED}
    np.savez(file, first=first, second=second, y=y[rest].numpy(), z=z.numpy(), **by_design)


@cache
def read(file: Path) -> Rows:
    """The population, with L and H of every row."""
    torch.set_num_threads(1)
    with np.load(file, allow_pickle=False) as found:
        y = torch.from_numpy(found["y"])
        p = [torch.from_numpy(found[name]).double() for name in ("first", "second")]
        p = [one / one.sum(1, keepdim=True) for one in p]
        asked = {
            (name, models): sampled(METRICS[name], tuple(p[:n]), y, ())
            for name in NAMES
            for models, n in (("one model", 1), ("two models", 2))
        }
        chances = {design: torch.from_numpy(found[design]) for design in ESTIMATED}
        return Rows(y, torch.from_numpy(found["z"]), chances, asked)


def designs(
    rows: Rows, design: str, pool: Tensor, drawn: Tensor, ways: Sequence[str]
) -> Iterator[tuple[str, Design | None]]:
    """How the labels were drawn, as it is known or estimated; None if nothing is."""
    known, y = pool[drawn], rows.y[pool]
    counts = len(known), len(pool) - len(known)
    if "not told" in ways:
        yield "not told", None
    if "known" in ways:
        yield "known", design_of(*counts, rows.chances[design][known], None, None)
    if len(pool) < LEAST_ROWS or ESTIMATED[design] not in ways:
        return
    data = SemiData(rows.z[pool], torch.where(drawn, y, -1), class_names=tuple("0123456789"))
    if design == "class":
        chances, strata = propensity_from_y(data).values[drawn], y[drawn]
    else:
        chances, strata = propensity_from_x(data).values[drawn], None
    yield ESTIMATED[design], design_of(*counts, chances, strata, None)


def bounds(
    sample: Sample, design: Design | None, metric: Metric, models: str
) -> list[tuple[float, float]]:
    """The interval at each confidence."""
    tails = [tail_of(confidence, "two-sided") for confidence in CONFIDENCES]
    if models == "two models":
        fit = compared_fit(sample, design)
        return [compared_bounds(fit, sample, metric, tail) for tail in tails]
    fit = best_design(sample, design) if design else chosen_fit(sample, metric, "score")
    source = torch.Generator()
    return [bounds_of(fit, sample, metric, tail, "score", 99, source) for tail in tails]


def replications(
    file: Path, design: str, n: int, seeds: range, ways: Sequence[str] = WAYS
) -> dict[tuple[str, str, str], NDArray[np.float64]]:
    """Bounds (seeds, confidences, 2) by way, metric and models."""
    rows = read(file)
    found: dict[tuple[str, str, str], list[Any]] = {}
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        pool = torch.randint(len(rows.y), (n,), generator=generator)
        uniform = torch.rand(n, generator=generator, dtype=torch.float64)
        drawn = uniform < rows.chances[design][pool]
        fewest = int(rows.y[pool[drawn]].bincount(minlength=10).min())
        if n >= LEAST_ROWS and fewest < 3:
            continue
        for way, told in designs(rows, design, pool, drawn, ways):
            for (name, models), every in rows.asked.items():
                labelled, others = (
                    Proxies(*(part[..., i] for part in every.labelled if part is not None))
                    for i in (pool[drawn], pool[~drawn])
                )
                sample = Sample(every.loss[pool[drawn]], labelled, others)
                two = bounds(sample, told, METRICS[name], models)
                found.setdefault((way, name, models), []).append(two)
    return {key: np.array(values) for key, values in found.items()}


def cell(
    file: Path, design: str, n: int, draws: int, pool: ProcessPoolExecutor
) -> Iterator[Record]:
    """All records of one design and number of rows."""
    blocks = [range(first, min(draws, first + BLOCK)) for first in range(0, draws, BLOCK)]
    parts = list(pool.map(replications, repeat(file), repeat(design), repeat(n), blocks))
    found = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    return records(read(file), design, n, found)


def records(
    rows: Rows, design: str, n: int, found: Mapping[tuple[str, str, str], NDArray[np.float64]]
) -> Iterator[Record]:
    """Coverage and width of bounds (replications, confidences, 2), by way, metric and models."""
    labels = float(rows.chances[design].mean()) * n
    for (way, name, models), bounds in found.items():
        truth = float(rows.asked[name, models].loss.mean())
        for k, confidence in enumerate(CONFIDENCES):
            low, high = bounds[:, k].T
            yield {
                "design": design, "rows": n, "labels": round(labels), "way": way, "metric": name,
                "models": models, "confidence": confidence, "truth": truth,
                **held(low, high, truth), "width": float((high - low).mean()),
            }  # fmt: skip


def markdown(report: Mapping[str, Any]) -> str:
    """One table a question."""
    facts = ", ".join(f"{name} {value}" for name, value in report["machine"].items())
    results: list[Record] = report["results"]
    draws = [r["replications"] for r in results]
    lines = [
        "# Coverage on MNIST with labels drawn by class and by brightness",
        "",
        f"`benchmarks/coverage/mnist.py`. {min(draws)} to {max(draws)} draws a cell, each "
        f"of 4,000 or 1,000 of 58,000 images. {facts}.",
        "",
        "Coverage in % ± its Monte-Carlo standard error; bold: within 1.5 points of nominal.",
    ]
    for models, title in (("one model", "One model"), ("two models", "Difference of two models")):
        own = [r for r in results if r["models"] == models]
        told = [r for r in own if r["way"] != "not told"]
        lines += ["", f"## {title}", "", "Told of the design: " + near_nominal(told), ""]
        cells: dict[tuple[Any, ...], list[Record]] = {}
        for r in own:
            cells.setdefault((r["design"], r["labels"], r["way"], r["metric"]), []).append(r)
        made = [
            [design, str(labels), way, f"{name} ({two[0]['truth']:.3f})", *map(covered, two),
             f"{two[-1]['width']:.4f}", str(two[-1]["replications"])]
            for (design, labels, way, name), two in cells.items()
        ]  # fmt: skip
        heads = ("design", "labels", "propensities", "metric (truth)", "coverage, 90 %",
                 "coverage, 95 %", "width", "draws")  # fmt: skip
        lines += table(heads, made)
    return "\n".join(lines) + "\n"


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mnist", type=Path, nargs="?", help="its folder, to train the networks")
    parser.add_argument("--rows", type=Path, required=True, help="the .npz of the population")
    parser.add_argument("--out", type=Path, default=RESULTS / "coverage_mnist.json")
    parser.add_argument("--replications", type=int, default=REPLICATIONS)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--minutes", type=float, default=math.inf, help="start no cell after them")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    """Train, or measure what is not there yet and write it."""
    options = arguments(argv)
    if options.mnist:
        prepare(options.mnist, options.rows)
        return
    started = time.monotonic()
    results = json.loads(options.out.read_text())["results"] if options.out.exists() else []
    done = {(r["design"], r["rows"]) for r in results}
    with ProcessPoolExecutor(options.jobs) as pool:
        for n in (4000, 1000):
            for design in ESTIMATED:
                late = time.monotonic() - started > 60 * options.minutes
                if (design, n) in done or late:
                    continue
                results += cell(options.rows, design, n, options.replications, pool)
                report = {"machine": machine(), "results": results}
                write_whole(options.out, one_record_a_line(report))
                write_whole(options.out.with_suffix(".md"), markdown(report))
                print(f"{time.monotonic() - started:.0f} s: {design}, {n} rows", flush=True)


if __name__ == "__main__":
    main()
