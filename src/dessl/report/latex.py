r"""A reproduction's tables as LaTeX, for ``\input``; they need booktabs and graphicx."""

from collections.abc import Iterable, Sequence

from dessl.report.table import Table

SPECIAL = {
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
    return "".join(SPECIAL.get(sign, sign if sign.isascii() else "?") for sign in line)


def latex_table(table: Table) -> str:
    """One table environment."""
    columns = "l" + "r" * (len(table.headings) - 1)
    body = [
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        _row(table.headings),
        r"\midrule",
        *map(_row, table.rows),
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


def _row(cells: Iterable[str]) -> str:
    return " & ".join(latex_text(cell) for cell in cells) + r" \\"


def _one_line(text: str) -> str:
    return "".join(sign if sign.isascii() else "?" for sign in " ".join(text.split()))
