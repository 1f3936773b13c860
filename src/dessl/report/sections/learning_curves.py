"""Learning curves: the three parts of the risk while training, and validation beside them.

risk = mean_L L + λ · mean_U H − λ · mean_L H
"""

import math
from collections.abc import Callable
from typing import Any

from dessl.report.averages import over_steps, runs_of
from dessl.report.axis import Axis
from dessl.report.facts import MethodFacts, RunFacts, RunResult
from dessl.report.figure import figure, section, series_styles, table
from dessl.report.html import Markup, named
from dessl.report.measures import measure_of, metric_text, shown_range
from dessl.report.plot import Plot, Points

Part = Callable[[dict[str, Any]], float | None]

PARTS: dict[str, tuple[str, Part]] = {
    "labelled loss, mean L": ("part-loss", lambda event: event["loss"]),
    "what SSL adds, λ · mean H": ("part-added", lambda event: _times(event, "h_unlabelled", 1)),
    "what debiasing takes back, −λ · mean H": (
        "part-taken",
        lambda event: _times(event, "h_labelled", -1),
    ),
    "risk, their sum": ("part-risk", lambda event: event["risk"]),
}
OF_RISK = {"complete_case": (0,), "supervised": (0,), "ssl": (0, 1, 3), "debiased": (0, 1, 2, 3)}
WATCHED = ("cross_entropy", "accuracy")


def learning_curves_section(facts: RunFacts) -> Markup | None:
    """The parts of the risk for each method, then validation metrics of all."""
    if not any(run.history for run in facts.runs):
        return None
    parts = {m.name: risk_parts(m, runs_of(facts, m.name)) for m in facts.methods}
    parts = {name: lines for name, lines in parts.items() if lines}
    seen = [point[1] for lines in parts.values() for line in lines.values() for point in line]
    scale = Axis.of_magnitudes(seen)
    styles = series_styles(facts)
    pictures = [_parts_picture(name, lines, scale, styles[name]) for name, lines in parts.items()]
    caption = (
        "The parts of the risk that was minimised, means since the evaluation before, on a scale "
        "that is logarithmic away from zero."
    )
    if len(facts.seeds) > 1:
        caption += f" Means over {len(facts.seeds)} seeds."
    drawn = {part for lines in parts.values() for part in lines}
    key = {part: style for part, (style, _) in PARTS.items() if part in drawn}
    shown = figure(caption, *pictures, key=key, numbers=_parts_numbers(parts))
    return section("Learning", shown, _validation(facts, styles))


def risk_parts(method: MethodFacts, runs: list[RunResult]) -> dict[str, Points]:
    """The parts of a method's risk over the steps, by name."""
    names = list(PARTS)
    chosen = [names[number] for number in OF_RISK.get(method.risk, (0, 1, 2, 3))]
    lines = {name: over_steps(runs, PARTS[name][1]) for name in chosen}
    return {name: line for name, line in lines.items() if line}


def _times(event: dict[str, Any], part: str, sign: int) -> float | None:
    lam, h = event.get("lam"), event.get(part)
    return None if lam is None or h is None else sign * lam * h


def _parts_picture(
    name: str,
    lines: dict[str, Points],
    scale: tuple[Axis, Callable[[float], float]],
    style: str,
) -> Markup:
    axis, place = scale
    steps = [point[0] for line in lines.values() for point in line]
    plot = Plot(Axis.of(steps, include=[0.0]), axis, "step", "risk")
    marks = [plot.line([(0, 0), (plot.x.high, 0)], "zero")]
    for part, line in lines.items():
        marks.append(plot.line([(step, place(value)) for step, value in line], PARTS[part][0]))
    ends = "; ".join(f"{part}: {line[-1][1]:.3g} at the end" for part, line in lines.items())
    return plot.svg(f"Parts of the risk of {name}", ends, *marks, plot.label(name, style))


def _parts_numbers(parts: dict[str, dict[str, Points]]) -> Markup:
    rows = []
    for name, lines in parts.items():
        for part, line in lines.items():
            first, last = line[0], line[-1]
            rows.append((named(name), part, _at(first), _at(last)))
    headings = ("method", "part", "first evaluation", "last evaluation")
    return table(headings, rows, label="Parts of the risk")


def _at(point: tuple[float, float]) -> str:
    value = "–" if math.isnan(point[1]) else f"{point[1]:.4g}".replace("-", "−")
    return f"{value} (step {point[0]:,.0f})"


def _validation(facts: RunFacts, styles: dict[str, str]) -> Markup | None:
    found = {metric: _validation_lines(facts, metric) for metric in WATCHED}
    found = {metric: lines for metric, lines in found.items() if lines}
    if not found:
        return None
    pictures, rows = [], []
    for metric, lines in found.items():
        points = [point for line in lines.values() for point in line]
        plot = Plot(
            Axis.of([point[0] for point in points], include=[0.0]),
            Axis.of([point[1] for point in points], within=shown_range(metric)),
            "step",
            metric_text(metric),
        )
        marks = [plot.line(line, styles[name]) for name, line in lines.items()]
        ends = "; ".join(f"{name}: {line[-1][1]:.3g} at the end" for name, line in lines.items())
        title = f"Validation: {measure_of(metric).text} while training"
        pictures.append(plot.svg(title, ends, *marks))
        rows += [(metric_text(metric), named(n), _at(v[0]), _at(v[-1])) for n, v in lines.items()]
    headings = ("metric", "method", "first evaluation", "last evaluation")
    numbers = table(headings, rows, label="Validation while training")
    whose = f"{facts.data.validation:,} labelled" if facts.data.validation else "held-out labelled"
    caption = f"On {whose} validation rows, which chose the step to keep."
    key = {method.name: styles[method.name] for method in facts.methods}
    return figure(caption, *pictures, key=key, numbers=numbers)


def _validation_lines(facts: RunFacts, metric: str) -> dict[str, Points]:
    unit = 100 if measure_of(metric).percent else 1

    def value(event: dict[str, Any]) -> float | None:
        found = (event.get("validation") or {}).get(metric)
        return None if found is None else unit * found

    lines = {m.name: over_steps(runs_of(facts, m.name), value) for m in facts.methods}
    return {
        name: line
        for name, line in lines.items()
        if any(not math.isnan(point[1]) for point in line)
    }
