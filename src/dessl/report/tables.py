"""Tables of text, written as Markdown and LaTeX."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dessl.evaluation.metrics.vocabulary import NONE


@dataclass(frozen=True)
class Table:
    """Text in rows; the first column names them.

    Attributes:
        caption: What the table shows, one sentence.
        headings: One heading per column.
        rows: Rows with one cell per heading.
    """

    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        """Refuse rows of the wrong length."""
        for row in self.rows:
            if len(row) != len(self.headings):
                raise ValueError(
                    f"each row must have {len(self.headings)} cells, one per heading; "
                    f"got {len(row)}: {row}."
                )

    def without_empty_columns(self) -> "Table":
        """The same table without columns that have no number in any row.

        >>> Table("t", ("a", "b"), (("x", "–"), ("y", "–"))).without_empty_columns().headings
        ('a',)
        """
        kept = [
            column
            for column in range(len(self.headings))
            if column == 0 or any(row[column] != NONE for row in self.rows)
        ]
        return Table(
            self.caption,
            tuple(self.headings[column] for column in kept),
            tuple(tuple(row[column] for column in kept) for row in self.rows),
        )


# Characters with a meaning in Markdown. Some have one only in places: a star or an underscore that
# can begin an emphasis, an angle bracket that can begin a tag, a dash at the beginning.
MARKDOWN = re.compile(
    r"[\\`&$~]|<(?=[A-Za-z/!?])|\](?=[(\[])|\*(?=[\w*])|(?<!\w)\*(?=\S)|(?<![^\W_])_"
    r"|^[#>]|^[+-](?=\s)"
)
ENTITIES = {
    "<": "&lt;",
    "&": "&amp;",
    "$": "&#36;",
    "~": "&#126;",
}  # a backslash does not work everywhere


def markdown_text(text: str) -> str:
    r"""Text on one line that Markdown shows literally.

    >>> print(markdown_text("<b>a_b</b> *i* & FixMatch*, p < 0.05"))
    &lt;b>a_b&lt;/b> \*i* &amp; FixMatch*, p < 0.05
    """
    line = " ".join(text.splitlines())
    return MARKDOWN.sub(lambda found: ENTITIES.get(found[0], f"\\{found[0]}"), line)


def markdown_table(table: Table) -> str:
    r"""A table in Markdown; characters with a meaning there are escaped.

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
    """A heading with a list below it; nothing if there are no items."""
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
WIDE = 7  # tables with more columns are scaled to the page


def latex_text(text: str) -> str:
    r"""Text on one line that LaTeX shows literally; characters it may not know become "?".

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
    """All tables of an experiment, then what agrees and what does not, then the footers."""
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
