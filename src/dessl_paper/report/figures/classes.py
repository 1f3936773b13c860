"""Accuracy class by class, and how much of what all labels would bring each class got."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dessl.evaluation.metrics.vocabulary import metric_text
from dessl_paper.report.averages import Average, average
from dessl_paper.report.classes import benefit_ratios, class_accuracies, class_names
from dessl_paper.report.figures.panels import legend_below
from dessl_paper.report.figures.scale import inside
from dessl_paper.report.figures.style import (
    drawing,
    headline,
    pictures,
    shown_text,
    shown_titles,
    styles,
)
from dessl_paper.report.paper import paper_classes
from dessl_paper.report.results import Block, Results
from dessl_paper.report.titles import data_title, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RATIO = "benefit ratio"
Rows = Mapping[str, Sequence[Average]]


def classes_figure(results: Results) -> dict[str, bytes] | None:
    """Each method's accuracy in each class, a panel for each data set; benefit ratios under them.

    None where no run has class accuracies, or where there are too many classes to show.
    """
    from matplotlib.figure import Figure

    rates = {block: class_accuracies(results, block) for block in results.blocks}
    rates = {block: rows for block, rows in rates.items() if rows}
    drawn = [(block, rows, metric_text("accuracy"), 100.0) for block, rows in rates.items()]
    drawn += [
        (block, {name: [average([x]) for x in row] for name, row in ratios.items()}, RATIO, 1.0)
        for block, rows in rates.items()
        if (ratios := benefit_ratios(rows))
    ]
    if not drawn:
        return None
    with drawing():
        figure = Figure(figsize=(10.5, 2.5 * len(drawn) + 1.0), layout="constrained")
        axes = figure.subplots(len(drawn), 1, squeeze=False)[:, 0]
        for panel, (block, rows, label, times) in zip(axes, drawn, strict=True):
            _panel(panel, results, block, rows, times)
            panel.set_ylabel(label)
            if times > 1 or len(rates) > 1:
                panel.set_title(shown_text(data_title(results, block)), loc="left", fontsize=9)
        legend_below(figure, axes[0], list(shown_titles(results).values()), columns=6)
        headline(figure, f"{title(results)}: class by class")
        return pictures(figure)


def _panel(axes: "Axes", results: Results, block: Block, rows: Rows, times: float) -> None:
    looks, step = styles(results), 0.8 / len(rows)
    paper = False
    for place, (method, row) in enumerate(rows.items()):
        at = [k - 0.4 + step * (place + 0.3) for k in range(len(row))]
        look = looks[method]
        axes.errorbar(at, [times * one.mean for one in row],
                      yerr=[times * (one.half_width or 0.0) for one in row],
                      color=look.colour, marker=look.marker, linestyle="none", markersize=5.5,
                      elinewidth=1.0, label=shown_titles(results)[method])  # fmt: skip
        given = paper_classes(results, method if times > 1 else f"{method}_br")
        if len(given) == len(row):
            aside = [x + 0.4 * step for x in at]
            axes.plot(aside, [times * value for value in given], linestyle="none", markersize=4.5,
                      color=look.colour, marker=look.marker, markerfacecolor="none")  # fmt: skip
            paper = True
    if paper:
        axes.plot([], [], linestyle="none", marker="o", color="#777777", markerfacecolor="none",
                  label="paper (open)")  # fmt: skip
    if times == 1.0:
        axes.axhline(1.0, color="#333333", linewidth=0.9, linestyle="--")
    else:
        axes.set_ylim(inside(axes.get_ylim(), "accuracy"))
    _class_axis(axes, block, len(next(iter(rows.values()))))


def _class_axis(axes: "Axes", block: Block, count: int) -> None:
    names = class_names(block, count)
    width = max(9, 100 // count)
    folded = [textwrap.wrap(name, width, break_long_words=False) for name in names]
    axes.set_xticks(range(count), ["\n".join(lines) for lines in folded])
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=False, axis="x")
    for edge in range(1, count):
        axes.axvline(edge - 0.5, color="#e3e6e8", linewidth=0.9)
    axes.set_xlim(-0.55, count - 0.45)
