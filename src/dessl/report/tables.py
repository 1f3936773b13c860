"""Tables of text, and how Markdown and LaTeX write them."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Text in rows; the first column names them.

    Attributes:
        caption: What the table shows, one sentence.
        headings: One a column.
        rows: Each as long as the headings.
    """

    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        """Refuse rows that do not fit."""
        for row in self.rows:
            if len(row) != len(self.headings):
                raise ValueError(
                    f"each row must have {len(self.headings)} cells, one a heading; "
                    f"got {len(row)}: {row}."
                )

    def without_empty_columns(self, empty: str) -> "Table":
        """The same without the columns in which every row has the text for nothing.

        >>> Table("t", ("a", "b"), (("x", "–"), ("y", "–"))).without_empty_columns("–").headings
        ('a',)
        """
        kept = [
            column
            for column in range(len(self.headings))
            if column == 0 or any(row[column] != empty for row in self.rows)
        ]
        return Table(
            self.caption,
            tuple(self.headings[column] for column in kept),
            tuple(tuple(row[column] for column in kept) for row in self.rows),
        )


# Signs that Markdown takes for its own. Some are so only in places: a star or a low line where it
# can begin an emphasis, an angle bracket where it can begin a tag, a dash at the beginning.
MARKDOWN = re.compile(
    r"[\\`&$~]|<(?=[A-Za-z/!?])|\](?=[(\[])|\*(?=[\w*])|(?<!\w)\*(?=\S)|(?<![^\W_])_"
    r"|^[#>]|^[+-](?=\s)"
)
ENTITIES = {"<": "&lt;", "&": "&amp;", "$": "&#36;", "~": "&#126;"}  # no backslash helps everywhere


def markdown_text(text: str) -> str:
    r"""Text on one line that Markdown shows as it is.

    >>> print(markdown_text("<b>a_b</b> *i* & FixMatch*, p < 0.05"))
    &lt;b>a_b&lt;/b> \*i* &amp; FixMatch*, p < 0.05
    """
    line = " ".join(text.splitlines())
    return MARKDOWN.sub(lambda found: ENTITIES.get(found[0], f"\\{found[0]}"), line)


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
        _markdown_row(table.headings),
        f"|{rule}|",
        *map(_markdown_row, table.rows),
    ]
    return "\n".join(lines)


def _markdown_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(markdown_text(cell).replace("|", "\\|") for cell in cells) + " |"


def markdown_list(heading: str, items: Sequence[str]) -> str:
    """A heading and a list below it; nothing where there are no items."""
    if not items:
        return ""
    return "\n".join([f"## {heading}", "", *(f"- {markdown_text(item)}" for item in items)])


LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "%": r"\%",
    "_": r"\_",
    "&": r"\&",
    "#": r"\#",
    "$": r"\$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"$|$",
    "±": r"$\pm$",
    "−": r"$-$",
    "–": "--",
    "∞": r"$\infty$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "λ": r"$\lambda$",
    "Π": r"$\Pi$",
    "ρ": r"$\rho$",
    "τ": r"$\tau$",
    "ε": r"$\varepsilon$",
    "ξ": r"$\xi$",
    "‖": r"$\|$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "’": "'",
    "…": r"\dots{}",
}
WIDE = 7  # columns past which a table is scaled to the page


def latex_text(text: str) -> str:
    r"""Text on one line that LaTeX shows as it is; a sign that it may not know becomes "?".

    >>> print(latex_text("accuracy, %: λ_opt = 1 ± 2"))
    accuracy, \%: $\lambda$\_opt = 1 $\pm$ 2
    """
    line = " ".join(text.splitlines())
    return "".join(LATEX.get(sign, sign if sign.isascii() else "?") for sign in line)


def latex_table(table: Table) -> str:
    """One table environment."""
    columns = "l" + "r" * (len(table.headings) - 1)
    body = [
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        _latex_row(table.headings),
        r"\midrule",
        *map(_latex_row, table.rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    if len(table.headings) > WIDE:
        body = [r"\resizebox{\textwidth}{!}{%", *body, "}"]
    return "\n".join(
        [
            r"\begin{table}[ht]",
            r"\centering",
            rf"\caption{{{latex_text(table.caption)}}}",
            *body,
            r"\end{table}",
        ]
    )


def latex_fragment(
    title: str, tables: Sequence[Table], items: Sequence[str], foot: Sequence[str]
) -> str:
    """All tables of an experiment, then what agrees and what does not, then the foot lines."""
    parts = [
        f"% {_one_line(title)}\n% Needs \\usepackage{{booktabs,graphicx}}.",
        *map(latex_table, tables),
    ]
    if items:
        entries = "\n".join(rf"\item {latex_text(item)}" for item in items)
        parts.append(f"\\begin{{itemize}}\n{entries}\n\\end{{itemize}}")
    parts += [rf"{{\footnotesize {latex_text(line)}\par}}" for line in foot]
    return "\n\n".join(parts) + "\n"


def _latex_row(cells: Iterable[str]) -> str:
    return " & ".join(latex_text(cell) for cell in cells) + r" \\"


def _one_line(text: str) -> str:
    return "".join(sign if sign.isascii() else "?" for sign in " ".join(text.split()))
