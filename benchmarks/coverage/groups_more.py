"""Coverage of prediction sets and calibration errors for rows that belong together.

The laws are those of ``groups.py``. Each replication asks the library for prediction sets and a
calibration error with ``groups=`` and without. The coverage of a threshold, and the calibration
error in as many bins, are those of about 140,000 rows of other groups.

    PYTHONPATH=src python -m benchmarks.coverage.groups_more
    PYTHONPATH=src python -m benchmarks.coverage.groups_more --smoke     # seconds, writes nothing
"""

import functools
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dessl.evaluation import prediction_sets
from dessl.evaluation.debiased import estimate_ece
from dessl.evaluation.metrics import adaptive_ece

from .groups import CORRELATIONS, LAWS, UNLABELLED_GROUPS, Drawn, drawn, run

REPLICATIONS = 400
GROUPS = (20, 40)
FEWER = (40,)  # for the laws that groups.py tries with fewer too
COVERAGE = 0.9  # of sets
CONFIDENCE = 0.95  # of a calibration error
POPULATION = 20_000  # groups


@functools.cache
def population(name: str, correlation: float) -> Drawn:
    """Rows of many groups."""
    return drawn(LAWS[name], correlation, POPULATION, np.random.default_rng(0))


@functools.cache
def calibration_error(name: str, correlation: float, bins: int) -> float:
    """The calibration error of the population in so many bins."""
    rows = population(name, correlation)
    return adaptive_ece(rows.a, rows.y, bins=bins)


def covered(rows: Drawn, threshold: float) -> tuple[float, float]:
    """The share of rows whose set has their label: each group counting the same, and each row."""
    inside = 1 - rows.a[np.arange(len(rows.y)), rows.y] <= threshold
    sizes = np.bincount(rows.group)
    return float((np.bincount(rows.group, inside) / sizes).mean()), float(inside.mean())


def measured(
    name: str, correlation: float, rows: Drawn, known: NDArray[np.bool_]
) -> dict[str, list[float]]:
    """Coverage of sets by groups and by rows, of an interval, and its width; told or not."""
    y, own, others = rows.y[known], rows.a[known], rows.a[~known]
    found: dict[str, list[float]] = {"groups": [], "rows": [], "ece": [], "width": []}
    for told in (rows.group[known], None):
        rule = prediction_sets(own, y, others, coverage=COVERAGE, groups=told, check_shift=False)
        by_groups, by_rows = covered(population(name, correlation), rule.threshold)
        error = estimate_ece(own, y, others, confidence=CONFIDENCE, groups=told, draws=99)
        truth = calibration_error(name, correlation, len(error.weights))
        found["groups"].append(by_groups)
        found["rows"].append(by_rows)
        found["ece"].append(float(error.low <= truth <= error.high))
        found["width"].append(error.high - error.low)
    return found


def cell(name: str, groups: int, correlation: float, replications: int) -> dict[str, Any]:
    """The means over the draws of one law, and their standard errors."""
    law, rng = LAWS[name], np.random.default_rng([groups, int(10 * correlation)])
    found, labels = [], []
    for _ in range(replications):
        rows = drawn(law, correlation, groups + UNLABELLED_GROUPS, rng)
        known = rows.group < groups
        known &= rng.random(len(known)) < law.labelled
        labels.append(int(known.sum()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(measured(name, correlation, rows, known))
    values = {key: np.array([one[key] for one in found]) for key in found[0]}
    means = {key: value.mean(axis=0) for key, value in values.items()}
    record: dict[str, Any] = {"law": name, "groups": groups, "correlation": correlation}
    record["labels"] = round(float(np.mean(labels)), 1)
    for key in ("groups", "rows", "ece"):
        error = values[key][:, 0].std() / np.sqrt(replications)
        title = "calibration" if key == "ece" else f"sets_by_{key}"
        record[title] = round(float(means[key][0]), 4)
        record[f"{title}_error"] = round(float(error), 4)
        record[f"{title}_untold"] = round(float(means[key][1]), 4)
    spread = values["groups"].std(axis=0)
    record["sets_spread"], record["sets_spread_untold"] = (round(float(s), 4) for s in spread)
    record["width_ratio"] = round(float(means["width"][0] / means["width"][1]), 3)
    return record | {"replications": replications}


def table(records: list[dict[str, Any]]) -> str:
    """Markdown: a row for each cell."""
    lines = [
        "# Prediction sets and calibration errors for rows that belong together",
        "",
        f"`python -m benchmarks.coverage.groups_more`: in percent, "
        f"{records[0]['replications']:,} draws per cell, with {UNLABELLED_GROUPS} groups without "
        f"labels. *Sets* are those with coverage {COVERAGE:.0%}: the share of rows of new groups "
        "whose set has their label, each group counting the same, or each row. *Interval* is the "
        f"coverage of {CONFIDENCE:.0%} intervals of a calibration error, and *width* that with "
        "`groups=` divided by that without. *With* is `groups=`; *without* treats rows as "
        "independent.",
        "",
        "| rows | labelled groups | correlation | sets by groups: with | without | sets by rows: "
        "with | without | interval: with | without | width |",
        "|---|---:|---:|" + "---:|" * 7,
    ]
    for one in records:
        cells = [one["law"], str(one["groups"]), f"{one['correlation']:g}"]
        for key in ("sets_by_groups", "sets_by_rows", "calibration"):
            cells += [
                f"{100 * one[key]:.1f} ± {100 * one[f'{key}_error']:.1f}",
                f"{100 * one[f'{key}_untold']:.1f}",
            ]
        lines.append(f"| {' | '.join([*cells, format(one['width_ratio'], '.2f')])} |")
    return "\n".join(lines) + "\n"


def cells(replications: int) -> list[dict[str, Any]]:
    """The records of all laws, numbers of groups and correlations."""
    return [
        cell(name, groups, correlation, replications)
        for name, law in LAWS.items()
        for groups in (GROUPS if len(law.groups) > len(GROUPS) else FEWER)
        for correlation in CORRELATIONS
    ]


if __name__ == "__main__":
    run(cells, table, "coverage_groups_more", REPLICATIONS)
