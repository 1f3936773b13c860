"""HTML and SVG elements, escaped by construction: what is not ``Markup`` is text."""

import html
import re
from collections.abc import Iterable
from typing import TypeAlias

# What no document may hold: control characters, and halves of characters from odd file names.
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
VOID = frozenset({"br", "hr", "img", "link", "meta"})


class Markup(str):
    """Text that is HTML already, and is not escaped again."""

    __slots__ = ()


Child: TypeAlias = "str | int | float | Iterable[Child] | None"


def escaped(value: object) -> Markup:
    """Return any value as text that is safe between tags and inside quoted attributes.

    >>> escaped('<script>"x"</script>')
    '&lt;script&gt;&quot;x&quot;&lt;/script&gt;'
    """
    return Markup(html.escape(FORBIDDEN.sub("\ufffd", str(value)), quote=True))


def element(name: str, /, *children: Child, **attributes: object) -> Markup:
    """Return one element; children and attributes that are None are left out.

    Args:
        name: Of the element.
        children: ``Markup`` goes in as it is, anything else is escaped; lists are joined.
        attributes: ``class_`` is written ``class`` and ``stroke_width`` ``stroke-width``.

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
    """Return children one after another, each escaped unless it is ``Markup``.

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
    """Return a name from somebody's data, kept apart from the direction of the text around it."""
    return element("bdi", str(name))
