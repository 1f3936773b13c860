"""The figure of methods over the number of labels: one panel for each metric."""

from typing import TYPE_CHECKING

from dessl_paper.report.averages import average, values_of
from dessl_paper.report.figures.panels import legend_below, panels
from dessl_paper.report.figures.scale import inside, scale
from dessl_paper.report.figures.style import (
    drawing,
    headline,
    pictures,
    shown_titles,
    styles,
)
from dessl_paper.report.results import Block, Results
from dessl_paper.report.titles import title
from dessl_paper.report.wording import heading

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def labels_figure(results: Results, data: str) -> dict[str, bytes]:
    """Each method's metrics over the number of labels of one data set, with 95 % bars."""
    blocks = [block for block in results.blocks if block.data == data]
    with drawing():
        figure, axes = panels(len(results.metrics))
        for panel, metric in zip(axes, results.metrics, strict=True):
            _panel(panel, results, blocks, metric)
        legend_below(figure, axes[0], list(shown_titles(results).values()))
        headline(figure, title(results), data)
        return pictures(figure)


def _panel(axes: "Axes", results: Results, blocks: list[Block], metric: str) -> None:
    times, looks = scale(metric), styles(results)
    for place, (method, name) in enumerate(shown_titles(results).items()):
        found = {block.labels: average(values_of(results.runs(block, method), metric))
                 for block in blocks}  # fmt: skip
        kept = {labels: one for labels, one in found.items() if one.n}
        aside = 1.0 + 0.02 * (place - len(results.methods) / 2)  # so that bars do not hide bars
        axes.errorbar(
            [labels * aside for labels in kept],
            [times * one.mean for one in kept.values()],
            yerr=[times * (one.half_width or 0.0) for one in kept.values()],
            label=name,
            capsize=2,
            elinewidth=0.9,
            markersize=4.5,
            **looks[method].of_line(),
        )
    axes.set_xscale("log")
    places = [block.labels for block in blocks]
    axes.set_xticks(places, [f"{place:,}" for place in places])
    axes.set_xticks([], minor=True)
    axes.set(xlabel="labels", ylabel=heading(metric), ylim=inside(axes.get_ylim(), metric))
