"""The cells of a column as numbers, with a decimal point or, as in much of Europe, a comma."""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dessl._checks import quoted
from dessl.data.errors import DataError, few
from dessl.data.formats.cells import COMMA_NUMBER, NUMBER, Column, arrow_module
from dessl.data.formats.tables import Table

THOUSANDS = r"^[+-]?[1-9][0-9]{{0,2}}{mark}[0-9]{{3}}$"
GAPS = "\N{SPACE}\N{NO-BREAK SPACE}\N{THIN SPACE}\N{NARROW NO-BREAK SPACE}"  # between thousands
NEARLY = (
    "^[<>≤≥~=$€£ ]*[+\N{MINUS SIGN}-]?"
    rf"([0-9]+([.,][0-9]+)?|[0-9]{{1,3}}([,'’{GAPS}][0-9]{{3}})+([.,][0-9]+)?"
    r"|[0-9]{1,3}(\.[0-9]{3})+(,[0-9]+)?)"
    rf"[{GAPS}%‰$€£]*$"
)
MIN_VALUES = 10
MAX_OTHERS = 5
NOT_A_NUMBER = (
    "if the column has categories, name it in categorical= (--categorical on the command line)."
)


class WrongCells(NamedTuple):
    """The cells of a column that should be numbers but are not: the first, its row, how many."""

    name: str
    cell: str
    row: int
    n_cells: int
    comma: bool


def is_number(text: str) -> bool:
    """Whether a text is a number in a table, with a decimal point.

    >>> is_number("-1.5e3"), is_number("1_000"), is_number("inf")
    (True, False, False)
    """
    return re.fullmatch(NUMBER, text) is not None and math.isfinite(float(text))


def numeric_share(column: Column, *, comma: bool = False) -> float:
    """The share of a column's non-empty cells that are numbers; 1 if all cells are empty."""
    if column.numbers is not None:
        return 1.0
    values, wrong, rows = column.parsed(comma=comma)
    n_wrong, n_right = wrong[rows].sum(), (~np.isnan(values))[rows].sum()
    return float(n_right / (n_right + n_wrong)) if n_right + n_wrong else 1.0


def has_decimal_comma(column: Column) -> bool:
    """Whether more of a column's cells are numbers with a decimal comma than with a point."""
    with_point = numeric_share(column)
    return with_point < 1 and numeric_share(column, comma=True) > with_point


def nearly_numbers(column: Column, *, comma: bool = False) -> bool:
    """Whether a column is one of measurements, though many of its cells are not plain numbers.

    It is if at least half of the non-empty cells are numbers, or numbers with a sign such as 45%
    or <0.5, with ten or more different values; and the other cells, such as - and unknown, are at
    most five different texts. Columns of codes (401, V45) have more.
    """
    if column.numbers is not None:
        return False
    values, wrong, rows = column.parsed(comma=comma)
    if isinstance(rows, slice):  # every cell is a number or empty
        return False
    near = arrow_module().compute.match_substring_regex(column.texts, NEARLY)
    like = ~np.isnan(values) | (wrong & near.to_numpy(zero_copy_only=False))
    other = wrong & ~like
    if like.sum() < MIN_VALUES or other.sum() > MAX_OTHERS:
        return False
    return bool(like[rows].sum() >= other[rows].sum())


def wrong_cells(column: Column, *, comma: bool = False) -> WrongCells | None:
    """The cells of a column that are neither numbers nor empty; None if there are none."""
    if column.numbers is not None:
        wrong = np.isinf(column.numbers)
    else:
        parsed = column.parsed(comma=comma)
        wrong = parsed.wrong[parsed.rows]
    if not wrong.any():
        return None
    row = int(np.flatnonzero(wrong)[0])
    return WrongCells(column.name, column.cell(row), row, int(wrong.sum()), comma)


def not_numbers(source: Path, columns: Sequence[WrongCells]) -> DataError:
    """The error for one or more columns whose cells are not all numbers."""
    first, *rest = columns
    others = [
        f"{quoted(wrong.cell)} in column {quoted(wrong.name)} ({wrong.n_cells} cells)"
        for wrong in rest
    ]
    return DataError.of(
        source,
        expected=f"numbers {'with a decimal comma ' * first.comma}in column {quoted(first.name)}",
        got=f"{quoted(first.cell)} in data row {first.row + 1} ({first.n_cells} such cells)"
        + (f"; likewise {few(others)}" if others else ""),
        do=f"Correct or empty the cell{'s' * bool(others)}; or, {NOT_A_NUMBER}",
    )


def numbers(
    table: Table, column: Column, *, comma: bool = False, known: bool = False
) -> NDArray[np.float64]:
    """A column as float64 (n,) with NaN for missing; a cell that is not a number is refused.

    Empty cells and NA, N/A, NaN, NULL, None and "?" are missing.

    Args:
        table: What errors are about.
        column: One of its columns.
        comma: Whether decimals are written with a comma.
        known: Whether that is certain. If not, commas that may all be thousands separators are
            refused; so are points, next to whole numbers of three digits but not of more.

    Raises:
        DataError: A cell is something else; the message names its row, column and value.
    """
    if comma and not known:
        _check_thousands(table, column, ",")
    wrong = wrong_cells(column, comma=comma)
    if wrong is not None:
        raise not_numbers(table.source, [wrong])
    if column.numbers is not None:
        return column.numbers
    parsed = column.parsed(comma=comma)
    if not comma:
        sizes = np.abs(parsed.values[~np.isnan(parsed.values)])
        whole = sizes == np.rint(sizes)
        # Points may separate thousands, as in 950 and 1.234; the texts show whether each has three
        # digits after it.
        if (sizes < 1000).all() and (whole & (sizes >= 100)).any() and not whole.all():
            _check_thousands(table, column, ".")
    return parsed.values[parsed.rows]


def _check_thousands(table: Table, column: Column, mark: str) -> None:
    """Refuse a column in which every mark has one to three digits before and three after it."""
    compute, texts = arrow_module().compute, column.texts

    def matching(pattern: str) -> NDArray[np.bool_]:
        found = compute.match_substring_regex(texts, pattern)
        return np.asarray(found.to_numpy(zero_copy_only=False))

    doubtful = matching(THOUSANDS.format(mark=re.escape(mark)))
    number = matching(COMMA_NUMBER if mark == "," else NUMBER)
    if not (matching(re.escape(mark)) & number & ~doubtful).any():
        row = int(np.flatnonzero(doubtful[column.codes])[0])
        cell = column.cell(row)
        raise DataError.of(
            table.source,
            expected=f"numbers in column {quoted(column.name)} that show what the "
            f"{'comma' if mark == ',' else 'point'} means",
            got=f"{quoted(cell)} in data row {row + 1}, which may mean {cell.replace(mark, '.')} "
            f"or {cell.replace(mark, '')}, and others like it",
            do="Write decimals with a point, whole numbers among them as 950.0, and thousands "
            f"without a separator; or, {NOT_A_NUMBER}",
        )
