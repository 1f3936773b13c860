"""Style and layout of figures: one style for each method, panels, legend and axes."""

import textwrap
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeAlias

from dessl.evaluation.metrics.vocabulary import metric_named
from dessl.report import chart
from dessl.risk import COMPLETE_CASE, RISKS
from dessl_paper.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Pictures: TypeAlias = dict[str, bytes]  # PNG and SVG, by file ending

# The page's colours, so that figures follow dark mode: warm for usual methods, cool for debiased.
USUAL = tuple(chart.COLOURS[name] for name in ("s1", "s5", "s6"))
DEBIASED = tuple(chart.COLOURS[name] for name in ("s2", "s4", "s7"))
OTHERS = tuple(chart.COLOURS[name] for name in ("s3", "s6"))
LOOK = {
    "font.size": 9.0,
    "grid.color": chart.RULE,
    "text.color": chart.INK,
    "axes.labelcolor": chart.INK,
    "axes.edgecolor": chart.SOFT,
    "axes.titlecolor": chart.INK,
    "xtick.color": chart.SOFT,
    "ytick.color": chart.SOFT,
    "figure.facecolor": chart.COLOURS["paper"],
    "axes.facecolor": "none",
}
WIDTH, HEIGHT = 4.1, 3.1  # of one panel, in inches


class Style(chart.Look):
    """One method's look."""

    def of_paper(self) -> dict[str, Any]:
        """The style of the paper's results: thin and dotted, with open markers."""
        return {
            "color": self.colour,
            "marker": self.marker,
            "linestyle": ":",
            "linewidth": 1.0,
            "markerfacecolor": "none",
            "markersize": 4.5,
        }


def styles(results: Results) -> dict[str, Style]:
    """The style of each method, the same in every figure."""
    found: dict[str, Style] = {}
    twins = results.twins()
    for number, (usual, debiased) in enumerate(twins):
        found[usual] = Style(USUAL[number % len(USUAL)], "s")
        found[debiased] = Style(DEBIASED[number % len(DEBIASED)], "o")
    lone = [name for name in results.methods if name not in found]
    for name in lone:
        if name == COMPLETE_CASE:
            found[name] = Style(chart.COLOURS["s0"], "D", "--")
        elif not RISKS[results.risk(name)].unlabelled:
            found[name] = Style(chart.INK, "^", "-.")
        else:
            found[name] = Style(OTHERS[len(found) % len(OTHERS)], "v")
    return found


def shown_text(text: str) -> str:
    r"""Text that matplotlib draws literally: on one line, without mathematics between dollars.

    >>> print(shown_text("a $x^2$"))
    a \$x^2\$
    """
    return " ".join(text.splitlines()).replace("$", r"\$")


def shown_titles(results: Results) -> dict[str, str]:
    """The title of each method as figures show it."""
    return {name: shown_text(title) for name, title in results.methods.items()}


def headline(figure: "Figure", *lines: str) -> None:
    """Put a title over a figure; wrap lines that are too wide for it."""
    width = int(figure.get_figwidth() * 11)
    figure.suptitle("\n".join(textwrap.fill(shown_text(line), width) for line in lines))


def drawing() -> AbstractContextManager[None]:
    """A context with the matplotlib settings of these figures."""
    return chart.drawing(chart.SETTINGS | LOOK)


def panels(count: int) -> "tuple[Figure, list[Axes]]":
    """A figure with ``count`` panels, at most three per row; four are arranged two by two."""
    from matplotlib.figure import Figure

    columns = 2 if count == 4 else min(count, 3)
    rows = -(-count // columns)
    figure = Figure(figsize=(max(WIDTH * columns, 5.5), HEIGHT * rows + 0.9), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for spare in axes[count:]:
        spare.set_axis_off()
    return figure, axes[:count]


def legend_below(figure: "Figure", axes: "Axes", order: list[str], columns: int = 4) -> None:
    """One legend for all panels, with entries in the given order and others after them.

    It has ``columns`` columns, or fewer if the figure is too narrow.
    """
    handles, names = axes.get_legend_handles_labels()
    ranked = sorted(
        zip(names, handles, strict=True),
        key=lambda entry: order.index(entry[0]) if entry[0] in order else len(order),
    )
    for count in range(max(1, min(len(ranked), columns)), 0, -1):
        legend = figure.legend(
            [handle for _, handle in ranked],
            [name for name, _ in ranked],
            loc="outside lower center",
            ncols=count,
        )
        if count == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()


def scale(metric: str) -> float:
    """100 for shares, 1 for anything else."""
    return metric_named(metric).unit


def numbered(stem: str, names: list[str]) -> list[str]:
    """The stem for the first, and the stem with the name for all others.

    >>> numbered("figure", ["a", "b"])
    ['figure', 'figure-b']
    """
    return [stem if place == 0 else f"{stem}-{name}" for place, name in enumerate(names)]
