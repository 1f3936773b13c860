"""Coverage beyond accuracy and Brier score: capped losses, rates, designs, shifts, sets, peers.

Each replication draws labelled and unlabelled rows from a population with replacement, or by a
design, and asks the library's own functions; the truth is the population's. Every kind of cell is a
function that returns its records; cells that the results file has with as many replications are not
run again, so that the study can be cut into pieces.

    PYTHONPATH=src python -m benchmarks.coverage.more --jobs 16
    PYTHONPATH=src python -m benchmarks.coverage.more --minutes 5      # and later go on
    PYTHONPATH=src python -m benchmarks.coverage.more --smoke          # seconds, writes nothing
"""

import argparse
import contextlib
import importlib.metadata
import itertools
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from benchmarks.machine import machine

from dessl._files import write_whole
from dessl.evaluation.conformal import prediction_sets
from dessl.evaluation.debiased.calibration import estimate_ece
from dessl.evaluation.debiased.compare import compare_models, compared_bounds, compared_fit
from dessl.evaluation.debiased.design import best_design, design_of, designed
from dessl.evaluation.debiased.estimate import bounds_of, chosen_fit
from dessl.evaluation.debiased.fit import fitted
from dessl.evaluation.debiased.inputs import HowLabelled, MetricRequest, prepared
from dessl.evaluation.debiased.intervals import Bounds, tail_of
from dessl.evaluation.debiased.proxies import CLIP, METRICS, Proxies, Sample, sampled
from dessl.evaluation.debiased.rates import rate_metric
from dessl.evaluation.debiased.shift import shift_test

from .draws import held
from .more_report import markdown
from .populations import Population, predicted, simulated, timid, useless
from .report import one_record_a_line

RESULTS = Path(__file__).parents[1] / "results"
REPLICATIONS = {
    "capped": 5000, "few": 5000, "rate": 3000, "stratified": 3000, "active": 3000,
    "class-balanced": 3000, "shift": 2000, "sets": 1000, "compared": 3000, "ece": 1000,
    "peers": 500, "compared, active": 2000, "compared, avoiding": 2000,
}  # fmt: skip
UNLABELLED = 2000
CONFIDENCES = (0.90, 0.95)
AT_RANDOM = HowLabelled()

Record = dict[str, Any]
Cell = Callable[[int], list[Record]]  # replications → records


class Key(NamedTuple):
    """What a cell measures; written into each of its records."""

    kind: str
    population: str
    what: str
    labels: int


@cache
def population(name: str) -> Population:
    """A population by name; none needs more than scikit-learn's digits."""
    made: dict[str, Callable[[], Population]] = {
        "calibrated": lambda: simulated(name, 0.85),
        "over-confident": lambda: simulated(name, 0.85, temperature=0.3),
        "useless": lambda: useless(name, 0.85),
        "nearly always right": lambda: simulated(name, 0.98),
        "timid": lambda: simulated(name, 0.95, temperature=2.0),
        "two kinds": lambda: timid(name),
        "two classes": lambda: skewed(name, 0.5),
        "one in ten": lambda: skewed(name, 0.1),
        "digits, logistic": lambda: digits(name, 60, network=False),
        "digits, network": lambda: digits(name, 200, network=True),
    }
    return made[name]()


def skewed(name: str, share: float) -> Population:
    """Two classes, the second with this share, and a model that is somewhat over-confident."""
    rng = np.random.default_rng(0)
    y = (rng.random(40_000) < share).astype(np.int64)
    odds = 1.8 * y - 0.9 + rng.normal(size=40_000)
    p = 1 / (1 + np.exp(-(2.4 * odds + np.log(share / (1 - share)))))
    return Population(name, torch.as_tensor(np.stack([1 - p, p], axis=1)), torch.as_tensor(y))


