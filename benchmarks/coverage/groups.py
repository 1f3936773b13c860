"""Coverage of intervals for rows that belong together, with and without being told so.

Groups of unequal size are drawn from a law, some of them with labels. The scores and the outcomes
of a group's rows are correlated: the latent normals that decide them have this correlation. With 1
all rows of a group are copies of one row, with 0 they are independent. Each replication asks the
library for 95 % intervals with ``groups=`` and without; the truth is the mean over a million rows.

    PYTHONPATH=src python -m benchmarks.coverage.groups
    PYTHONPATH=src python -m benchmarks.coverage.groups --smoke     # seconds, writes nothing
"""

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from benchmarks.machine import machine
from numpy.typing import NDArray
from scipy import special

from dessl._files import write_whole
from dessl.evaluation.debiased import compare_models, estimate_metric
from dessl.evaluation.metrics import metrics_from_probabilities

from .report import one_record_a_line

RESULTS = Path(__file__).parents[1] / "results"
REPLICATIONS = 400
GROUPS = (5, 10, 20, 40, 60)
FEWER = (20, 40)  # for the other laws
CORRELATIONS = (0.0, 0.3, 1.0)
UNLABELLED_GROUPS = 150
METRICS = ("accuracy", "brier", "cross_entropy", "recall", "auc")
COMPARED = ("accuracy", "brier")
CONFIDENCE = 0.95


class Law(NamedTuple):
    """How rows are drawn.

    Attributes:
        spread: Spread of the model's logits.
        groups: Numbers of labelled groups to try.
        labelled: Share of the rows of these groups that have a label.
        informative: Whether larger groups are predicted worse.
    """

    spread: float
    groups: tuple[int, ...] = GROUPS
    labelled: float = 1.0
    informative: bool = False


LAWS = {
    "81 % right": Law(3.0),
    "92 % right": Law(9.0),
    "81 % right, groups labelled in part": Law(3.0, FEWER, labelled=0.5),
    "74 % right, larger groups are harder": Law(3.0, FEWER, informative=True),
}


class Drawn(NamedTuple):
    """Rows: two models' probabilities (n, 2), labels and groups (n,)."""

    a: NDArray[np.float64]
    b: NDArray[np.float64]
    y: NDArray[np.int64]
    group: NDArray[np.int64]


def drawn(law: Law, correlation: float, groups: int, rng: np.random.Generator) -> Drawn:
    """Draw whole groups; the second model has noisier logits."""
    harder = rng.normal(size=groups)
    sizes = 1 + np.floor(np.exp(1.3 + 0.8 * rng.normal(size=groups))).astype(np.int64)
    if law.informative:
        sizes = np.where(harder > 0, 2 * sizes, sizes)
    group = np.repeat(np.arange(groups), sizes)

    def latent() -> NDArray[np.float64]:
        shared, own = rng.normal(size=groups)[group], rng.normal(size=len(group))
        return np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own

    spread = law.spread * (np.where(harder > 0, 0.5, 1.0)[group] if law.informative else 1.0)
    logits = -0.5 + spread * latent()
    y = (special.ndtr(latent()) < special.expit(0.8 * logits)).astype(np.int64)
    models = [special.expit(logits), special.expit(logits + 1.5 * latent())]
    return Drawn(*(np.stack([1 - p, p], axis=1) for p in models), y, group)


def truths(law: Law, correlation: float) -> dict[str, float]:
    """Each metric, and each difference, over about a million rows."""
    rows = drawn(law, correlation, 150_000, np.random.default_rng(0))
    a, b = (metrics_from_probabilities(p, rows.y) for p in (rows.a, rows.b))
    own = np.clip(rows.a[np.arange(len(rows.y)), rows.y], 0.01, None)
    found = {"accuracy": a.accuracy, "brier": a.brier, "auc": a.auc}
    found["cross_entropy"] = float(-np.log(own).mean())
    found["recall"] = float((rows.a.argmax(1) == 1)[rows.y == 1].mean())
    return found | {
        f"difference of {name}": getattr(a, name) - getattr(b, name) for name in COMPARED
    }


def intervals(rows: Drawn, known: NDArray[np.bool_]) -> dict[str, NDArray[np.float64]]:
    """By metric, the bounds with groups, then without, (2, 2)."""
    a, b, group = (torch.as_tensor(one) for one in (rows.a, rows.b, rows.group))
    y, known_rows = torch.as_tensor(rows.y), torch.as_tensor(known)
    told = {"groups": group[known_rows], "groups_unlabelled": group[~known_rows]}
    own, rest = ((one[known_rows], one[~known_rows]) for one in (a, b))
    options: dict[str, Any] = {"check_shift": False, "confidence": CONFIDENCE}
    found = {}
    for metric in METRICS:
        both = [
            estimate_metric(metric, own[0], y[known_rows], own[1], **options, **more)
            for more in (told, {})
        ]
        found[metric] = np.array([(one.low, one.high) for one in both])
    for metric in COMPARED:
        pair = [
            compare_models(metric, own[0], rest[0], y[known_rows], own[1], rest[1], **options, **m)
            for m in (told, {})
        ]
        found[f"difference of {metric}"] = np.array([(one.low, one.high) for one in pair])
    return found


