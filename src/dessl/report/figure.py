"""The parts that sections are made of: tables, and figures with a legend and their numbers."""

from collections.abc import Iterable, Mapping, Sequence

from dessl.report.facts import RunFacts
from dessl.report.html import Child, Markup, element, named

SERIES = 6  # colours that the style sheet has


def series_styles(facts: RunFacts) -> dict[str, str]:
    """The style of each method, the same in every figure; the complete case's is the first."""
    return {method.name: f"series-{number % SERIES}" for number, method in enumerate(facts.methods)}


def legend(entries: Mapping[str, str]) -> Markup:
    """A list of names, each beside a piece of line in its style."""
    return element(
        "ul",
        (element("li", _swatch(style), named(name)) for name, style in entries.items()),
        class_="legend",
    )


def _swatch(style: str) -> Markup:
    line = element("line", x1=1, x2=25, y1=5, y2=5, class_=f"line {style}")
    return element("svg", line, viewBox="0 0 26 10", class_="swatch", aria_hidden="true")


def table(
    headings: Sequence[Child], rows: Iterable[Sequence[Child]], *, label: str, class_: str = ""
) -> Markup:
    """A table whose first column names its rows; one too wide is moved sideways on its own.

    A cell that is a ``td`` element already goes in as it is.
    """
    head = element("tr", (element("th", heading, scope="col") for heading in headings))
    body = (
        element("tr", element("th", row[0], scope="row"), (_cell(cell) for cell in row[1:]))
        for row in rows
    )
    return element(
        "div",
        element("table", element("thead", head), element("tbody", body), class_=class_ or None),
        class_="wide",
        role="region",
        aria_label=label,
        tabindex=0,
    )


def _cell(cell: Child) -> Markup:
    if isinstance(cell, Markup) and cell.startswith("<td"):
        return cell
    return element("td", cell)


def figure(caption: Child, *pictures: Markup, key: Mapping[str, str], numbers: Markup) -> Markup:
    """Pictures side by side where there is room, what they show, a legend, and their numbers."""
    return element(
        "figure",
        element("figcaption", caption),
        legend(key) if key else None,
        element("div", pictures, class_="pictures"),
        element("details", element("summary", "Numbers"), numbers),
    )


def section(title: str, *children: Child) -> Markup:
    """A part of the page under a heading."""
    return element("section", element("h3", title), children)
