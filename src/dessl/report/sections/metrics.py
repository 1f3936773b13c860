"""The metrics table: every method side by side, the best marked."""

import math
from itertools import compress

from dessl.report.averages import Average, average
from dessl.report.facts import RunFacts
from dessl.report.figure import section, table
from dessl.report.html import Markup, element, named
from dessl.report.measures import MEASURES, higher_is_better, metric_text, written


def metrics_section(facts: RunFacts) -> Markup:
    """Metrics on the test rows as means over seeds, then the debiased estimates, if there are."""
    headings = ["on test rows", *(named(method.name) for method in facts.methods)]
    rows = [_row(facts, metric) for metric in MEASURES if _known(facts, metric)]
    return section(
        "Metrics",
        element("p", _explained(facts), class_="note"),
        table(headings, rows, label="Metrics of each method", class_="metrics"),
        _estimates(facts),
    )


def _known(facts: RunFacts, metric: str) -> bool:
    return any(
        not math.isnan(value)
        for method in facts.methods
        for value in facts.values(method.name, metric)
    )


def _explained(facts: RunFacts) -> str:
    n, seeds = facts.data.test, len(facts.seeds)
    alone = len(facts.methods) == 1
    if seeds < 2:
        star = "" if alone else " ★ marks the best value of a row."
        return f"One run of each method, on {n:,} labelled test rows.{star}"
    aside = ", all labels aside" if any(m.risk == "supervised" for m in facts.methods) else ""
    star = (
        f" ★ marks the best mean of a row{aside}; whether a difference is real, the intervals "
        "above say."
    )
    return (
        f"Means over {seeds} seeds ± half of the 95 % t-interval, on {n:,} labelled test rows."
        f"{'' if alone else star}"
    )


def _row(facts: RunFacts, metric: str) -> list[Markup | str]:
    found = [average(facts.values(method.name, metric)) for method in facts.methods]
    rivals = [method.risk != "supervised" for method in facts.methods]  # all labels are a ceiling
    best = best_text(metric, [entry.mean for entry in compress(found, rivals)])
    cells = (
        _cell(metric, entry, best=rival and written(metric, entry.mean) == best)
        for entry, rival in zip(found, rivals, strict=True)
    )
    return [metric_text(metric), *cells]


def best_text(metric: str, values: list[float]) -> str | None:
    """The best value as it is written; None where all that are known are written alike.

    >>> best_text("accuracy", [0.1, 0.3, float("nan")]), best_text("brier", [0.5, 0.50001])
    ('30.0', None)
    """
    known = [value for value in values if not math.isnan(value)]
    if len({written(metric, value) for value in known}) < 2:
        return None
    return written(metric, (max if higher_is_better(metric) else min)(known))


def _cell(metric: str, entry: Average, *, best: bool) -> Markup:
    spread = None
    if not math.isnan(entry.half_width):
        spread = element("small", f"± {written(metric, entry.half_width)}")
    star = element("span", "★", title="best", role="img", aria_label="best") if best else None
    value = element("span", written(metric, entry.mean), class_="value")
    return element("td", star, value, spread, class_="best" if best else None)


def _estimates(facts: RunFacts) -> Markup | None:
    if not facts.estimates:
        return None
    first = facts.estimates[0]
    note = (
        f"Estimated from {first.n_labelled:,} labelled and {first.n_unlabelled:,} unlabelled "
        f"held-out rows, debiased, with {first.confidence:.0%} intervals:"
    )
    found = {(entry.method, entry.metric): entry for entry in facts.estimates}
    rows = []
    for metric in dict.fromkeys(entry.metric for entry in facts.estimates):
        cells: list[Markup | str] = [metric_text(metric)]
        for method in facts.methods:
            entry = found.get((method.name, metric))
            cells.append(_estimate(metric, entry.value, entry.low, entry.high) if entry else "–")
        rows.append(cells)
    headings = ["estimate", *(named(method.name) for method in facts.methods)]
    label = "Debiased estimates from few labels"
    return element(
        "div",
        element("p", note, class_="note"),
        table(headings, rows, label=label, class_="metrics"),
    )


def _estimate(metric: str, value: float, low: float, high: float) -> Markup:
    interval = f"[{written(metric, low)}, {written(metric, high)}]"
    return element("td", element("span", written(metric, value), class_="value"),
                   element("small", interval))  # fmt: skip