def cell(name: str, groups: int, correlation: float, replications: int) -> list[dict[str, Any]]:
    """Coverage and mean width of every metric."""
    law = LAWS[name]
    rng = np.random.default_rng([groups, int(10 * correlation)])
    truth, bounds, rows_labelled = truths(law, correlation), [], []
    while len(bounds) < replications:
        rows = drawn(law, correlation, groups + UNLABELLED_GROUPS, rng)
        known = rows.group < groups
        known &= rng.random(len(known)) < law.labelled
        if len(np.unique(rows.y[known])) < 2:  # a recall and an AUC need both classes
            continue
        rows_labelled.append(int(known.sum()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            bounds.append(intervals(rows, known))
    records = []
    for metric, value in truth.items():
        found = np.stack(
            [one[metric] for one in bounds]
        )  # (replications, told or not, low or high)
        inside = (found[..., 0] <= value) & (value <= found[..., 1])
        told, untold = inside.mean(axis=0)
        widths = (found[..., 1] - found[..., 0]).mean(axis=0)
        records.append(
            {
                "law": name,
                "groups": groups,
                "correlation": correlation,
                "metric": metric,
                "labels": round(float(np.mean(rows_labelled)), 1),
                "truth": round(value, 5),
                "coverage": round(float(told), 4),
                "coverage_error": round(float(np.sqrt(told * (1 - told) / replications)), 4),
                "coverage_untold": round(float(untold), 4),
                "width": round(float(widths[0]), 5),
                "width_ratio": round(float(widths[0] / widths[1]), 3),
                "replications": replications,
            }
        )
    return records


def table(records: list[dict[str, Any]]) -> str:
    """Markdown: a row for each law, metric and number of groups, columns for each correlation."""
    lines = [
        "# Intervals for rows that belong together",
        "",
        f"`python -m benchmarks.coverage.groups`: coverage of {CONFIDENCE:.0%} intervals, in "
        f"percent, {records[0]['replications']:,} draws per cell, with {UNLABELLED_GROUPS} groups "
        "without labels. *With* is `groups=`; *without* treats rows as independent; *width* is the "
        "first interval's divided by the second's. The numbers in the heading are the correlation "
        "within groups.",
        "",
        "| rows | metric | labelled groups |"
        + "".join(f" {c:g}: with | without | width |" for c in CORRELATIONS),
        "|---|---|---:|" + "---:|" * 3 * len(CORRELATIONS),
    ]
    keys = dict.fromkeys((one["law"], one["metric"], one["groups"]) for one in records)
    for key in keys:
        cells = []
        for one in (r for r in records if (r["law"], r["metric"], r["groups"]) == key):
            cells += [
                f"{100 * one['coverage']:.1f} ± {100 * one['coverage_error']:.1f}",
                f"{100 * one['coverage_untold']:.1f}",
                f"{one['width_ratio']:.2f}",
            ]
        lines.append(f"| {key[0]} | {key[1]} | {key[2]} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def run(
    cells: Callable[[int], list[dict[str, Any]]],
    table: Callable[[list[dict[str, Any]]], str],
    name: str,
    replications: int,
) -> None:
    """Run a study from the command line, and write its records and its table.

    Args:
        cells: From the number of draws to the records of all cells.
        table: From the records to Markdown.
        name: Name of the files of results.
        replications: Number of draws per cell, if not given.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--replications", type=int, default=replications)
    given = parser.parse_args()
    torch.set_num_threads(1)
    started = time.perf_counter()
    records = cells(3 if given.smoke else given.replications)
    print(table(records))
    if given.smoke:
        return
    facts = machine(seconds=round(time.perf_counter() - started))
    text = one_record_a_line({"made_with": facts, "results": records})
    write_whole(RESULTS / f"{name}.json", text)
    write_whole(RESULTS / f"{name}.md", table(records))


def cells(replications: int) -> list[dict[str, Any]]:
    """The records of all laws, numbers of groups and correlations."""
    return [
        record
        for name, law in LAWS.items()
        for groups in law.groups
        for correlation in CORRELATIONS
        for record in cell(name, groups, correlation, replications)
    ]


if __name__ == "__main__":
    run(cells, table, "coverage_groups", REPLICATIONS)
