"""Scores: differences from the complete case or from the model without answers; all metrics."""

import math
from itertools import compress

from dessl.evaluation.debiased.proxies import CLIP
from dessl.evaluation.metrics.vocabulary import (
    METRICS,
    NONE,
    digits_text,
    higher_is_better,
    interval_digits,
    interval_text,
    metric_named,
    metric_text,
    written,
)
from dessl.evaluation.verdict import Comparison, of_groups, shown_p
from dessl.report.chart import INK, SERIES, Chart, Look, legend
from dessl.report.decision import baseline, has_differences
from dessl.report.html import Markup, element, figure, named, section, table
from dessl.results.facts import RunFacts

AGREE = (
    "Up to rounding, the values in brackets differ by the difference above. To judge whether one "
    "method is better, use the interval of that difference: it is paired over rows, so it is more "
    "precise than these intervals."
)
APART = (
    "Each estimate here is debiased separately. To compare methods, use the difference above: it "
    "is paired over rows, so it is more precise than the difference of two estimates, and may even "
    "have another sign."
)


def looks(facts: RunFacts) -> dict[str, Look]:
    """The look of each method, the same in every chart; the complete case comes first."""
    return {m.name: SERIES[number % len(SERIES)] for number, m in enumerate(facts.methods)}


def differences(facts: RunFacts) -> Markup | None:
    """Each method's difference from the complete case, one chart per metric.

    None if nothing was compared, or if the complete case failed to train: they then mean nothing.
    """
    if not has_differences(facts):
        return None
    styles, other = looks(facts), baseline(facts)
    metrics = list(dict.fromkeys(entry.metric for entry in facts.comparisons))
    pictures = [
        _differences(metric, [c for c in facts.comparisons if c.metric == metric], styles, other)
        for metric in metrics
    ]
    shown = {entry.method: styles[entry.method] for entry in facts.comparisons}
    each = (f"{c.test}, n = {c.n}{of_groups(c.n_groups)}" for c in facts.comparisons)
    tests = ", ".join(dict.fromkeys(each))
    caption = (
        f"Difference from {other}, with its interval ({tests}). If the interval includes zero, the "
        "difference may be chance."
    )
    rows = (
        (
            metric_text(entry.metric),
            [named(entry.method), " − ", named(entry.against)],
            *_texts(entry),
        )
        for entry in facts.comparisons
    )
    headings = ("metric", "methods", "difference", "interval", "p-value")
    numbers = table(headings, rows, label=f"Differences from {other}")
    return figure(caption, *pictures, legend=legend(shown), numbers=numbers)


def _differences(
    metric: str, entries: list[Comparison], styles: dict[str, Look], other: str
) -> Markup:
    unit = metric_named(metric).unit
    better = "better →" if higher_is_better(metric) else "← better"
    height = 64 + 30 * len(entries)
    chart = Chart.of(f"difference ({better})", metric_text(metric), height=height, left=24)
    axes = chart.axes
    axes.axvline(0, color=INK, linewidth=1, linestyle=(0, (2, 3)))
    for number, entry in enumerate(entries):
        look = styles[entry.method]
        finite = [unit * end for end in (entry.low, entry.high) if math.isfinite(end)]
        axes.plot(finite, [number] * len(finite), color=look.colour)
        if math.isfinite(entry.difference):
            axes.plot([unit * entry.difference], [number], "o", color=look.colour, markersize=6)
    axes.set(ylim=(len(entries) - 0.5, -0.5), yticks=[])
    axes.locator_params(axis="x", nbins=5)
    return chart.svg(
        f"{metric_named(metric).words}: difference from {other}",
        "; ".join(f"{entry.method} {', '.join(_texts(entry))}" for entry in entries),
    )


def _texts(entry: Comparison) -> tuple[str, str, str]:
    """Difference, interval and p-value."""
    digits = interval_digits(entry.metric, entry.low, entry.high, 0.0)
    difference = digits_text(entry.metric, entry.difference, digits, signed=True)
    low, high = interval_text(entry.metric, entry.low, entry.high, 0.0, signed=True)
    interval = f"{entry.confidence:.0%} interval [{low}, {high}]"
    return difference, interval, shown_p(entry.p_value)


def metrics_section(facts: RunFacts) -> Markup:
    """The intervals of the main metrics, if any; then all metrics."""
    rows_named = "on test rows" if facts.taught is None else "out of fold"
    headings = [rows_named, *(named(method.name) for method in facts.methods)]
    rows = [_row(facts, metric) for metric in METRICS if _known(facts, metric)]
    return section(
        "Metrics",
        _estimates(facts),
        element("p", _explained(facts), class_="note"),
        table(headings, rows, label="Metrics of each method", class_="metrics"),
    )


def _known(facts: RunFacts, metric: str) -> bool:
    return any(
        not math.isnan(value)
        for method in facts.methods
        for value in facts.values(method.name, metric)
    )


