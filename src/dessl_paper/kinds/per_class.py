"""Accuracy and benefit ratio of each class, as means over splits.

The benefit ratio of a class is a method's gain as a share of the gain from having all labels.
"""

import math
import statistics
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dessl.data.publishers import DATASETS
from dessl.evaluation.metrics import benefit_ratio
from dessl.evaluation.metrics.vocabulary import NONE, metric_text
from dessl.report.chart import INK, RULE, SOFT, inside, pictures
from dessl.report.tables import Table
from dessl.results.averages import Average, average, number
from dessl.risk import COMPLETE_CASE
from dessl_paper.figures import (
    Pictures,
    drawing,
    headline,
    legend_below,
    shown_text,
    shown_titles,
    styles,
)
from dessl_paper.findings import Finding
from dessl_paper.results import Block, Results
from dessl_paper.targets import paper_classes
from dessl_paper.wording import data_title, ours_text, title, written

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RATIO = "benefit ratio"
Rows = Mapping[str, Sequence[Average]]
MOST = 20  # classes that a table or a panel can show
ALONE, EVERYTHING = COMPLETE_CASE, "supervised"


def class_accuracies(results: Results, block: Block) -> dict[str, list[Average]]:
    """Each method's accuracies by class, (classes,) per method.

    Empty if no run has any, or if there are too many classes to show.
    """
    found = {}
    for method in results.methods:
        rows = [
            [number(value) for value in record.metrics.get("per_class_accuracy") or ()]
            for record in results.runs(block, method)
        ]
        columns = [*zip(*(row for row in rows if row), strict=True)]
        if 0 < len(columns) <= MOST:
            found[method] = [average(column) for column in columns]
    return found


def benefit_ratios(accuracies: Mapping[str, Sequence[Average]]) -> dict[str, list[float]]:
    """Benefit ratios of mean accuracies, if the complete case and all labels were run too."""
    if not {ALONE, EVERYTHING} <= set(accuracies):
        return {}
    means = {name: [one.mean for one in row] for name, row in accuracies.items()}
    alone, everything = means.pop(ALONE), means.pop(EVERYTHING)
    return {name: benefit_ratio(row, alone, everything).tolist() for name, row in means.items()}


def spread(ratios: Sequence[float]) -> float:
    """Standard deviation (n − 1) over the classes that have a ratio; NaN below two.

    >>> round(spread([0.5, 1.0, float("nan")]), 4)
    0.3536
    """
    known = [ratio for ratio in ratios if ratio == ratio]
    return statistics.stdev(known) if len(known) > 1 else float("nan")


def class_names(block: Block, count: int) -> tuple[str, ...]:
    """The publisher's names of the classes, or their numbers."""
    known = DATASETS[block.data].class_names if block.data in DATASETS else ()
    return known if len(known) == count else tuple(map(str, range(count)))


def class_tables(results: Results, block: Block) -> list[Table]:
    """Accuracies of a block's classes, and benefit ratios if all labels were run too."""
    found = class_accuracies(results, block)
    if not found:
        return []
    names = class_names(block, len(next(iter(found.values()))))
    paper = {method: paper_classes(results, method) for method in found}
    rows = tuple(
        (
            name,
            *(
                text
                for method, row in found.items()
                for text in (ours_text("accuracy", row[k]), _at("accuracy", paper[method], k))
            ),
        )
        for k, name in enumerate(names)
    )
    caption = f"{data_title(results, block)}: accuracy of each class, %"
    accuracies = Table(caption, _headings(results, list(found)), rows)
    ratios = _ratios(results, block, benefit_ratios(found), names)
    return [table.without_empty_columns() for table in (accuracies, *ratios)]


def _ratios(
    results: Results, block: Block, ratios: dict[str, list[float]], names: tuple[str, ...]
) -> list[Table]:
    if not ratios:
        return []
    paper = {method: paper_classes(results, f"{method}_br") for method in ratios}
    rows = [
        (
            name,
            *(
                text
                for method, row in ratios.items()
                for text in (written(RATIO, row[k]), _at(RATIO, paper[method], k))
            ),
        )
        for k, name in enumerate(names)
    ]
    spreads = (
        written(RATIO, spread(row)) for method in ratios for row in (ratios[method], paper[method])
    )
    caption = f"{data_title(results, block)}: benefit ratio of each class"
    every = (*rows, ("standard deviation", *spreads))
    return [Table(caption, _headings(results, list(ratios)), every)]


def _headings(results: Results, methods: list[str]) -> tuple[str, ...]:
    titles = (text for method in methods for text in (results.methods[method], "paper's"))
    return ("class", *titles)


def _at(metric: str, row: list[float], place: int) -> str:
    return written(metric, row[place]) if place < len(row) else NONE


def classes_figure(results: Results) -> Pictures | None:
    """Each method's accuracy in each class, a panel for each data set; benefit ratios under them.

    None if no run has class accuracies, or if there are too many classes to show.
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
        axes.plot([], [], linestyle="none", marker="o", color=SOFT, markerfacecolor="none",
                  label="paper (open)")  # fmt: skip
    if times == 1.0:
        axes.axhline(1.0, color=INK, linewidth=0.9, linestyle="--")
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
        axes.axvline(edge - 0.5, color=RULE, linewidth=0.9)
    axes.set_xlim(-0.55, count - 0.45)


def class_findings(results: Results, block: Block) -> Iterator[Finding]:
    """For each pair of methods, whose benefit is more even; means over splits, no test."""
    accuracies = class_accuracies(results, block)
    ratios = benefit_ratios(accuracies)
    for usual, debiased in results.twins():
        if not {usual, debiased} <= set(ratios):
            continue
        names = results.methods
        ours = spread(ratios[debiased]), spread(ratios[usual])
        if any(map(math.isnan, ours)):
            text = "full supervision is above the complete case in fewer than two classes"
            yield Finding("open", f"The benefit ratio has no spread: {text}.")
            return
        paper = [spread(paper_classes(results, f"{name}_br")) for name in (debiased, usual)]
        text = (
            f"Standard deviation of the benefit ratio over classes: {ours[0]:.3f} for "
            f"{names[debiased]}, {ours[1]:.3f} for {names[usual]}"
        )
        if paper[0] != paper[0]:
            yield Finding("fact", f"{text}.")
            continue
        text += f"; in the paper {paper[0]:.3f} and {paper[1]:.3f}"
        if min(accuracies[name][0].n for name in (usual, debiased)) < 2:
            yield Finding("open", f"{text}. One split, so the order may be chance.")
        elif (ours[0] < ours[1]) == (paper[0] < paper[1]):
            yield Finding("agrees", f"{text}: the same order.")
        else:
            yield Finding("differs", f"{text}: the opposite order.")
