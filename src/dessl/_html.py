"""Results in a notebook: a small table with a note, with all content escaped."""

import html
from collections.abc import Mapping, Sequence

GREEN, RED, GREY = "#2e7d32", "#c62828", "#8a8a8a"


def card(
    title: str,
    entries: Mapping[str, object] | None = None,
    *,
    note: str = "",
    table: Sequence[Sequence[object]] = (),
    colour: str = GREY,
) -> str:
    """Return HTML for ``_repr_html_``, without scripts and in the notebook's own colours.

    Args:
        title: Shown above everything, in bold.
        entries: Names and values, one line each; None is skipped.
        note: A sentence shown below.
        table: Rows of cells, with the headings first.
        colour: Colour of the line at the left.

    >>> card("Data", {"rows": 3, "left out": None}, note="a < b")  # doctest: +ELLIPSIS
    '<div ...><b>Data</b><table>...<td>3</td></tr></table><div>a &lt; b</div></div>'
    """
    parts = [f"<b>{_escaped(title)}</b>"]
    lines = [
        f"<tr><th style='text-align:left'>{_escaped(name)}</th><td>{_escaped(value)}</td></tr>"
        for name, value in (entries or {}).items()
        if value is not None
    ]
    if lines:
        parts.append(f"<table>{''.join(lines)}</table>")
    if table:
        rows = [_row(cells, "td" if number else "th") for number, cells in enumerate(table)]
        parts.append(f"<table>{''.join(rows)}</table>")
    if note:
        parts.append(f"<div>{_escaped(note)}</div>")
    return f'<div style="border-left:4px solid {colour};padding-left:.8em">{"".join(parts)}</div>'


def _row(cells: Sequence[object], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{_escaped(cell)}</{tag}>' for cell in cells)}</tr>"


def _escaped(value: object) -> str:
    return html.escape(str(value))
