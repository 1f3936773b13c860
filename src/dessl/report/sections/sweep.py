"""The λ-sweep: what usual and debiased semi-supervised learning reach at each λ."""

import math
from collections import defaultdict
from collections.abc import Iterable

from dessl.report.averages import Average, average
from dessl.report.axis import Axis, lambda_place
from dessl.report.facts import RunFacts, SweepPoint
from dessl.report.figure import figure, section, table
from dessl.report.html import Markup
from dessl.report.measures import measure_of, metric_text, shown_range, written
from dessl.report.plot import Plot

STYLES = {"complete_case": "series-0", "ssl": "series-1", "debiased": "series-2"}
NAMES = {"complete_case": "complete case", "ssl": "usual SSL", "debiased": "debiased"}
WATCHED = ("accuracy", "cross_entropy", "ece")

Curves = dict[str, dict[float, Average]]


def sweep_section(facts: RunFacts) -> Markup | None:
    """A picture for each watched metric over λ, means over seeds with their intervals."""
    if not facts.sweep:
        return None
    pictures, rows = [], []
    for metric in WATCHED:
        curves = over_lambda(facts.sweep, metric)
        if curves:
            pictures.append(_picture(metric, curves, _complete_case(facts, metric)))
            rows += list(_rows(metric, curves))
    risks = dict.fromkeys(["complete_case", *(point.risk for point in facts.sweep)])
    key = {NAMES.get(risk, risk): STYLES.get(risk, "series-3") for risk in risks}
    caption = (
        "Over λ: means over seeds; bands are 95 % t-intervals where there are two seeds or more."
    )
    headings = ("metric", "risk", "λ", "mean", "95 % interval")
    numbers = table(headings, rows, label="The λ-sweep")
    return section("Choice of λ", figure(caption, *pictures, key=key, numbers=numbers))


def over_lambda(points: Iterable[SweepPoint], metric: str) -> Curves:
    """For each risk and λ, the metric's mean over seeds with its interval."""
    found: defaultdict[str, defaultdict[float, list[float]]]
    found = defaultdict(lambda: defaultdict(list))
    for point in points:
        value = point.metrics.get(metric)
        if value is not None:
            found[point.risk][point.lam].append(float(value))
    return {
        risk: {lam: average(values) for lam, values in sorted(by_lam.items())}
        for risk, by_lam in found.items()
    }


def _complete_case(facts: RunFacts, metric: str) -> float:
    """The mean of what labelled rows alone reach, wherever λ may stand; NaN where unknown."""
    names = [method.name for method in facts.methods if method.risk == "complete_case"]
    return average(facts.values(names[0], metric)).mean if names else math.nan


def _picture(metric: str, curves: Curves, complete_case: float) -> Markup:
    unit = 100 if measure_of(metric).percent else 1
    level = unit * complete_case
    lams = sorted({lam for curve in curves.values() for lam in curve})
    low, high = shown_range(metric)
    # An interval may reach past what a metric can be; NaN stays NaN in this order.
    inside = {
        risk: {
            lam: Average(*(min(max(unit * v, low), high) for v in entry))
            for lam, entry in curve.items()
        }
        for risk, curve in curves.items()
    }
    values = [value for curve in inside.values() for entry in curve.values() for value in entry]
    plot = Plot(
        Axis.of_lambdas(lams),
        Axis.of([*values, level], within=(low, high)),
        "λ",
        metric_text(metric),
    )
    marks = [plot.line([(plot.x.low, level), (plot.x.high, level)], STYLES["complete_case"])]
    for risk, curve in inside.items():
        style = STYLES.get(risk, "series-3")
        places = [lambda_place(lam, lams) for lam in curve]
        means, lows, highs = (
            [(x, entry[part]) for x, entry in zip(places, curve.values(), strict=True)]
            for part in range(3)
        )
        marks += [plot.band(lows, highs, style), plot.line(means, style), plot.dots(means, style)]
    described = "; ".join(_described(metric, risk, curve) for risk, curve in curves.items())
    return plot.svg(f"{measure_of(metric).text} over λ", described, *marks)


def _described(metric: str, risk: str, curve: dict[float, Average]) -> str:
    ends = [(lam, written(metric, curve[lam].mean)) for lam in (min(curve), max(curve))]
    return f"{NAMES.get(risk, risk)}: " + ", ".join(
        f"{value} at λ = {lam:g}" for lam, value in ends
    )


def _rows(metric: str, curves: Curves) -> Iterable[tuple[str, ...]]:
    for risk, curve in curves.items():
        for lam, entry in curve.items():
            interval = f"[{written(metric, entry.low)}, {written(metric, entry.high)}]"
            mean = written(metric, entry.mean)
            yield metric_text(metric), NAMES.get(risk, risk), f"{lam:g}", mean, interval
