"""Learning curves: each method's metrics over the training steps, with the paper's final values."""

import math
from typing import TYPE_CHECKING, TypeAlias

from dessl.evaluation.metrics.vocabulary import higher_is_better
from dessl.report.chart import SOFT, pictures
from dessl.results.averages import number, over_steps
from dessl.results.record import Record
from dessl_paper.figures import (
    Pictures,
    drawing,
    headline,
    legend_below,
    panels,
    scale,
    shown_titles,
    styles,
)
from dessl_paper.results import Block, Results
from dessl_paper.targets import printed
from dessl_paper.wording import data_title, heading, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Curves: TypeAlias = dict[str, dict[int, float]]  # method → step → value

HIDDEN = 0.25  # share of a learning curve's values, its steep beginning, that need not be shown
ENOUGH = 20  # values for which hiding some is worth it


def learning_figure(results: Results, block: Block) -> Pictures | None:
    """A panel for each metric evaluated at least twice during training; None without any."""
    every = {metric: _curves(results, block, metric) for metric in results.metrics}
    watched = {metric: curves for metric, curves in every.items() if curves}
    if not watched:
        return None
    part = "test" if results.experiment.curve == "test" else "validation"
    with drawing():
        figure, axes = panels(len(watched))
        for panel, (metric, curves) in zip(axes, watched.items(), strict=True):
            _learning_panel(panel, results, block, metric, curves)
        legend_below(figure, axes[0], list(shown_titles(results).values()), columns=6)
        headline(figure, title(results), f"{data_title(results, block)}: {part} rows, in training")
        return pictures(figure)


def mean_curve(records: list[Record], metric: str) -> dict[int, float]:
    """The mean over splits at each step that every split reached.

    Args:
        records: Of one method.
        metric: Name.
    """
    means = over_steps(records, lambda event: number((event.get("validation") or {}).get(metric)))
    return {int(step): value for step, value in means if math.isfinite(value)}


def _curves(results: Results, block: Block, metric: str) -> Curves:
    found = {
        name: mean_curve(runs, metric)
        for name in results.methods
        if (runs := results.runs(block, name))
    }
    return {name: curve for name, curve in found.items() if len(curve) > 1}


def _learning_panel(
    axes: "Axes", results: Results, block: Block, metric: str, curves: Curves
) -> None:
    looks, names, times = styles(results), shown_titles(results), scale(metric)
    paper = []
    for name, curve in curves.items():
        look = looks[name]
        axes.plot(list(curve), [times * value for value in curve.values()], color=look.colour,
                  linestyle=look.line, linewidth=1.6, label=names[name])  # fmt: skip
        given = times * printed(results, block, name, metric, results.lams(name)[0]).mean
        if not math.isnan(given):
            axes.axhline(given, color=look.colour, linewidth=1.0, linestyle=":")
            paper.append(given)
    if paper:
        axes.plot([], [], color=SOFT, linewidth=1.0, linestyle=":", label="paper, at the end")
    shown = [times * value for curve in curves.values() for value in curve.values()]
    ends = [times * curve[max(curve)] for curve in curves.values()]
    _zoom(axes, sorted(shown), [*ends, *paper], rising=higher_is_better(metric))
    axes.locator_params(axis="x", nbins=5, integer=True)
    axes.xaxis.set_major_formatter(lambda step, _: f"{step:,.0f}")
    axes.set(xlabel="step", ylabel=heading(metric))


def _zoom(axes: "Axes", values: list[float], kept: list[float], *, rising: bool) -> None:
    """Hide the steep beginning of the curves, so that the ends can be read."""
    hidden = int(HIDDEN * len(values))
    low = min([values[hidden] if rising else values[0], *kept])
    high = max([values[-1] if rising else values[-1 - hidden], *kept])
    room = 0.05 * (high - low)
    if len(values) >= ENOUGH and room > 0:
        axes.set_ylim(low - room, high + room)
