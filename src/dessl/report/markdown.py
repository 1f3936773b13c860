"""A reproduction's tables and sentences as Markdown."""

import re
from collections.abc import Iterable, Sequence

from dessl.report.table import Table

# Signs that Markdown takes for its own. Some are so only in places: a star or a low line where it
# can begin an emphasis, an angle bracket where it can begin a tag, a dash at the beginning.
SPECIAL = re.compile(
    r"[\\`&$~]|<(?=[A-Za-z/!?])|\](?=[(\[])|\*(?=[\w*])|(?<!\w)\*(?=\S)|(?<![^\W_])_"
    r"|^[#>]|^[+-](?=\s)"
)
NAMED = {"<": "&lt;", "&": "&amp;", "$": "&#36;", "~": "&#126;"}  # no backslash helps everywhere


def markdown_text(text: str) -> str:
    r"""Text on one line that Markdown shows as it is.

    >>> print(markdown_text("<b>a_b</b> *i* & FixMatch*, p < 0.05"))
    &lt;b>a_b&lt;/b> \*i* &amp; FixMatch*, p < 0.05
    """
    line = " ".join(text.splitlines())
    return SPECIAL.sub(lambda found: NAMED.get(found[0], f"\\{found[0]}"), line)


def markdown_table(table: Table) -> str:
    r"""A table; what would end a cell or mean something to Markdown is escaped.

    >>> print(markdown_table(Table("Two.", ("a", "p(1|x)"), (("x", "1"),))))
    Two.
    <BLANKLINE>
    | a | p(1\|x) |
    |:---|---:|
    | x | 1 |
    """
    rule = "|".join([":---", *["---:"] * (len(table.headings) - 1)])
    lines = [
        markdown_text(table.caption),
        "",
        _row(table.headings),
        f"|{rule}|",
        *map(_row, table.rows),
    ]
    return "\n".join(lines)


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(markdown_text(cell).replace("|", "\\|") for cell in cells) + " |"


def markdown_list(heading: str, items: Sequence[str]) -> str:
    """A heading and a list below it; nothing where there are no items."""
    if not items:
        return ""
    return "\n".join([f"## {heading}", "", *(f"- {markdown_text(item)}" for item in items)])
