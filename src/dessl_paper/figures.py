"""How figures look and are laid out: one style for each method, panels, legend and axes."""

import io
import textwrap
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from dessl.report.measures import measure_of, shown_range
from dessl_paper.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Pictures: TypeAlias = dict[str, bytes]  # PNG and SVG, by file ending

# Okabe and Ito's colours, safe for the colour-blind: warm for usual methods, cool for debiased.
USUAL = ("#d55e00", "#e69f00", "#cc79a7")
DEBIASED = ("#0072b2", "#56b4e9", "#009e73")
OTHERS = ("#8c6d31", "#7b4bab")
SETTINGS = {
    "svg.hashsalt": "dessl",  # the same records give the same file
    "font.size": 9.0,
    "axes.grid": True,
    "grid.color": "#e3e6e8",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}
WIDTH, HEIGHT = 4.1, 3.1  # of one panel, in inches


@dataclass(frozen=True)
class Style:
    """One method's look."""

    colour: str
    marker: str
    line: str = "-"

    def of_line(self) -> dict[str, Any]:
        """What a line of ours takes."""
        return {"color": self.colour, "marker": self.marker, "linestyle": self.line}

    def of_paper(self) -> dict[str, Any]:
        """What the paper's takes: thin and dotted, marks left open."""
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
        if name == "complete_case":
            found[name] = Style("#555555", "D", "--")
        elif results.risk(name) == "complete_case":
            found[name] = Style("#111111", "^", "-.")
        else:
            found[name] = Style(OTHERS[len(found) % len(OTHERS)], "v")
    return found


def shown_text(text: str) -> str:
    r"""Text that matplotlib draws as it is: on one line, and no mathematics between dollars.

    >>> print(shown_text("a $x^2$"))
    a \$x^2\$
    """
    return " ".join(text.splitlines()).replace("$", r"\$")


def shown_titles(results: Results) -> dict[str, str]:
    """The title of each method as figures show it."""
    return {name: shown_text(title) for name, title in results.methods.items()}


def headline(figure: "Figure", *lines: str) -> None:
    """Put a title over a figure, its lines folded where the figure is too narrow for them."""
    width = int(figure.get_figwidth() * 11)
    figure.suptitle("\n".join(textwrap.fill(shown_text(line), width) for line in lines))


def drawing() -> AbstractContextManager[None]:
    """A context in which matplotlib draws as these figures want it."""
    import matplotlib as mpl

    return mpl.rc_context(SETTINGS)  # type: ignore[arg-type]


def pictures(figure: "Figure") -> Pictures:
    """The figure as PNG and as SVG, by file ending; without a date, so that it can be repeated."""
    found = {}
    for ending, facts in (("png", {"Software": None}), ("svg", {"Date": None})):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=ending, dpi=130, metadata=facts)
        found[ending] = buffer.getvalue()
        figure.set_layout_engine("none")  # once laid out, it stays so
    return found


def panels(count: int) -> "tuple[Figure, list[Axes]]":
    """A figure with so many panels, at most three in a row and four as two by two."""
    from matplotlib.figure import Figure

    columns = 2 if count == 4 else min(count, 3)
    rows = -(-count // columns)
    figure = Figure(figsize=(max(WIDTH * columns, 5.5), HEIGHT * rows + 0.9), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for spare in axes[count:]:
        spare.set_axis_off()
    return figure, axes[:count]


def legend_below(figure: "Figure", axes: "Axes", order: list[str], columns: int = 4) -> None:
    """One legend for all panels, its entries in the given order and others after them.

    It has so many columns, or as many as the figure is wide enough for.
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
    return 100.0 if measure_of(metric).percent else 1.0


def inside(limits: tuple[float, float], metric: str) -> tuple[float, float]:
    """Ends of an axis, moved to what a metric can be: intervals from two splits reach far past it.

    >>> inside((-500.0, 60.0), "accuracy"), inside((20.0, 60.0), "accuracy")
    ((-3.0, 60.0), (20.0, 60.0))
    """
    least, most = shown_range(metric)
    low, high = max(limits[0], least), min(limits[1], most)
    room = 0.05 * (high - low)
    return max(limits[0], least - room), min(limits[1], most + room)


def zero_place(lams: Sequence[float]) -> float:
    """Where λ = 0 stands on a log axis: left of the least positive one, by a third of the span.

    >>> zero_place([0.1, 1.0, 10.0]) < 0.1
    True
    """
    low, high = min(lams), max(lams)
    return low / max(2.0, float((high / low) ** 0.15))


def lambda_axis(axes: "Axes", lams: Sequence[float]) -> None:
    """Make the horizontal axis one of λ, with 0 apart and a line between."""
    zero, low, high = zero_place(lams), min(lams), max(lams)
    axes.set_xscale("log")
    decades = [10.0**k for k in range(-4, 5) if low * 0.999 <= 10.0**k <= high * 1.001]
    ticks = decades if len(decades) > 1 else sorted({low, high})
    axes.set_xticks([zero, *ticks], ["0", *(f"{tick:g}" for tick in ticks)])
    axes.set_xticks([], minor=True)
    axes.axvline((zero * low) ** 0.5, color="#aaaaaa", linewidth=0.8, linestyle=(0, (1, 2)))
    margin = max((low / zero) ** 0.5, 1.2)
    axes.set_xlim(zero / margin, high * margin)
    axes.set_xlabel("λ")


def numbered(stem: str, names: list[str]) -> list[str]:
    """The stem for the first, and the stem with its name for any other.

    >>> numbered("figure", ["a", "b"])
    ['figure', 'figure-b']
    """
    return [stem if place == 0 else f"{stem}-{name}" for place, name in enumerate(names)]
