"""Per class: each method's accuracy, and its benefit ratio where full supervision was trained."""

import math

from dessl.evaluation.metrics.benefit import benefit_ratio
from dessl.report.averages import runs_of
from dessl.report.axis import Axis
from dessl.report.facts import RunFacts
from dessl.report.figure import figure, section, series_styles, table
from dessl.report.html import Child, Markup, named
from dessl.report.plot import Plot

MOST = 24  # classes that are drawn; the table has them all
PICTURE = 8  # of them in one picture
ROW = 12  # height of a bar
FARTHEST = 2.0  # benefit ratio that is drawn: a class with little to gain can have any

ByMethod = dict[str, list[float]]  # for each method, a value for each class
PER_CENT = Axis(0, 100, tuple((float(tick), str(tick)) for tick in range(0, 101, 25)))


def per_class_section(facts: RunFacts) -> Markup | None:
    """Bars of accuracy for each class and method, and of benefit ratios where there are."""
    found = {method.name: class_accuracies(facts, method.name) for method in facts.methods}
    known = {name: values for name, values in found.items() if values}
    if not known:
        return None
    classes = [
        number
        for number in range(len(facts.data.class_names))
        if any(not math.isnan(values[number]) for values in known.values())
    ]
    drawn = sorted(classes, key=lambda number: _rank(known, number))[:MOST]
    caption = "Accuracy on the test rows of each class, mean over the runs of a method."
    if len(drawn) < len(classes):
        which = "largest differences" if len(known) > 1 else "lowest accuracies"
        caption += f" The {MOST} classes with the {which} of {len(classes)}."
    ratios = benefit_ratios(facts, known)
    pictures = _pictures(facts, known, sorted(drawn), ("accuracy, %", 100, PER_CENT))
    if ratios:
        caption += " Benefit ratio: the share of what all labels would bring that a method brings."
        shown = [value for values in ratios.values() for value in values]
        axis = Axis.of(
            [min(max(value, -FARTHEST), FARTHEST) for value in shown], include=[0.0, 1.0]
        )
        pictures += _pictures(facts, ratios, sorted(drawn), ("benefit ratio", 1, axis))
    styles = series_styles(facts)
    key = {name: styles[name] for name in known}
    numbers = _numbers(facts, known, ratios, classes)
    return section("Classes", figure(caption, *pictures, key=key, numbers=numbers))


def class_accuracies(facts: RunFacts, method: str) -> list[float]:
    """Mean accuracy of each class over the runs of a method; NaN where no test row has it."""
    lists = [run.metrics.get("per_class_accuracy") or [] for run in runs_of(facts, method)]
    if not lists or any(len(values) != len(facts.data.class_names) for values in lists):
        return []
    means = []
    for values in zip(*lists, strict=True):
        known = [float(value) for value in values if value is not None]
        means.append(math.fsum(known) / len(known) if known else math.nan)
    return means


def benefit_ratios(facts: RunFacts, found: ByMethod) -> ByMethod:
    """The benefit ratio of each class, for each method that uses unlabelled rows.

    They are defined where a method with all labels, of risk "supervised", was trained too.
    """
    by_risk = {method.risk: found.get(method.name) for method in facts.methods}
    complete, full = by_risk.get("complete_case"), by_risk.get("supervised")
    if not complete or not full:
        return {}
    return {
        method.name: benefit_ratio(found[method.name], complete, full).tolist()
        for method in facts.methods
        if method.risk in ("ssl", "debiased") and found.get(method.name)
    }


def evenly(numbers: list[int], most: int) -> list[list[int]]:
    """Numbers in as few lists of at most so many as there can be, and as equal as can be.

    >>> evenly([0, 1, 2, 3, 4], 4)
    [[0, 1, 2], [3, 4]]
    """
    each = math.ceil(len(numbers) / math.ceil(len(numbers) / most))
    return [numbers[first : first + each] for first in range(0, len(numbers), each)]


def _rank(found: ByMethod, number: int) -> float:
    """The lower, the sooner a class is drawn: where methods differ most, or one is worst."""
    values = [v[number] for v in found.values() if not math.isnan(v[number])]
    return min(values) - max(values) if len(found) > 1 else values[0]


def _pictures(
    facts: RunFacts, found: ByMethod, drawn: list[int], scale: tuple[str, float, Axis]
) -> list[Markup]:
    return [_picture(facts, found, part, scale) for part in evenly(drawn, PICTURE)]


def _picture(
    facts: RunFacts, found: ByMethod, drawn: list[int], scale: tuple[str, float, Axis]
) -> Markup:
    """Bars from zero, a group for each class; ``scale`` is what they show, its unit and axis."""
    what, unit, axis = scale
    names, styles = facts.data.class_names, series_styles(facts)
    longest = max(len(names[number]) for number in drawn)
    group = len(found) + 0.7  # bars of a class, and the room to the next
    total = group * len(drawn)
    height, left = round(64 + ROW * total), min(112, max(44, 16 + 7 * longest))
    plot = Plot(axis, Axis(0, total, ()), what, "class", height=height, left=left)
    marks = [plot.line([(0, 0), (0, total)], "zero")] if axis.low < 0 else []
    for place, number in enumerate(drawn):
        top = total - place * group
        marks.append(plot.row_label(names[number], top - len(found) / 2))
        for row, (method, values) in enumerate(found.items()):
            if not math.isnan(values[number]):
                end = min(max(unit * values[number], axis.low), axis.high)
                corners = (0, top - row - 0.08), (end, top - row - 0.92)
                marks.append(plot.box(*corners, f"bar {styles[method]}"))
    described = "; ".join(
        f"{names[number]}: "
        + ", ".join(f"{name} {_briefly(unit * values[number])}" for name, values in found.items())
        for number in drawn
    )
    return plot.svg(f"{what} of each class", described, *marks)


def _numbers(facts: RunFacts, found: ByMethod, ratios: ByMethod, classes: list[int]) -> Markup:
    headings: list[Child] = ["class", *([named(name), ", %"] for name in found)]
    headings += [["benefit ratio, ", named(name)] for name in ratios]
    rows = (
        [
            named(facts.data.class_names[number]),
            *(_number(100 * values[number], 1) for values in found.values()),
            *(_number(values[number], 2) for values in ratios.values()),
        ]
        for number in classes
    )
    return table(headings, rows, label="Accuracy of each class")


def _number(value: float, decimals: int) -> str:
    return "–" if math.isnan(value) else f"{value:.{decimals}f}".replace("-", "−")


def _briefly(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3g}"
