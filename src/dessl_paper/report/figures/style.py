"""How figures look: one colour and marker for each method, safe for the colour-blind."""

import io
import textwrap
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dessl_paper.report.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours: warm for usual methods, cool for their debiased twins.
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


def pictures(figure: "Figure") -> dict[str, bytes]:
    """The figure as PNG and as SVG, by file ending; without a date, so that it can be repeated."""
    found = {}
    for ending, facts in (("png", {"Software": None}), ("svg", {"Date": None})):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=ending, dpi=130, metadata=facts)
        found[ending] = buffer.getvalue()
        figure.set_layout_engine("none")  # once laid out, it stays so
    return found
