"""The figure of methods over the number of labels: one panel for each metric."""

from typing import TYPE_CHECKING

from dessl.report.reproduction.averages import average, values_of
from dessl.report.reproduction.figures.scale import axis_name, scale
from dessl.report.reproduction.figures.style import drawing, pictures, styles
from dessl.report.reproduction.results import Block, Results
from dessl.report.reproduction.titles import title

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def labels_figure(results: Results, data: str) -> dict[str, bytes]:
    """Each method's metrics over the number of labels of one data set, with 95 % bars."""
    from matplotlib.figure import Figure

    blocks = [block for block in results.blocks if block.data == data]
    with drawing():
        columns = len(results.metrics)
        figure = Figure(figsize=(3.7 * columns, 4.2), layout="constrained")
        panels = figure.subplots(1, columns, squeeze=False)[0]
        for axes, metric in zip(panels, results.metrics, strict=True):
            _panel(axes, results, blocks, metric)
        handles, names = panels[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=min(len(names), 4))
        figure.suptitle(f"{title(results)}\n{data}")
        return pictures(figure)


def _panel(axes: "Axes", results: Results, blocks: list[Block], metric: str) -> None:
    times = scale(metric)
    for method, look in styles(results).items():
        found = {block.labels: average(values_of(results.runs(block, method), metric))
                 for block in blocks}  # fmt: skip
        kept = {labels: one for labels, one in found.items() if one.n}
        axes.errorbar(
            list(kept),
            [times * one.mean for one in kept.values()],
            yerr=[times * (one.half_width or 0.0) for one in kept.values()],
            label=results.methods[method],
            capsize=2,
            markersize=4.5,
            **look.of_line(),
        )
    axes.set_xscale("log")
    places = [block.labels for block in blocks]
    axes.set_xticks(places, [f"{place:,}" for place in places])
    axes.set_xticks([], minor=True)
    axes.set(xlabel="labels", ylabel=axis_name(metric))
