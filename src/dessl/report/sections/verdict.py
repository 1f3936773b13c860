"""The verdict: one sentence, and how far each method is from the complete case."""

import math

from dessl.report.axis import Axis
from dessl.report.facts import Comparison, RunFacts
from dessl.report.figure import figure, series_styles, table
from dessl.report.html import Markup, element, named
from dessl.report.measures import (
    higher_is_better,
    measure_of,
    metric_text,
    written,
)
from dessl.report.plot import Plot
from dessl.report.verdict import shown_p

SIGNS = {"helped": "✓", "hurt": "✗", "cannot tell": "?"}


def verdict(facts: RunFacts) -> Markup:
    """The verdict, its word and sign, and its sentence."""
    outcome = facts.verdict.outcome
    sign = element("span", SIGNS[outcome], aria_hidden="true", class_="sign")
    return element(
        "div",
        element("p", sign, " ", outcome.capitalize(), class_="outcome"),
        element("p", facts.verdict.sentence, class_="sentence", dir="auto"),
        class_=f"verdict {outcome.replace(' ', '-')}",
        id="verdict",
    )


def differences(facts: RunFacts) -> Markup | None:
    """Each method's distance to the complete case, a picture for each metric that was compared."""
    if not facts.comparisons:
        return None
    styles = series_styles(facts)
    metrics = list(dict.fromkeys(entry.metric for entry in facts.comparisons))
    pictures = [
        _picture(metric, [entry for entry in facts.comparisons if entry.metric == metric], styles)
        for metric in metrics
    ]
    shown = {entry.method: styles[entry.method] for entry in facts.comparisons}
    tests = ", ".join(dict.fromkeys(f"{c.test}, n = {c.n}" for c in facts.comparisons))
    caption = (
        "Difference to the complete case with its interval: an interval that holds zero cannot "
        f"tell ({tests})."
    )
    return figure(caption, *pictures, key=shown, numbers=_numbers(facts.comparisons))


def _picture(metric: str, entries: list[Comparison], styles: dict[str, str]) -> Markup:
    unit = 100 if measure_of(metric).percent else 1
    ends = [unit * end for entry in entries for end in (entry.low, entry.high, entry.difference)]
    rows = Axis(0, len(entries), ())
    better = "better →" if higher_is_better(metric) else "← better"
    plot = Plot(
        Axis.of(ends, include=[0.0]),
        rows,
        x_label=f"difference ({better})",
        y_label=metric_text(metric),
        height=64 + 30 * len(entries),
        left=24,
    )
    marks = [plot.line([(0, 0), (0, len(entries))], "zero")]
    for number, entry in enumerate(entries):
        y, style = len(entries) - number - 0.5, styles[entry.method]
        low, high = _inside(plot.x, unit * entry.low), _inside(plot.x, unit * entry.high)
        marks.append(plot.line([(low, y), (high, y)], f"{style} solid"))
        marks.append(plot.dots([(unit * entry.difference, y)], style))
    return plot.svg(
        f"{measure_of(metric).text}: difference to the complete case",
        "; ".join(_sentence(entry) for entry in entries),
        *marks,
    )


def _inside(axis: Axis, value: float) -> float:
    """An end of an interval, or the axis's where it has none."""
    return min(max(value, axis.low), axis.high) if not math.isnan(value) else math.nan


def _sentence(entry: Comparison) -> str:
    return f"{entry.method} {_value(entry)}, {_interval(entry)}, {shown_p(entry.p_value)}"


def _value(entry: Comparison) -> str:
    return written(entry.metric, entry.difference, signed=True)


def _interval(entry: Comparison) -> str:
    low, high = (written(entry.metric, end, signed=True) for end in (entry.low, entry.high))
    return f"{entry.confidence:.0%} interval [{low}, {high}]"


def _numbers(entries: tuple[Comparison, ...]) -> Markup:
    rows = (
        (
            metric_text(entry.metric),
            [named(entry.method), " − ", named(entry.against)],
            _value(entry),
            _interval(entry),
            shown_p(entry.p_value),
        )
        for entry in entries
    )
    headings = ("metric", "methods", "difference", "interval", "p-value")
    return table(headings, rows, label="Differences to the complete case")
