"""A reproduction's tables and sentences as Markdown."""

from collections.abc import Iterable, Sequence

from dessl.report.reproduction.table import Table


def markdown_table(table: Table) -> str:
    r"""A table; bars inside cells are escaped.

    >>> print(markdown_table(Table("Two.", ("a", "p(1|x)"), (("x", "1"),))))
    Two.
    <BLANKLINE>
    | a | p(1\|x) |
    |:---|---:|
    | x | 1 |
    """
    rule = "|".join([":---", *["---:"] * (len(table.headings) - 1)])
    lines = [table.caption, "", _row(table.headings), f"|{rule}|", *map(_row, table.rows)]
    return "\n".join(lines)


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def markdown_list(heading: str, items: Sequence[str]) -> str:
    """A heading and a list below it; nothing where there are no items."""
    if not items:
        return ""
    return "\n".join([f"## {heading}", "", *(f"- {item}" for item in items)])