def digits(name: str, rows: int, *, network: bool) -> Population:
    """Models of scikit-learn's digits."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier

    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    x, y = x[order] / 16, y[order]
    model = MLPClassifier((64,), max_iter=300, random_state=0) if network else LogisticRegression()
    return predicted(name, model, x[:rows], y[:rows], x[rows:], y[rows:])


def summarised(key: Key, truth: float, bounds: np.ndarray, **more: Any) -> list[Record]:
    """One record a confidence; bounds are (replications, confidences, 2)."""
    return [
        {
            **key._asdict(),
            "confidence": confidence,
            "truth": truth,
            **held(low, high, truth),
            "width": float((high - low).mean()),
            **more,
        }
        for confidence, (low, high) in zip(CONFIDENCES, bounds.transpose(1, 2, 0), strict=True)
    ]


def of_means(key: Key, replications: int) -> list[Record]:
    """Means of rows, whose proxies do not depend on the draw: accuracy, Brier, cross-entropy."""
    metric, source = METRICS[key.what], population(key.population)
    rows = sampled(metric, (source.probabilities,), source.y, ())
    generator = torch.Generator().manual_seed(key.labels)
    bounds = np.empty((replications, len(CONFIDENCES), 2))

    def taken(index: torch.Tensor) -> Proxies:
        return Proxies(rows.labelled.h[index], rows.labelled.moments[:, index])

    for r in range(replications):
        known, others = (
            torch.randint(len(rows.loss), (n,), generator=generator)
            for n in (key.labels, UNLABELLED)
        )
        sample = Sample(rows.loss[known], taken(known), taken(others))
        fit = chosen_fit(sample, metric, "score")
        for k, confidence in enumerate(CONFIDENCES):
            tail = tail_of(confidence, "two-sided")
            bounds[r, k] = bounds_of(fit, sample, metric, tail, "score", 99, generator)
    return summarised(key, float(rows.loss.mean()), bounds)


def options_of(metric: str, classes: int) -> dict[str, Any]:
    """The class and threshold of a rate."""
    if metric in ("recall", "precision", "tpr", "fpr"):
        more = {"threshold": 0.3} if metric in ("tpr", "fpr") else {}
        return {"positive": 1, **more}
    return {"positive": 1} if metric == "auc" and classes == 2 else {}


def two_bounds(
    asked: MetricRequest, p: Any, y: Any, others: Any, how: HowLabelled = AT_RANDOM
) -> tuple[list[Bounds], float, float]:
    """Bounds at both confidences by one fit, the labelled rows' width at 95 %, effective labels."""
    sample, kind, design = prepared(asked, (p,), y, (others,), how)
    fit = chosen_fit(sample, kind, "score") if design is None else best_design(sample, design)
    alone = fitted(sample.alone) if design is None else designed(sample.alone, design)
    source = torch.Generator()
    tails = [tail_of(confidence, "two-sided") for confidence in CONFIDENCES]
    bounds = [bounds_of(fit, sample, kind, tail, "score", 99, source) for tail in tails]
    low, high = bounds_of(alone, sample.alone, kind, tails[-1], "score", 99, source)
    return bounds, high - low, fit.labels


def of_rates(key: Key, replications: int) -> list[Record]:
    """Rates; a draw without rows of a class is drawn again."""
    p, y = population(key.population)[1:]
    options = options_of(key.what, p.shape[1])
    asked = MetricRequest(key.what, **options)
    kind, _ = rate_metric(key.what, p, y, **options)
    truth = float(kind.values(p)[torch.arange(len(y)), y].mean())
    generator = torch.Generator().manual_seed(key.labels)
    found, widths, redrawn = [], [], 0
    while len(found) < replications:
        known, others = (
            torch.randint(len(y), (n,), generator=generator) for n in (key.labels, UNLABELLED)
        )
        try:
            bounds, width, _ = two_bounds(asked, p[known], y[known], p[others])
        except ValueError:
            redrawn += 1
            continue
        found.append(bounds)
        widths.append(width)
    records = summarised(key, truth, np.array(found), redrawn=redrawn)
    records[-1]["labelled_only_width"] = float(np.mean(widths))
    return records


