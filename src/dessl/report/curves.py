"""Curves over the steps of training: the terms of the risk, and validation metrics.

risk = mean_L L + λ · mean_U H − λ · mean_L H
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from dessl.evaluation.metrics.vocabulary import NONE, metric_named, metric_text
from dessl.report.chart import COLOURS, INK, Chart, Look, filling, inside, legend, magnitude_axis
from dessl.report.html import Markup, figure, named, section, table
from dessl.report.scores import looks
from dessl.results.averages import number, over_steps
from dessl.results.facts import MethodFacts, RunFacts
from dessl.results.record import Record
from dessl.risk import COMPLETE_CASE

OVER_STEPS = ("cross_entropy", "accuracy")

Line: TypeAlias = list[tuple[float, float]]  # step and value


def _times_lam(part: str, sign: int) -> Callable[[dict[str, Any]], float | None]:
    def value(event: dict[str, Any]) -> float | None:
        lam, h = event.get("lam"), event.get(part)
        return None if lam is None or h is None else sign * lam * h

    return value


PARTS: dict[str, tuple[Look, Callable[[dict[str, Any]], float | None]]] = {
    "labelled loss, mean L": (Look(COLOURS["s0"], ""), lambda event: event["loss"]),
    "SSL term, λ · mean H": (
        Look(COLOURS["s1"], "", (0, (3, 1.5))),
        _times_lam("h_unlabelled", 1),
    ),
    "debiasing term, −λ · mean H": (
        Look(COLOURS["s2"], "", (0, (1, 1))),
        _times_lam("h_labelled", -1),
    ),
    "risk, the sum": (Look(INK, ""), lambda event: event["risk"]),
}
OF_RISK = {COMPLETE_CASE: (0,), "supervised": (0,), "ssl": (0, 1, 3), "debiased": (0, 1, 2, 3)}


def learning_section(facts: RunFacts) -> Markup | None:
    """The terms of the risk for each method, then the validation metrics of all methods."""
    if not any(run.history for run in facts.runs):
        return None
    parts = {m.name: risk_parts(m, facts.runs_of(m.name)) for m in facts.methods}
    parts = {name: lines for name, lines in parts.items() if lines}
    seen = [value for lines in parts.values() for line in lines.values() for _, value in line]
    styles = looks(facts)
    draws = [partial(_parts, name, lines, seen, styles[name]) for name, lines in parts.items()]
    networks, kind = facts.settings.get("networks", 1), facts.settings.get("network")
    which = "The network" if networks == 1 else f"The first of {networks} networks"
    network = f"{which} of each method{f': {kind}' if kind else ''}."
    caption = (
        f"{network} Terms of the risk during training, averaged since the previous evaluation, on "
        "a scale that is logarithmic away from zero."
    )
    if len(facts.seeds) > 1:
        caption += f" Averaged over {len(facts.seeds)} seeds."
    drawn = {part for lines in parts.values() for part in lines}
    key = legend({part: look for part, (look, _) in PARTS.items() if part in drawn})
    rows = [
        (named(name), part, _at(line[0]), _at(line[-1]))
        for name, lines in parts.items()
        for part, line in lines.items()
    ]
    headings = ("method", "term", "first evaluation", "last evaluation")
    numbers = table(headings, rows, label="Terms of the risk")
    shown = figure(caption, *filling(draws), legend=key, numbers=numbers)
    return section("Learning", shown, _validation(facts, styles))


def risk_parts(method: MethodFacts, runs: Sequence[Record]) -> dict[str, Line]:
    """The terms of a method's risk over the steps, by name."""
    names = list(PARTS)
    chosen = [names[place] for place in OF_RISK.get(method.risk, (0, 1, 2, 3))]
    lines = {name: over_steps(runs, PARTS[name][1]) for name in chosen}
    return {name: line for name, line in lines.items() if line}


def _parts(name: str, lines: dict[str, Line], seen: list[float], look: Look, width: int) -> Markup:
    ends = "; ".join(f"{part}: {line[-1][1]:.3g} at the end" for part, line in lines.items())
    chart = Chart.of("step", "risk", width=width)
    chart.axes.axhline(0, color=INK, linewidth=1, linestyle=(0, (2, 3)))
    _over_steps(chart, [(line, PARTS[part][0]) for part, line in lines.items()])
    magnitude_axis(chart.axes, seen)
    chart.label(name, look.colour)
    return chart.svg(f"Terms of the risk of {name}", ends)


def _over_steps(chart: Chart, lines: Sequence[tuple[Line, Look]]) -> None:
    """Draw lines over training steps; a single point becomes a dot."""
    axes = chart.axes
    for line, look in lines:
        alone = sum(not math.isnan(value) for _, value in line) == 1
        axes.plot(*zip(*line, strict=True), color=look.colour, linestyle=look.line,
                  marker="o" if alone else "")  # fmt: skip
    axes.set_xlim(left=0)
    axes.locator_params(axis="x", nbins=5, integer=True)
    axes.xaxis.set_major_formatter(lambda step, _: f"{step:,.0f}")


def _at(point: tuple[float, float]) -> str:
    value = NONE if math.isnan(point[1]) else f"{point[1]:.4g}".replace("-", "−")
    return f"{value} (step {point[0]:,.0f})"


def _validation(facts: RunFacts, styles: dict[str, Look]) -> Markup | None:
    pictures, rows, drawn = [], [], set()
    for metric in OVER_STEPS:
        lines = _validation_lines(facts, metric)
        if not lines:
            continue
        drawn |= set(lines)
        chart = Chart.of("step", metric_text(metric))
        _over_steps(chart, [(line, styles[name]) for name, line in lines.items()])
        chart.axes.set_ylim(inside(chart.axes.get_ylim(), metric))
        ends = "; ".join(f"{name}: {line[-1][1]:.3g} at the end" for name, line in lines.items())
        title = f"Validation: {metric_named(metric).words} during training"
        pictures.append(chart.svg(title, ends))
        rows += [(metric_text(metric), named(n), _at(v[0]), _at(v[-1])) for n, v in lines.items()]
    if not pictures:
        return None
    headings = ("metric", "method", "first evaluation", "last evaluation")
    numbers = table(headings, rows, label="Validation during training")
    whose = f"{facts.data.validation:,} labelled" if facts.data.validation else "held-out labelled"
    caption = f"The same networks on {whose} validation rows, which selected the checkpoint."
    key = legend({m.name: styles[m.name] for m in facts.methods if m.name in drawn})
    return figure(caption, *pictures, legend=key, numbers=numbers)


def _validation_lines(facts: RunFacts, metric: str) -> dict[str, Line]:
    unit, lines = metric_named(metric).unit, {}
    for m in facts.methods:
        line = over_steps(
            facts.runs_of(m.name),
            lambda event: unit * number((event.get("validation") or {}).get(metric)),
        )
        if any(not math.isnan(value) for _, value in line):
            lines[m.name] = line
    return lines
