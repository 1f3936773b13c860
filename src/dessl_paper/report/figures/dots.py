"""The figure of a table of methods: each metric with its interval, the paper's beside it."""

import math
from typing import TYPE_CHECKING

from dessl_paper.report.averages import average, values_of
from dessl_paper.report.figures.scale import inside, scale
from dessl_paper.report.figures.style import (
    drawing,
    headline,
    pictures,
    shown_text,
    shown_titles,
    styles,
)
from dessl_paper.report.paper import printed
from dessl_paper.report.results import Block, Results
from dessl_paper.report.titles import data_title, title
from dessl_paper.report.wording import heading

if TYPE_CHECKING:
    from matplotlib.axes import Axes

APART = 0.36  # between ours and the paper's on one row


def dots_figure(results: Results) -> dict[str, bytes]:
    """A panel for each metric and data set, a row for each method."""
    from matplotlib.figure import Figure

    blocks, metrics = results.blocks, results.metrics
    height = 0.34 * len(results.methods) + 0.75
    with drawing():
        size = (3.1 * len(metrics) + 1.3, height * len(blocks) + 1.0)
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(len(blocks), len(metrics), squeeze=False, sharey=True)
        paper = False
        for row, block in enumerate(blocks):
            for column, metric in enumerate(metrics):
                axes = grid[row, column]
                paper |= _panel(axes, results, block, metric)
                axes.set_xlabel(heading(metric))
            if len(blocks) > 1:
                grid[row, 0].set_title(
                    shown_text(data_title(results, block)), loc="left", fontsize=9
                )
        _legend(figure.axes[0], paper=paper)
        figure.legend(
            *figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2
        )
        said = [data_title(results, blocks[0])] if len(blocks) == 1 else []
        headline(figure, title(results), *said)
        return pictures(figure)


def _panel(axes: "Axes", results: Results, block: Block, metric: str) -> bool:
    """Draw one panel; tell whether the paper has numbers in it."""
    looks, times, paper = styles(results), scale(metric), False
    for place, method in enumerate(results.methods):
        look = looks[method]
        found = average(values_of(results.runs(block, method), metric))
        if found.n and math.isfinite(found.mean):
            half = None if found.half_width is None else [times * found.half_width]
            axes.errorbar([times * found.mean], [place], xerr=half, color=look.colour,
                          marker=look.marker, ls="none", capsize=3, markersize=6)  # fmt: skip
        given = printed(results, block, method, metric, results.lams(method)[0])
        if not math.isnan(given.mean):
            paper = True
            half = None if given.half_width is None else [times * given.half_width]
            axes.errorbar([times * given.mean], [place + APART], xerr=half, color=look.colour,
                          marker=look.marker, linestyle="none", capsize=2, markersize=5,
                          elinewidth=0.8, markerfacecolor="none")  # fmt: skip
    names = list(shown_titles(results).values())
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.35, -0.5)
    axes.margins(x=0.08)
    axes.set_xlim(inside(axes.get_xlim(), metric))
    return paper


def _legend(axes: "Axes", *, paper: bool) -> None:
    marks = {"ours, 95 % interval over splits where there are several": "#555555"}
    for label, colour in marks.items():
        axes.plot([], [], color=colour, marker="o", linestyle="none", label=label)
    if paper:
        axes.plot([], [], color="#555555", marker="o", linestyle="none", markerfacecolor="none",
                  label="the paper's (open)")  # fmt: skip
