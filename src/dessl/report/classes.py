"""Per class: each method's accuracy, and its benefit ratio if there is a run with all labels."""

import math
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from dessl.evaluation.metrics.benefit import benefit_ratio
from dessl.evaluation.metrics.vocabulary import NONE, metric_text
from dessl.report.chart import INK, Chart, filling, legend
from dessl.report.html import Child, Markup, figure, named, section, table
from dessl.report.scores import looks
from dessl.results.averages import average
from dessl.results.averages import number as as_number
from dessl.results.facts import RunFacts
from dessl.risk import COMPLETE_CASE

MOST = 24  # classes drawn; the table has all of them
PICTURE = 8  # classes per chart
ROW = 12  # height of a bar
FEW_ROWS = 30  # of a class: its accuracy is then known to about ±10 points at best
FARTHEST = 2.0  # largest benefit ratio drawn: it is unbounded for a class with little to gain

ByMethod = dict[str, list[float]]  # for each method, a value for each class


class Shown(NamedTuple):
    """The quantity that bars show: its text, its unit, and the limits of its axis."""

    text: str
    unit: float
    low: float
    high: float


def classes_section(facts: RunFacts) -> Markup | None:
    """Bars of accuracy for each class and method, and of benefit ratios if there are any."""
    found = {method.name: class_accuracies(facts, method.name) for method in facts.methods}
    known = {name: values for name, values in found.items() if values}
    if not known:
        return None
    classes = [
        number
        for number in range(len(facts.data.class_names))
        if any(not math.isnan(values[number]) for values in known.values())
    ]
    drawn = sorted(sorted(classes, key=lambda number: _rank(known, number))[:MOST])
    caption = "Accuracy on the test rows of each class"
    caption += ", mean over the runs of a method." if len(facts.runs) > len(known) else "."
    if len(drawn) < len(classes):
        which = "largest differences" if len(known) > 1 else "lowest accuracies"
        caption += f" Shown: the {MOST} of {len(classes)} classes with the {which}."
    accuracy = Shown(metric_text("accuracy"), 100, 0, 100)
    draws = [partial(_bars, facts, known, part, accuracy) for part in evenly(drawn, PICTURE)]
    counts = class_counts(facts)
    if counts and (least := min(counts[number] for number in classes)) < FEW_ROWS:
        lowest = 100 * 0.025 ** (1 / max(least, 1))
        caption += (
            f" The rarest class has only {least} of these rows: even if all are right, its "
            f"accuracy may be as low as {lowest:.0f} % (95 % interval)."
        )
    ratios = benefit_ratios(facts, known)
    if ratios:
        caption += " Benefit ratio: a method's gain as a share of the gain from labelling all rows."
        values = [v for of in ratios.values() for v in of if not math.isnan(v)]
        low = max(-FARTHEST, min([0.0, *values]))
        shown = Shown("benefit ratio", 1, low, min(FARTHEST, max([1.0, *values])))
        draws += [partial(_bars, facts, ratios, part, shown) for part in evenly(drawn, PICTURE)]
    styles = looks(facts)
    key = legend({name: replace(styles[name], line="-") for name in known})  # bars have no dashes
    numbers = _numbers(facts, known, ratios, classes, counts)
    return section("Classes", figure(caption, *filling(draws), legend=key, numbers=numbers))


def class_accuracies(facts: RunFacts, method: str) -> list[float]:
    """Mean accuracy of each class over the runs of a method; NaN if no test row has it."""
    lists = [run.metrics.get("per_class_accuracy") or [] for run in facts.runs_of(method)]
    if not lists or any(len(values) != len(facts.data.class_names) for values in lists):
        return []
    return [average([as_number(value) for value in of]).mean for of in zip(*lists, strict=True)]


