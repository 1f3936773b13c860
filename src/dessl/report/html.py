"""HTML elements, escaped by construction: anything that is not ``Markup`` is text."""

import html
import itertools
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TypeAlias

# Not allowed in a document: control characters, and lone surrogates from odd file names.
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
VOID = frozenset({"br", "hr", "img", "link", "meta"})


class Markup(str):
    """Text that is already HTML and is not escaped again."""

    __slots__ = ()


Child: TypeAlias = "str | int | float | Iterable[Child] | None"


def escaped(value: object) -> Markup:
    """Return any value as text that is safe between tags and inside quoted attributes.

    >>> escaped('<script>"x"</script>')
    '&lt;script&gt;&quot;x&quot;&lt;/script&gt;'
    """
    return Markup(html.escape(FORBIDDEN.sub("\ufffd", str(value)), quote=True))


def element(name: str, /, *children: Child, **attributes: object) -> Markup:
    """Return one element; children and attributes that are None are omitted.

    Args:
        name: Name of the element.
        children: Contents: ``Markup`` is kept, anything else is escaped; lists are joined.
        attributes: Attributes: ``class_`` is written ``class`` and ``stroke_width``
            ``stroke-width``.

    >>> element("p", "a < b", element("b", 3), class_="note")
    '<p class="note">a &lt; b<b>3</b></p>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{joined(children)}</{name}>")


def joined(children: Child) -> Markup:
    """Return the children joined, each escaped unless it is ``Markup``.

    >>> joined(["a&", Markup("<br>"), None, ["b", 1]])
    'a&amp;<br>b1'
    """
    if children is None:
        return Markup()
    if isinstance(children, Markup):
        return children
    if isinstance(children, str | int | float):
        return escaped(children)
    return Markup("".join(joined(child) for child in children))


def named(name: object) -> Markup:
    """Return a name from the user's data, isolated from the direction of the surrounding text."""
    return element("bdi", str(name))


def shortened(name: str, most: int) -> str:
    """A name shortened to a number of columns; wide characters take two.

    >>> shortened("chromosome", 20), shortened("chromosome", 6), shortened("染色体染色体", 6)
    ('chromosome', 'chrom…', '染色…')
    """
    widths = [2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in name]
    if sum(widths) <= most:
        return name
    ends = itertools.accumulate(widths)
    kept = sum(1 for end in ends if end <= most - 1)
    return name[:kept] + "…"


def table(
    headings: Sequence[Child], rows: Iterable[Sequence[Child]], *, label: str, class_: str = ""
) -> Markup:
    """A table whose first column names the rows; a wide one scrolls sideways.

    A cell that already is a ``td`` element is kept.
    """
    head = element("tr", (element("th", heading, scope="col") for heading in headings))
    body = []
    for first, *others in rows:
        cells = (
            cell if isinstance(cell, Markup) and cell.startswith("<td") else element("td", cell)
            for cell in others
        )
        body.append(element("tr", element("th", first, scope="row"), cells))
    return element(
        "div",
        element("table", element("thead", head), element("tbody", body), class_=class_ or None),
        class_="wide",
        role="region",
        aria_label=label,
        tabindex=0,
    )


def figure(
    caption: Child, *pictures: Markup, numbers: Markup, legend: Markup | None = None
) -> Markup:
    """Charts side by side if there is room, with a caption, a legend and their numbers."""
    return element(
        "figure",
        element("figcaption", caption),
        legend,
        element("div", pictures, class_="pictures"),
        element("details", element("summary", "Numbers"), numbers),
    )


def section(title: str, *children: Child) -> Markup:
    """A section of the page with a heading."""
    return element("section", element("h3", title), children)
