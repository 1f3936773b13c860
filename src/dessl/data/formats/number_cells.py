"""The cells of a column as numbers, with a decimal point or, as in much of Europe, a comma."""

import math
import re

import numpy as np
from numpy.typing import NDArray

from dessl.data.errors import DataError
from dessl.data.formats.cells import NUMBER, Column, arrow_module
from dessl.data.formats.tables import Table

THOUSANDS = r"^[+-]?[1-9][0-9]{0,2},[0-9]{3}$"
NOT_A_NUMBER = (
    "if the column holds categories, name it in categorical= (--categorical on the command line)."
)


def is_number(text: str) -> bool:
    """Whether a text is a number in a table, with a decimal point.

    >>> is_number("-1.5e3"), is_number("1_000"), is_number("inf")
    (True, False, False)
    """
    return re.fullmatch(NUMBER, text) is not None and math.isfinite(float(text))


def numeric_share(column: Column, *, comma: bool = False) -> float:
    """The share of a column's non-empty cells that are numbers; 1 where all cells are empty."""
    if column.numbers is not None:
        return 1.0
    values, wrong, rows = column.parsed(comma=comma)
    n_wrong, n_right = wrong[rows].sum(), (~np.isnan(values))[rows].sum()
    return float(n_right / (n_right + n_wrong)) if n_right + n_wrong else 1.0


def has_decimal_comma(table: Table, column: Column, *, known: bool = False) -> bool:
    """Whether more of a column's cells are numbers with a decimal comma than with a point.

    Args:
        table: Only in a CSV that is not delimited by commas is such a column looked for.
        column: One of its columns.
        known: Whether the column had decimal commas in training; it is then looked at in any table.
    """
    if column.numbers is not None or not (table.decimal_comma or known):
        return False
    with_point = numeric_share(column)
    return with_point < 1 and numeric_share(column, comma=True) > with_point


def numbers(
    table: Table, column: Column, *, comma: bool = False, known: bool = False
) -> NDArray[np.float64]:
    """A column as float64 (n,) with NaN for missing, refusing a cell that is no number.

    Missing are empty cells and NA, N/A, NaN, NULL, None and "?".

    Args:
        table: What errors are about.
        column: One of its columns.
        comma: Whether decimals are written with a comma.
        known: Whether that is certain. If not, commas that may all divide thousands are refused.

    Raises:
        DataError: A cell holds something else; the message names its row, column and value.
    """
    if column.numbers is not None:
        values, wrong = column.numbers, np.isinf(column.numbers)
    else:
        if comma and not known:
            _check_thousands(table, column)
        parsed = column.parsed(comma=comma)
        values, wrong = parsed.values[parsed.rows], parsed.wrong[parsed.rows]
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise DataError.of(
            table.source,
            expected=f"numbers {'with a decimal comma ' * comma}in column {column.name!r}",
            got=f"{column.cell(row)!r} in data row {row + 1} ({int(wrong.sum())} such cells)",
            do=f"Correct or empty the cell; or, {NOT_A_NUMBER}",
        )
    return values


def _check_thousands(table: Table, column: Column) -> None:
    """Refuse a column whose commas all have one to three digits before and three after them."""
    compute, texts = arrow_module().compute, column.texts
    doubtful = compute.match_substring_regex(texts, THOUSANDS).to_numpy(zero_copy_only=False)
    comma = compute.match_substring(texts, ",").to_numpy(zero_copy_only=False)
    number = ~np.isnan(column.parsed(comma=True).values)
    if not (comma & number & ~doubtful).any():
        row = int(np.flatnonzero(doubtful[column.codes])[0])
        cell = column.cell(row)
        raise DataError.of(
            table.source,
            expected=f"numbers in column {column.name!r} of which some show what the comma means",
            got=f"{cell!r} in data row {row + 1}, which may be {cell.replace(',', '.')} or "
            f"{cell.replace(',', '')}, and others like it",
            do="Write decimals with a point and thousands without a comma; or, " + NOT_A_NUMBER,
        )