def class_counts(facts: RunFacts) -> list[int]:
    """The number of test rows of each class; empty if it is unknown or differs between runs."""
    found = [run.metrics.get("class_counts") for run in facts.runs]
    first = found[0] if found else None
    same = isinstance(first, list) and all(one == first for one in found)
    if first is None or not same or len(first) != len(facts.data.class_names):
        return []
    return [int(as_number(one)) for one in first]


def benefit_ratios(facts: RunFacts, found: ByMethod) -> ByMethod:
    """The benefit ratio of each class, for each method that uses unlabelled rows.

    They need a method trained with all labels, of risk "supervised".
    """
    by_risk = {method.risk: found.get(method.name) for method in facts.methods}
    complete, full = by_risk.get(COMPLETE_CASE), by_risk.get("supervised")
    if not complete or not full:
        return {}
    return {
        method.name: benefit_ratio(found[method.name], complete, full).tolist()
        for method in facts.methods
        if method.risk in ("ssl", "debiased") and found.get(method.name)
    }


def evenly(numbers: list[int], most: int) -> list[list[int]]:
    """Split numbers into as few lists as possible, about equally long, of ``most`` entries or less.

    >>> evenly([0, 1, 2, 3, 4], 4)
    [[0, 1, 2], [3, 4]]
    """
    each = math.ceil(len(numbers) / math.ceil(len(numbers) / most))
    return [numbers[first : first + each] for first in range(0, len(numbers), each)]


def _rank(found: ByMethod, number: int) -> float:
    """Sort key of the classes to draw: first where methods differ most, or accuracy is lowest."""
    values = [v[number] for v in found.values() if not math.isnan(v[number])]
    return min(values) - max(values) if len(found) > 1 else values[0]


def _bars(facts: RunFacts, found: ByMethod, drawn: list[int], shown: Shown, width: int) -> Markup:
    """Bars from zero, a group for each class."""
    names = facts.data.class_names
    left = min(112, max(44, 16 + 7 * max(len(names[number]) for number in drawn)))
    described = "; ".join(
        f"{names[number]}: "
        + ", ".join(
            f"{name} {NONE if math.isnan(of[number]) else f'{shown.unit * of[number]:.3g}'}"
            for name, of in found.items()
        )
        for number in drawn
    )
    styles, group = looks(facts), len(found) + 0.7  # bars of a class, and the gap to the next
    height = round(64 + ROW * group * len(drawn))
    chart = Chart.of(shown.text, "class", width=width, height=height, left=left)
    axes = chart.axes
    if shown.low < 0:
        axes.axvline(0, color=INK, linewidth=1, linestyle=(0, (2, 3)))
    for place, number in enumerate(drawn):
        top = place * group
        chart.row_label(names[number], top + len(found) / 2, left)
        for row, (method, values) in enumerate(found.items()):
            if not math.isnan(values[number]):
                end = min(max(shown.unit * values[number], shown.low), shown.high)
                axes.barh(top + row + 0.5, end, 0.84, color=styles[method].colour, alpha=0.75)
    axes.set(xlim=(shown.low, shown.high), ylim=(group * len(drawn), 0), yticks=[])
    axes.locator_params(axis="x", nbins=5)
    return chart.svg(f"{shown.text} of each class", described)


def _numbers(
    facts: RunFacts, found: ByMethod, ratios: ByMethod, classes: list[int], counts: list[int]
) -> Markup:
    headings: list[Child] = ["class", *(["test rows"] if counts else [])]
    headings += [*([named(name), ", %"] for name in found)]
    headings += [["benefit ratio, ", named(name)] for name in ratios]
    rows = (
        [
            named(facts.data.class_names[number]),
            *([f"{counts[number]:,}"] if counts else []),
            *(_number(100 * values[number], 1) for values in found.values()),
            *(_number(values[number], 2) for values in ratios.values()),
        ]
        for number in classes
    )
    return table(headings, rows, label="Accuracy of each class")


def _number(value: float, decimals: int) -> str:
    return NONE if math.isnan(value) else f"{value:.{decimals}f}".replace("-", "−")
