"""Accuracy class by class, and how much of what all labels would bring each class got."""

import math
from typing import TYPE_CHECKING

from dessl.data.publishers import DATASETS
from dessl.evaluation.metrics import benefit_ratio
from dessl.report.plot import shortened
from dessl.report.reproduction.averages import number
from dessl.report.reproduction.figures.style import Style, drawing, pictures, styles
from dessl.report.reproduction.paper import paper_classes
from dessl.report.reproduction.results import Block, Results
from dessl.report.reproduction.titles import data_title, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 20  # classes that bars can show


def classes_figure(results: Results) -> dict[str, bytes] | None:
    """Bars for each class, a panel for each data set; benefit ratios under one alone.

    None where no run has class accuracies, or where there are too many classes for bars.
    """
    from matplotlib.figure import Figure

    rates = {block: class_accuracies(results, block) for block in results.blocks}
    rates = {block: found for block, found in rates.items() if _drawable(found)}
    if not rates:
        return None
    panels = len(rates)
    ratios = benefit_ratios(next(iter(rates.values()))) if panels == 1 else {}
    with drawing():
        rows = panels + bool(ratios)
        figure = Figure(figsize=(10.5, 2.7 * rows + 0.9), layout="constrained")
        axes = figure.subplots(rows, 1, squeeze=False)[:, 0]
        for place, (block, found) in zip(axes, rates.items(), strict=False):
            _bars(place, results, block, found, "accuracy, %", 100.0)
            place.set_title(data_title(results, block), loc="left", fontsize=9)
        if ratios:
            _bars(axes[-1], results, next(iter(rates)), ratios, "benefit ratio", 1.0)
        handles, names = axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=len(names))
        figure.suptitle(f"{title(results)}: accuracy of each class (open marks: the paper's)"
                        if paper_classes(results, "complete_case")
                        else f"{title(results)}: accuracy of each class")  # fmt: skip
        return pictures(figure)


def class_accuracies(results: Results, block: Block) -> dict[str, list[float]]:
    """Each method's accuracies by class, means over splits; (classes,) a method."""
    found = {}
    for method in results.methods:
        rows = [
            [number(value) for value in record.metrics.get("per_class_accuracy") or ()]
            for record in results.runs(block, method)
        ]
        rows = [row for row in rows if row]
        if rows:
            found[method] = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    return found


def benefit_ratios(accuracies: dict[str, list[float]]) -> dict[str, list[float]]:
    """Each semi-supervised method's benefit ratios, where complete case and all labels were run."""
    if not {"complete_case", "supervised"} <= set(accuracies):
        return {}
    alone, everything = accuracies["complete_case"], accuracies["supervised"]
    return {
        name: benefit_ratio(row, alone, everything).tolist()
        for name, row in accuracies.items()
        if name not in ("complete_case", "supervised")
    }


def _drawable(found: dict[str, list[float]]) -> bool:
    return bool(found) and len(next(iter(found.values()))) <= MOST


def _bars(
    axes: "Axes",
    results: Results,
    block: Block,
    rows: dict[str, list[float]],
    label: str,
    times: float,
) -> None:
    looks = styles(results)
    width = 0.8 / len(rows)
    for number_, (method, values) in enumerate(rows.items()):
        places = [k - 0.4 + width * (number_ + 0.5) for k in range(len(values))]
        shown = [times * value for value in values]
        look = looks[method]
        axes.bar(places, shown, width * 0.92, color=look.colour, label=results.methods[method])
        name = f"{method}_br" if label.startswith("benefit") else method
        _paper(axes, places, [times * value for value in paper_classes(results, name)], look)
    names = DATASETS[block.data].class_names if block.data in DATASETS else ()
    count = len(next(iter(rows.values())))
    texts = [shortened(name, 16) for name in names] if len(names) == count else range(count)
    axes.set_xticks(range(count), list(map(str, texts)))
    axes.set_ylabel(label)
    axes.grid(visible=False, axis="x")
    if times == 1.0:
        finite = [v for row in rows.values() for v in row if math.isfinite(v)]
        axes.set_ylim(max(-1.0, min([0.0, *finite]) - 0.05), min(2.0, max([1.0, *finite]) + 0.05))


def _paper(axes: "Axes", places: list[float], values: list[float], look: Style) -> None:
    if len(values) == len(places):
        axes.plot(places, values, linestyle="none", marker=look.marker, markersize=4.5,
                  markerfacecolor="white", markeredgecolor="#222222", markeredgewidth=0.8)  # fmt: skip
