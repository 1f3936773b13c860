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


def per_class_section(facts: RunFacts) -> Markup | None:
    """Bars of accuracy for each class and method, those with the largest differences first."""
    found = {method.name: class_accuracies(facts, method.name) for method in facts.methods}
    if not any(found.values()):
        return None
    classes = [
        number
        for number in range(len(facts.data.class_names))
        if any(not math.isnan(values[number]) for values in found.values() if values)
    ]
    drawn = sorted(classes, key=lambda number: -_spread(found, number))[:MOST]
    caption = "Accuracy on the test rows of each class, mean over the runs of a method."
    if len(drawn) < len(classes):
        caption += f" The {MOST} classes with the largest differences of {len(classes)}."
    styles = series_styles(facts)
    return section(
        "Classes",
        figure(
            caption,
            *(_picture(facts, found, part, styles) for part in evenly(sorted(drawn), PICTURE)),
            key={name: styles[name] for name in found},
            numbers=_numbers(facts, found, classes),
        ),
    )


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


def evenly(numbers: list[int], most: int) -> list[list[int]]:
    """Numbers in as few lists of at most so many as there can be, and as equal as can be.

    >>> evenly([0, 1, 2, 3, 4], 4)
    [[0, 1, 2], [3, 4]]
    """
    each = math.ceil(len(numbers) / math.ceil(len(numbers) / most))
    return [numbers[first : first + each] for first in range(0, len(numbers), each)]


def _spread(found: dict[str, list[float]], number: int) -> float:
    values = [v[number] for v in found.values() if v and not math.isnan(v[number])]
    return max(values) - min(values)


def _picture(
    facts: RunFacts, found: dict[str, list[float]], drawn: list[int], styles: dict[str, str]
) -> Markup:
    known = {name: values for name, values in found.items() if values}
    longest = max(len(facts.data.class_names[number]) for number in drawn)
    group = len(known) + 0.7  # bars of a class, and the room to the next
    total = group * len(drawn)
    plot = Plot(
        Axis(0, 100, tuple((float(tick), str(tick)) for tick in range(0, 101, 25))),
        Axis(0, total, ()),
        x_label="accuracy, %",
        y_label="class",
        height=round(64 + ROW * total),
        left=min(112, max(44, 16 + 7 * longest)),
    )
    marks = []
    for place, number in enumerate(drawn):
        top = total - place * group
        name = facts.data.class_names[number]
        marks.append(plot.row_label(name, top - len(known) / 2))
        for row, (method, values) in enumerate(known.items()):
            if not math.isnan(values[number]):
                corners = (0, top - row - 0.08), (100 * values[number], top - row - 0.92)
                marks.append(plot.box(*corners, f"bar {styles[method]}"))
    described = "; ".join(
        f"{facts.data.class_names[number]}: "
        + ", ".join(f"{name} {100 * values[number]:.1f} %" for name, values in known.items())
        for number in drawn
    )
    return plot.svg("Accuracy of each class", described, *marks)


def _numbers(facts: RunFacts, found: dict[str, list[float]], classes: list[int]) -> Markup:
    ratios = benefit_ratios(facts, found)
    headings: list[Child] = ["class", *(named(f"{name}, %") for name in found)]
    headings += [["benefit ratio, ", named(name)] for name in ratios]
    rows = (
        [
            named(facts.data.class_names[number]),
            *(f"{100 * values[number]:.1f}" if values else "–" for values in found.values()),
            *("–" if math.isnan(v[number]) else f"{v[number]:.2f}" for v in ratios.values()),
        ]
        for number in classes
    )
    return table(headings, rows, label="Accuracy of each class")


def benefit_ratios(facts: RunFacts, found: dict[str, list[float]]) -> dict[str, list[float]]:
    """The benefit ratio of each class, for each method that uses unlabelled rows.

    They are defined where a method with all labels, of risk "supervised", was trained too.
    """
    by_risk = {method.risk: found[method.name] for method in facts.methods}
    complete, full = by_risk.get("complete_case"), by_risk.get("supervised")
    if not complete or not full:
        return {}
    return {
        method.name: benefit_ratio(found[method.name], complete, full).tolist()
        for method in facts.methods
        if method.risk in ("ssl", "debiased") and found[method.name]
    }