def _explained(facts: RunFacts) -> str:
    n, seeds = facts.data.test, len(facts.seeds)
    ece = " ECE is the expected calibration error." if _known(facts, "ece") else ""
    if seeds < 2:
        rows = "labelled test rows" if facts.taught is None else "gold rows, out of fold"
        return f"One run of each method, on {n:,} {rows}.{_plain(facts)}{ece}"
    ceiling = any(method.risk == "supervised" for method in facts.methods)
    aside = ", not counting all labels" if ceiling else ""
    alone = len(facts.methods) == 1
    star = f" ★ marks the best mean of a row{aside}, unless an interval above leaves it open."
    return (
        f"Means over {seeds} seeds ± the half-width of the 95 % t-interval, on {n:,} labelled test "
        f"rows.{'' if alone else star}{ece}"
    )


def _plain(facts: RunFacts) -> str:
    if not any(entry.n_unlabelled for entry in facts.estimates):
        return ""
    return " Where these plain values differ from the estimates above, use the estimates."


def _row(facts: RunFacts, metric: str) -> list[Markup | str]:
    found = [facts.average(method.name, metric) for method in facts.methods]
    rivals = [
        method.risk != "supervised" for method in facts.methods
    ]  # training with all labels is an upper bound
    best = None
    if _has_star(facts, metric):
        best = best_text(metric, [entry.mean for entry in compress(found, rivals)])
    cells: list[Markup | str] = [metric_text(metric)]
    for entry, rival in zip(found, rivals, strict=True):
        value, half = written(metric, entry.mean), entry.half_width
        is_best = rival and value == best
        spread = None if half is None else element("small", f"± {written(metric, half)}")
        star = element("span", "★", title="best", role="img", aria_label="best")
        shown = [star if is_best else None, element("span", value, class_="value"), spread]
        cells.append(element("td", shown, class_="best" if is_best else None))
    return cells


def _has_star(facts: RunFacts, metric: str) -> bool:
    """Whether to mark the best value of a row: readers take that for a finding.

    A single run has no interval here, and its main metrics have better numbers above.
    """
    estimated = any(one.metric == metric for one in facts.estimates)
    unclear = any(one.metric == metric and not one.clear for one in facts.comparisons)
    return len(facts.seeds) > 1 and not estimated and not unclear


def best_text(metric: str, values: list[float]) -> str | None:
    """The best value as shown; None if all known values are shown the same.

    >>> best_text("accuracy", [0.1, 0.3, float("nan")]), best_text("brier", [0.5, 0.50001])
    ('30.0', None)
    """
    known = [value for value in values if not math.isnan(value)]
    if len({written(metric, value) for value in known}) < 2:
        return None
    return written(metric, (max if higher_is_better(metric) else min)(known))


def _estimates(facts: RunFacts) -> Markup | None:
    if not facts.estimates:
        return None
    first = facts.estimates[0]
    whose = f"{first.n_labelled:,} labelled held-out rows"
    if first.n_unlabelled:
        whose = (
            f"{first.n_labelled:,} labelled and {first.n_unlabelled:,} unlabelled held-out rows, "
            "debiased"
        )
    if facts.taught is not None:
        whose = (
            f"{first.n_labelled:,} gold rows, predicted out of fold, and {first.n_unlabelled:,} "
            "unlabelled rows kept out of training, debiased"
        )
    if first.n_groups:
        whose = f"{whose}, labelled ones of {first.n_groups:,} groups that count as units"
    note = f"{100 * first.confidence:g} % intervals (and estimates) from {whose}:"
    if any(entry.metric == "cross_entropy" for entry in facts.estimates):
        note = f"{note[:-1]}; a row's cross-entropy is capped at {CLIP:.1f} here, not elsewhere:"
    found = {(entry.method, entry.metric): entry for entry in facts.estimates}
    rows = []
    for metric in dict.fromkeys(entry.metric for entry in facts.estimates):
        cells: list[Markup | str] = [metric_text(metric)]
        for method in facts.methods:
            entry = found.get((method.name, metric))
            if entry is None:
                cells.append(NONE)
                continue
            digits = interval_digits(metric, entry.low, entry.high)
            low, high, value = (
                digits_text(metric, one, digits) for one in (entry.low, entry.high, entry.value)
            )
            interval = element("span", f"{low} to {high}", class_="value")
            cells.append(element("td", interval, element("small", f"({value})")))
        rows.append(cells)
    headings = ["estimate", *(named(method.name) for method in facts.methods)]
    label = "Debiased estimates from few labels"
    return element(
        "div",
        element("p", note, class_="note"),
        table(headings, rows, label=label, class_="metrics"),
        element("p", AGREE if _agree(facts) else APART, class_="note")
        if first.n_unlabelled and has_differences(facts)
        else None,
    )


def _agree(facts: RunFacts) -> bool:
    """Whether the estimates differ by the differences: not those of students or older versions."""
    found = {(one.method, one.metric): one.value for one in facts.estimates}
    gaps = (
        (found.get((one.method, one.metric)), found.get((one.against, one.metric)), one.difference)
        for one in facts.comparisons
    )
    return all(
        a is not None and b is not None and math.isclose(a - b, d, abs_tol=1e-9) for a, b, d in gaps
    )
