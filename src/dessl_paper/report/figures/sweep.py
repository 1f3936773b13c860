"""The figure of a λ-sweep: a panel for each metric, and the tests' p-values under them."""

import math
from typing import TYPE_CHECKING

from dessl_paper.report.averages import Average, average, values_of
from dessl_paper.report.comparison import CLEAR, over_lambda
from dessl_paper.report.figures.panels import legend_below
from dessl_paper.report.figures.scale import inside, lambda_axis, scale, zero_place
from dessl_paper.report.figures.style import (
    Style,
    drawing,
    headline,
    pictures,
    shown_titles,
    styles,
)
from dessl_paper.report.paper import paper_curve
from dessl_paper.report.results import Block, Results
from dessl_paper.report.titles import data_title, title
from dessl_paper.report.wording import heading

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAST = -6  # p-values below ten to this are drawn there, and the tick says so


def sweep_figure(results: Results, block: Block) -> dict[str, bytes]:
    """Metrics over λ with 95 % bands, the paper's curves, and p-values where there are splits."""
    from matplotlib.figure import Figure

    tests = any(
        len(results.runs(block, name, results.lams(name)[0])) > 1 for name in results.methods
    )
    with drawing():
        columns = len(results.metrics)
        size = (3.9 * columns, 5.9 if tests else 3.7)
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(
            2 if tests else 1, columns, squeeze=False, height_ratios=[1.5, 1] if tests else [1]
        )
        for column, metric in enumerate(results.metrics):
            _metric(grid[0, column], results, block, metric)
            if tests:
                _p_values(grid[1, column], results, block, metric)
        legend_below(figure, grid[0, 0], list(shown_titles(results).values()), columns=6)
        headline(figure, title(results), data_title(results, block))
        return pictures(figure)


def _positive(results: Results) -> list[float]:
    """Every λ above 0 that is drawn, the paper's among them."""
    found = {lam for name in results.methods for lam in results.lams(name)}
    for name in results.methods:
        found |= {
            lam for metric in results.metrics for lam in paper_curve(results, name, metric)[0]
        }
    return sorted(lam for lam in found if lam > 0) or [1.0]


def _metric(axes: "Axes", results: Results, block: Block, metric: str) -> None:
    looks, lams, times = styles(results), _positive(results), scale(metric)
    names, alone = shown_titles(results), results.complete_case()
    if alone:
        found = average(values_of(results.runs(block, alone), metric))
        _level(axes, found, times, looks[alone], zero_place(lams), names[alone])
    paper = False
    for name in (name for name in results.methods if name != alone):
        means = {
            lam: average(values_of(results.runs(block, name, lam), metric))
            for lam in results.lams(name)
        }
        _curve(axes, means, times, looks[name], names[name])
        at, values = paper_curve(results, name, metric)
        if values:
            places = [lam or zero_place(lams) for lam in at]
            shown = [times * value for value in values]
            axes.plot(places[1:], shown[1:], **looks[name].of_paper())
            axes.plot(places[:1], shown[:1], **{**looks[alone or name].of_paper(), "zorder": 1})
            paper = True
    if paper:
        axes.plot([], [], label="paper", color="#777777", marker="o", linestyle=":",
                  markerfacecolor="none", linewidth=1.0, markersize=4.5)  # fmt: skip
    lambda_axis(axes, lams)
    axes.set(ylabel=heading(metric), ylim=inside(axes.get_ylim(), metric))


def _level(
    axes: "Axes", found: Average, times: float, look: Style, place: float, name: str
) -> None:
    """The complete case: a point at λ = 0 and a level across."""
    if not math.isfinite(found.mean):
        return
    mean, half = times * found.mean, times * (found.half_width or 0.0)
    axes.axhspan(mean - half, mean + half, color=look.colour, alpha=0.12, linewidth=0)
    axes.axhline(mean, color=look.colour, linestyle="--", linewidth=1.2, zorder=1)
    axes.errorbar([place], [mean], yerr=[half] if half else None, color=look.colour,
                  marker=look.marker, ls="--", label=name, capsize=2, markersize=5)  # fmt: skip


def _curve(axes: "Axes", means: dict[float, Average], times: float, look: Style, name: str) -> None:
    kept = {lam: found for lam, found in means.items() if found.n}
    lams = list(kept)
    middle = [times * found.mean for found in kept.values()]
    half = [times * (found.half_width or 0.0) for found in kept.values()]
    if any(half):
        low = [m - h for m, h in zip(middle, half, strict=True)]
        high = [m + h for m, h in zip(middle, half, strict=True)]
        axes.fill_between(lams, low, high, color=look.colour, alpha=0.18, linewidth=0)
    axes.plot(lams, middle, **look.of_line(), markersize=4.5, linewidth=1.8, label=name)


def _p_values(axes: "Axes", results: Results, block: Block, metric: str) -> None:
    looks, lowest, cut = styles(results), 10.0**LEAST, False
    for usual, debiased in results.twins():
        found = [one for one in over_lambda(results, block, metric, debiased, usual) if one.n > 1]
        lams = [one.lam for one in found]
        better, worse = [one.p_better for one in found], [one.p_worse for one in found]
        for name, values in ((debiased, better), (usual, worse)):
            drawn = [max(value, lowest) for value in values]
            axes.plot(lams, drawn, **looks[name].of_line(), markersize=3.5)
        cut = cut or any(value < lowest for value in better + worse)
    axes.axhline(CLEAR, color="#333333", linewidth=1, linestyle="--")
    axes.set_yscale("log")
    axes.set_ylim(min(axes.get_ylim()[0], CLEAR / 2), 1.6)
    if cut:
        _say_least(axes)
    lambda_axis(axes, _positive(results))
    axes.set_ylabel("p of being better")


def _say_least(axes: "Axes") -> None:
    """Let the lowest tick say that p-values there are that small or smaller."""
    powers = range(LEAST, 1, 2)
    texts = [rf"$\mathdefault{{10^{{{power}}}}}$" for power in powers]
    axes.set_yticks([10.0**power for power in powers], [f"≤ {texts[0]}", *texts[1:]])