def design_rows(
    key: Key, source: Population, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Labelled rows, unlabelled rows and how they were drawn; 4,000 rows are the population."""
    pool = rng.integers(len(source.y), size=4000)
    p, y = source.probabilities.numpy()[pool], source.y.numpy()[pool]
    unsure = 1 - p.max(axis=1)
    if key.kind == "stratified":  # as many from the sure half as from the unsure quarters
        strata = np.digitize(unsure, np.quantile(unsure, (0.5, 0.75)))
        known = np.concatenate(
            [rng.choice(np.flatnonzero(strata == s), key.labels // 3, False) for s in range(3)]
        )
        others = np.setdiff1d(np.arange(4000), known)
        return pool[known], pool[others], {
            "strata": strata[known], "strata_unlabelled": strata[others],
        }  # fmt: skip
    if key.kind.endswith(("active", "avoiding")):
        relative = unsure / unsure.max()
        # Unsure rows are up to five times as likely to be labelled, or up to eleven times less.
        active = key.kind.endswith("active")
        chance = 0.25 + relative if active else 0.1 + (1 - relative) ** 2
        chance *= key.labels / chance.sum()
        drawn = rng.random(4000) < chance
        return pool[drawn], pool[~drawn], {"propensity": chance[drawn]}
    classes = source.probabilities.shape[1]  # class-balanced
    known = np.concatenate(
        [rng.choice(np.flatnonzero(y == c), key.labels // classes, False) for c in range(classes)]
    )
    shares = np.bincount(y, minlength=classes) / key.labels * classes
    others = np.setdiff1d(np.arange(4000), known)
    return pool[known], pool[others], {"propensity": 1 / shares[y[known]], "strata": y[known]}


def of_designs(key: Key, replications: int) -> list[Record]:
    """Labels drawn by design, told of it and not."""
    source = population(key.population)
    p, y = source.probabilities.numpy(), source.y.numpy()
    truth = float(sampled(METRICS[key.what], (p,), y, ()).loss.mean())
    rng = np.random.default_rng(key.labels)
    told, naive, labels = [], [], []
    for _ in range(replications):
        known, others, how = design_rows(key, source, rng)
        rows = (MetricRequest(key.what), p[known], y[known], p[others])
        bounds, _, effective = two_bounds(*rows, HowLabelled(**how))
        told.append(bounds)
        labels.append(effective)
        naive.append(two_bounds(*rows)[0])
    records = summarised(key, truth, np.array(told), effective_labels=float(np.mean(labels)))
    for record, plain in zip(records, summarised(key, truth, np.array(naive)), strict=True):
        record["naive_coverage"] = plain["coverage"]
    return records


def shifted(key: Key, source: Population, rng: np.random.Generator) -> np.ndarray:
    """The unlabelled rows of a kind of shift."""
    p, y = source.probabilities.numpy(), source.y.numpy()
    unsure = 1 - p.max(axis=1)
    weights = {
        "none": np.ones(len(y)),
        "classes": np.where(y == 0, 0.25, 1.0),
        "hard rows": 0.2 + 2 * unsure / unsure.max(),
        "easy rows": np.clip(1.2 - 2 * unsure / unsure.max(), 0.05, None),
    }[key.what]
    return rng.choice(len(y), UNLABELLED, p=weights / weights.sum())


def of_shifts(key: Key, replications: int) -> list[Record]:
    """How often the warning comes, and how often the interval holds the labelled rows' truth."""
    source = population(key.population)
    rows = sampled(METRICS["accuracy"], (source.probabilities,), source.y, ())
    rng, generator = np.random.default_rng(key.labels), torch.Generator().manual_seed(0)
    p_values, covered = np.empty(replications), 0
    n = len(rows.loss)

    def taken(index: np.ndarray) -> Proxies:
        return Proxies(*(part[..., index] for part in rows.labelled if part is not None))

    for r in range(replications):
        known, others = rng.integers(n, size=key.labels), shifted(key, source, rng)
        sample = Sample(rows.loss[known], taken(known), taken(others))
        p_values[r] = shift_test(sample.labelled, sample.unlabelled).p_value
        truth = float(rows.loss[torch.as_tensor(others)].mean()) if key.what != "none" else None
        goal = float(rows.loss.mean()) if truth is None else truth
        fit = chosen_fit(sample, METRICS["accuracy"], "score")
        tail = tail_of(0.95, "two-sided")
        low, high = bounds_of(fit, sample, METRICS["accuracy"], tail, "score", 99, generator)
        covered += low <= goal <= high
    return [
        {
            **key._asdict(),
            "confidence": 0.95,
            "warned": float((p_values < 0.01).mean()),
            "below_5_percent": float((p_values < 0.05).mean()),
            "coverage": covered / replications,
            "replications": replications,
        }
    ]


def of_sets(key: Key, replications: int) -> list[Record]:
    """Coverage and size of prediction sets, with and without unlabelled rows."""
    source = population(key.population)
    p, y = source.probabilities, source.y
    generator = torch.Generator().manual_seed(key.labels)
    scores = 1 - p[torch.arange(len(y)), y]
    found = np.empty((replications, 2))
    for r in range(replications):
        known, others = (
            torch.randint(len(y), (n,), generator=generator) for n in (key.labels, UNLABELLED)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rule = prediction_sets(
                p[known], y[known], p[others] if key.what == "debiased" else None,
                coverage=0.9, check_shift=False,
            )  # fmt: skip
        inside = float((scores <= rule.threshold).double().mean())
        size = float((1 - p[:4000] <= rule.threshold).sum(dim=1).double().mean())
        found[r] = inside, size
    return [
        {
            **key._asdict(),
            "confidence": 0.9,
            "coverage": float(found[:, 0].mean()),
            "coverage_error": float(found[:, 0].std() / np.sqrt(replications)),
            "coverage_spread": float(found[:, 0].std()),
            "below_85": float((found[:, 0] < 0.85).mean()),
            "width": float(found[:, 1].mean()),
            "replications": replications,
        }
    ]


def of_comparisons(key: Key, replications: int) -> list[Record]:
    """Two models of one population: ours, and one with noisier logits."""
    a, y = population(key.population)[1:]
    b = noisier(a)
    rows = torch.arange(len(y))
    if key.what == "wins":
        truth = float((a[rows, y] - b[rows, y]).sign().mean())
    else:
        one, two = (sampled(METRICS[key.what], (p,), y, ()).loss for p in (a, b))
        truth = float((one - two).mean())
    generator = torch.Generator().manual_seed(key.labels)
    bounds = np.empty((replications, len(CONFIDENCES), 2))
    alone = 0.0
    for r in range(replications):
        i, u = (torch.randint(len(y), (n,), generator=generator) for n in (key.labels, UNLABELLED))
        for k, confidence in enumerate(CONFIDENCES):
            found = compare_models(
                key.what, a[i], b[i], y[i], a[u], b[u], confidence=confidence, check_shift=False
            )
            bounds[r, k] = found.low, found.high
        alone += (found.labelled_only.high - found.labelled_only.low) / replications
    records = summarised(key, truth, bounds)
    records[-1]["labelled_only_width"] = alone
    return records


def noisier(p: torch.Tensor) -> torch.Tensor:
    """The probabilities of a model with noisier logits."""
    noise = torch.randn(p.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return torch.softmax(torch.log(p.clamp(min=1e-12)) + 0.8 * noise, dim=1)


def of_designed_comparisons(key: Key, replications: int) -> list[Record]:
    """The same two models, with rows labelled by how unsure the first one is."""
    source = population(key.population)
    both = (source.probabilities, noisier(source.probabilities))
    metric = METRICS[key.what]
    every = sampled(metric, both, source.y, ())
    rng = np.random.default_rng(key.labels)
    tails = [tail_of(confidence, "two-sided") for confidence in CONFIDENCES]
    bounds, labels = [], []
    for _ in range(replications):
        known, others, how = design_rows(key, source, rng)
        own, rest = (
            Proxies(*(part[..., i] for part in every.labelled if part is not None))
            for i in (known, others)
        )
        sample = Sample(every.loss[known], own, rest)
        design = design_of(len(known), len(others), how["propensity"], None, None)
        fit = compared_fit(sample, design)
        bounds.append([compared_bounds(fit, sample, metric, tail) for tail in tails])
        labels.append(fit.labels)
    truth = float(every.loss.mean())
    return summarised(key, truth, np.array(bounds), effective_labels=float(np.mean(labels)))


def of_ece(key: Key, replications: int) -> list[Record]:
    """The calibration error's estimate, and its interval, beside the binned truth."""
    p, y = population(key.population)[1:]
    bins = min(15, max(2, key.labels // 10))
    truth = estimate_ece(p, y, n_bins=bins, draws=99).plug_in
    generator = torch.Generator().manual_seed(key.labels)
    found = []
    for _ in range(replications):
        i, u = (torch.randint(len(y), (n,), generator=generator) for n in (key.labels, UNLABELLED))
        found.append(estimate_ece(p[i], y[i], p[u], draws=99))
    values = np.array([one.value for one in found])
    inside = np.mean([one.low <= truth <= one.high for one in found])
    return [
        {
            **key._asdict(),
            "confidence": 0.95,
            "truth": truth,
            "value": float(values.mean()),
            "value_error": float(values.std() / np.sqrt(replications)),
            "if_calibrated": float(np.mean([one.if_calibrated for one in found])),
            "plug_in": float(np.mean([one.plug_in for one in found])),
            "coverage": float(inside),
            "coverage_error": float(np.sqrt(inside * (1 - inside) / replications)),
            "replications": replications,
        }
    ]


def of_peers(key: Key, replications: int) -> list[Record]:
    """Peers on the same draws as the default."""
    from .more_peers import PEERS

    metric, source = METRICS[key.what], population(key.population)
    rows = sampled(metric, (source.probabilities,), source.y, ())
    generator = torch.Generator().manual_seed(key.labels)
    bounds: dict[str, list[Any]] = {}

    def taken(index: torch.Tensor) -> Proxies:
        return Proxies(rows.labelled.h[index], rows.labelled.moments[:, index])

    for _ in range(replications):
        known, others = (
            torch.randint(len(rows.loss), (n,), generator=generator)
            for n in (key.labels, UNLABELLED)
        )
        sample = Sample(rows.loss[known], taken(known), taken(others))
        arrays = (sample.loss.numpy(), sample.labelled.h.numpy(), sample.unlabelled.h.numpy())
        fit = chosen_fit(sample, metric, "score")
        ours = [
            bounds_of(fit, sample, metric, tail_of(c, "two-sided"), "score", 99, generator)
            for c in CONFIDENCES
        ]
        bounds.setdefault("score", []).append(ours)
        for name, interval in PEERS.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                two = [interval(*arrays, confidence) for confidence in CONFIDENCES]
            bounds.setdefault(name, []).append(two)
    truth = float(rows.loss.mean())
    records = []
    for name, found in bounds.items():
        clipped = np.clip(np.array(found, dtype=float), metric.low, metric.high)
        records += summarised(key, truth, clipped, interval=name)
    return records


MEANS = tuple(itertools.product(
    ("calibrated", "over-confident", "useless", "nearly always right", "timid", "two kinds",
     "digits, logistic", "digits, network"),
    (50, 200),
))  # fmt: skip
RATES_OF = {
    "one in ten": ("auc", "recall", "precision", "macro_f1"),
    "two classes": ("auc", "tpr", "precision"),
    "calibrated": ("auc", "balanced_accuracy", "macro_f1"),
}
KINDS: dict[str, Callable[[Key, int], list[Record]]] = {
    "capped": of_means,
    "few": of_means,
    "rate": of_rates,
    "stratified": of_designs,
    "active": of_designs,
    "class-balanced": of_designs,
    "shift": of_shifts,
    "sets": of_sets,
    "compared": of_comparisons,
    "compared, active": of_designed_comparisons,
    "compared, avoiding": of_designed_comparisons,
    "ece": of_ece,
    "peers": of_peers,
}


def cells() -> Iterator[Key]:
    """All cells, the most telling ones first."""
    for name, m in (("calibrated", 50), ("calibrated", 200), ("digits, logistic", 50)):
        for what in ("none", "classes", "hard rows", "easy rows"):
            yield Key("shift", name, what, m)
    for name, m in MEANS:
        yield Key("capped", name, "cross_entropy", m)
    for kind, name in (
        ("class-balanced", "one in ten"),
        ("stratified", "calibrated"),
        ("active", "calibrated"),
    ):
        for what, m in itertools.product(("accuracy", "brier"), (60, 240)):
            yield Key(kind, name, what, m)
    for m, (name, rates) in itertools.product((100, 400), RATES_OF.items()):
        for what in rates:
            yield Key("rate", name, what, m)
    for name, m in itertools.product(("calibrated", "useless", "digits, logistic"), (20, 50, 200)):
        for what in ("split", "debiased"):
            yield Key("sets", name, what, m)
    for name, m in itertools.product(("calibrated", "over-confident", "two kinds"), (20, 30)):
        yield Key("few", name, "accuracy", m)
    for name, m in itertools.product(("digits, logistic", "calibrated"), (50, 200)):
        for what in ("accuracy", "brier", "cross_entropy", "wins"):
            yield Key("compared", name, what, m)
    for kind, name, m in itertools.product(
        ("compared, active", "compared, avoiding"), ("calibrated", "digits, logistic"), (60, 240)
    ):
        for what in ("accuracy", "brier", "cross_entropy"):
            yield Key(kind, name, what, m)
    for name in ("calibrated", "over-confident"):
        yield Key("ece", name, "ece", 100)
    for name, what in (("over-confident", "accuracy"), ("calibrated", "brier")):
        yield Key("peers", name, what, 50)


def peer_versions() -> dict[str, str]:
    """The versions of the peers that are installed."""
    names = ("ppi-python", "glide-py", "ppi-aipw", "evalstats")
    found = {}
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def measured(key: Key, replications: int) -> list[Record]:
    """The records of a cell; a function of a process's own."""
    torch.set_num_threads(1)
    started = time.process_time()
    records = KINDS[key.kind](key, replications)
    print(f"{time.process_time() - started:.0f} s: {records[-1]}", flush=True)
    return records


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="one cell a kind, few replications")
    parser.add_argument("--minutes", type=float, default=math.inf, help="start no cell after them")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--replications", type=int, default=None, help="for every kind of cell")
    parser.add_argument("--kinds", default="", help="comma-separated, all by default")
    parser.add_argument("--out", type=Path, default=RESULTS / "coverage_more.json")
    return parser.parse_args(argv)


def wanted(results: list[Record], kinds: Sequence[str], replications: int | None) -> list[Key]:
    """The cells without records of as many replications, in the order of ``kinds``."""
    done = {
        tuple(r[name] for name in Key._fields)
        for r in results
        if r["replications"] >= (replications or REPLICATIONS[r["kind"]])
    }
    left = [key for key in cells() if key.kind in (kinds or KINDS) and key not in done]
    return sorted(left, key=lambda key: kinds.index(key.kind)) if kinds else left


def written(file: Path, results: list[Record]) -> None:
    """Write records, in the order of the cells, and their page."""
    order = {key: k for k, key in enumerate(cells())}
    results.sort(key=lambda r: order[Key(*(r[name] for name in Key._fields))])
    facts = machine(**peer_versions())
    report = {"machine": facts, "unlabelled": UNLABELLED, "clip": CLIP, "results": results}
    write_whole(file, one_record_a_line(report))
    write_whole(file.with_suffix(".md"), markdown(report))


def main(argv: Sequence[str] | None = None) -> None:
    """Run the cells that have no record yet, and write the tables."""
    options = arguments(argv)
    kinds = tuple(filter(None, options.kinds.split(",")))
    if options.smoke:
        for _, group in itertools.groupby(cells(), key=lambda key: key.kind):
            measured(next(group), 3)
        return
    started = time.monotonic()
    results: list[Record] = []
    if options.out.exists():
        results = json.loads(options.out.read_text())["results"]
    keys = wanted(results, kinds, options.replications)
    with ProcessPoolExecutor(options.jobs) as pool:
        waiting = {
            pool.submit(measured, key, options.replications or REPLICATIONS[key.kind]): key
            for key in keys
        }
        for future in as_completed(waiting):
            if future.cancelled():
                continue
            key = waiting[future]
            results = [r for r in results if tuple(r[name] for name in Key._fields) != key]
            results += future.result()
            written(options.out, results)
            if time.monotonic() - started > 60 * options.minutes:
                for other in waiting:
                    other.cancel()


if __name__ == "__main__":
    main()
