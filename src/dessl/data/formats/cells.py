"""The cells of one column of a table: numbers, or texts of which some may be numbers.

Numbers have a decimal point or, as in much of Europe, a comma.
"""

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dessl._checks import quoted
from dessl.data.errors import DataError, few
from dessl.data.formats.advice import MEASURED, Advice

MISSING_NUMBERS = ("", "NA", "N/A", "na", "n/a", "NaN", "nan", "NULL", "null", "None", "?")
# No digit can be matched in two ways, so that matching takes linear time.
NUMBER = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"
COMMA_NUMBER = r"^[+-]?([0-9]+(,[0-9]+)?|,[0-9]+)([eE][+-]?[0-9]+)?$"
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
UNIT_SHARE = 0.9
SEEN = 10_000  # texts that are enough to tell
FILE = Advice()


class Parsed(NamedTuple):
    """A column's entries as numbers.

    Attributes:
        values: float64 (m,), NaN where an entry is missing or not a number.
        wrong: bool (m,), whether it is neither.
        rows: Entry of each row, (n,); a slice of all if each row has its own entry.
    """

    values: NDArray[np.float64]
    wrong: NDArray[np.bool_]
    rows: "NDArray[np.int64] | slice"


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a table, of numbers or of texts; texts are parsed when they are needed.

    Attributes:
        name: The column's name.
        numbers: float64 (n,) with NaN for missing, if the file stores numbers.
        cells: Otherwise the texts (n,) as in the file, as an Arrow array, plain or with
            a dictionary.
    """

    name: str
    numbers: NDArray[np.float64] | None
    cells: Any
    _parsed: dict[bool, Parsed] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of_numbers(cls, name: str, numbers: NDArray[np.float64]) -> "Column":
        """A column of numbers."""
        return cls(name, numbers, None)

    @classmethod
    def of_texts(cls, name: str, texts: Any, codes: NDArray[np.int64]) -> "Column":
        """A column of distinct texts and the code (n,) of each row's text."""
        arrow = arrow_module()
        return cls(
            name, None, arrow.chunked_array([arrow.DictionaryArray.from_arrays(codes, texts)])
        )

    def without(self, marks: Collection[str]) -> "Column":
        """The column with empty cells in place of these marks; itself if it has none.

        A mark that is a number stands for all texts with its value: -999 also for -999.0.
        """
        if self.numbers is not None:
            values = [float(mark) for mark in marks if re.match(NUMBER, mark)]
            found = np.isin(self.numbers, values)
            if not found.any():
                return self
            return Column.of_numbers(self.name, np.where(found, np.nan, self.numbers))
        arrow = arrow_module()
        cells = self.cells
        if arrow.types.is_dictionary(cells.type):
            cells = cells.cast(arrow.string())
        pattern = "|".join(_mark_pattern(mark) for mark in marks)
        marked = arrow.compute.match_substring_regex(cells, rf"^\s*(?:{pattern})\s*$")
        if not arrow.compute.any(marked).as_py():
            return self
        return Column(self.name, None, arrow.compute.if_else(marked, "", cells))

    @property
    def texts(self) -> Any:
        """The distinct texts, trimmed and sorted, as an Arrow array; "" is a missing cell."""
        return self._coded[0]

    @property
    def codes(self) -> NDArray[np.int64]:
        """The text of each row, (n,), as a position in the texts."""
        return self._coded[1]

    def parsed(self, *, comma: bool = False) -> Parsed:
        """The texts as numbers, with a decimal point or a comma; parsed once."""
        if comma not in self._parsed:
            plain = None
            if not comma and not arrow_module().types.is_dictionary(self.cells.type):
                plain = _plain(self.cells)
            self._parsed[comma] = (
                Parsed(*_parsed(self.texts, comma=comma), self.codes)
                if plain is None
                else Parsed(plain, np.zeros(len(plain), np.bool_), slice(None))
            )
        return self._parsed[comma]

    def __len__(self) -> int:
        return len(self.cells if self.numbers is None else self.numbers)

    def is_empty(self) -> NDArray[np.bool_]:
        """(n,) which cells are empty or only spaces."""
        if self.numbers is not None:
            return np.isnan(self.numbers)
        return np.array([not text for text in self.texts.to_pylist()])[self.codes]

    def cell(self, row: int) -> str:
        """One cell as text."""
        if self.numbers is not None:
            return f"{self.numbers[row]:g}"
        return str(self.texts[int(self.codes[row])])

    @cached_property
    def _coded(self) -> tuple[Any, NDArray[np.int64]]:
        arrow = arrow_module()
        dictionary = arrow.types.is_dictionary(self.cells.type)
        coded = self.cells if dictionary else self.cells.dictionary_encode()
        whole = coded.unify_dictionaries().combine_chunks()
        if isinstance(whole, arrow.ChunkedArray):
            whole = whole.chunk(0)
        filled = whole.dictionary.cast(arrow.string()).fill_null("")
        texts = arrow.concat_arrays([arrow.compute.utf8_trim_whitespace(filled), arrow.array([""])])
        codes = whole.indices.fill_null(len(filled)).to_numpy(zero_copy_only=False)
        # Trimming makes some texts equal: keep those that occur, once each, sorted.
        distinct = texts.dictionary_encode()
        codes = distinct.indices.to_numpy(zero_copy_only=False)[codes]
        occur = np.flatnonzero(np.bincount(codes, minlength=len(distinct.dictionary)))
        occurring = distinct.dictionary.take(arrow.array(occur))
        order = arrow.compute.sort_indices(occurring).to_numpy()
        place = np.zeros(len(distinct.dictionary), np.int64)
        place[occur[order]] = np.arange(len(order))
        return occurring.take(arrow.array(order)), place[codes]


def _mark_pattern(mark: str) -> str:
    """A regular expression for a mark, and for the other spellings of a whole number."""
    whole = re.fullmatch(r"([+-]?)0*([0-9]+)(?:[.,]0*)?", mark.strip())
    if whole is None:
        return re.escape(mark.strip())
    sign = "-" if whole[1] == "-" else r"\+?"
    return rf"{sign}0*{whole[2]}(?:[.,]0*)?"


def arrow_module() -> Any:
    """PyArrow with the parts of it used here, imported when the first table is read."""
    import pyarrow
    import pyarrow.compute
    import pyarrow.csv
    import pyarrow.parquet

    return pyarrow


def _plain(cells: Any) -> NDArray[np.float64] | None:
    """A column of numbers and gaps as float64 (n,), row by row; None if any cell is neither.

    Most columns of wide tables are like this, and finding equal texts first would take longer.
    """
    first = (cells[0].as_py() or "").strip()  # enough to exclude most other columns
    if first not in MISSING_NUMBERS and not re.match(NUMBER, first):
        return None
    filled = cells.fill_null("") if cells.null_count else cells
    values, wrong = _parsed(arrow_module().compute.utf8_trim_whitespace(filled), comma=False)
    return None if wrong.any() else values


def _parsed(texts: Any, *, comma: bool) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Each text as a number, NaN if it is missing or not one; and whether it is not one."""
    arrow = arrow_module()
    compute = arrow.compute
    # What Python accepts beyond that (1_000, Arabic digits, infinity) is not a number in a table.
    right = compute.match_substring_regex(texts, COMMA_NUMBER if comma else NUMBER)
    plain = (
        texts if right.to_numpy(zero_copy_only=False).all() else compute.if_else(right, texts, None)
    )
    if comma:
        plain = compute.replace_substring(plain, ",", ".")
    values = compute.utf8_ltrim(plain, "+").cast(arrow.float64()).to_numpy(zero_copy_only=False)
    number = np.isfinite(values)
    if number.all():
        return values, ~number
    missing = compute.is_in(texts, arrow.array(MISSING_NUMBERS)).to_numpy(zero_copy_only=False)
    return np.where(number, values, np.nan), ~number & ~missing


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
    """Whether a column has measurements, although many cells are not plain numbers.

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


def with_unit(column: Column, most: int) -> WrongCells | None:
    """The cells of a column of measurements with one unit, as 80.1 kPa; None if it has none.

    Nine in ten of its texts have the unit, and there are more than ``most``, or than half of the
    rows: the column would be cut or dropped. Whole numbers of which none is repeated, as 7NO and
    12NO, are identifiers.
    """
    texts = [] if column.numbers is not None else list(filter(None, column.texts.to_pylist()))
    if len(texts) <= max(MIN_VALUES, min(most, len(column) // 2)):
        return None
    found = [one for text in texts[:SEEN] if (one := MEASURED.match(text))]
    if len(found) < UNIT_SHARE * len(texts[:SEEN]) or len({one["unit"] for one in found}) > 1:
        return None
    whole = all(one["number"].isdigit() for one in found)
    if whole and len(texts) == np.count_nonzero(~column.is_empty()):
        return None
    measured = np.array([bool(MEASURED.match(text)) for text in column.texts.to_pylist()])
    having = np.flatnonzero(measured[column.codes])
    row = int(having[0])
    return WrongCells(column.name, column.cell(row), row, len(having), comma=False)


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


def not_numbers(source: Path, columns: Sequence[WrongCells], advice: Advice = FILE) -> DataError:
    """The error for one or more columns whose cells are not all numbers."""
    first, *rest = columns
    such = _counted(first.n_cells, "such cell")
    others = [
        f"{quoted(wrong.cell)} in column {quoted(wrong.name)} ({_counted(wrong.n_cells, 'cell')})"
        for wrong in rest
    ]
    return DataError.of(
        source,
        expected=f"numbers {'with a decimal comma ' * first.comma}in column {quoted(first.name)}",
        got=f"{quoted(first.cell)} in data row {first.row + 1} ({such})"
        + (f"; also {few(others)}" if others else ""),
        do=advice.not_numbers(first.name, first.cell, comma=first.comma, several=bool(others)),
    )


def _counted(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"


def numbers(
    source: Path,
    column: Column,
    *,
    comma: bool = False,
    known: bool = False,
    advice: Advice = FILE,
) -> NDArray[np.float64]:
    """A column as float64 (n,) with NaN for missing; a cell that is not a number is refused.

    Empty cells and NA, N/A, NaN, NULL, None and "?" are missing.

    Args:
        source: File named in error messages.
        column: One of its columns.
        comma: Whether decimals are written with a comma.
        known: Whether that is certain. If not, commas that may all be thousands separators are
            refused; so are points, next to whole numbers of three digits but not of more.
        advice: What to do if the column is not of numbers.

    Raises:
        DataError: A cell is something else; the message names its row, column and value.
    """
    if comma and not known:
        _check_thousands(source, column, ",", advice)
    wrong = wrong_cells(column, comma=comma)
    if wrong is not None:
        raise not_numbers(source, [wrong], advice)
    if column.numbers is not None:
        return column.numbers
    parsed = column.parsed(comma=comma)
    if not comma:
        sizes = np.abs(parsed.values[~np.isnan(parsed.values)])
        whole = sizes == np.rint(sizes)
        # Points may separate thousands, as in 950 and 1.234; the texts show whether each has three
        # digits after it.
        if (sizes < 1000).all() and (whole & (sizes >= 100)).any() and not whole.all():
            _check_thousands(source, column, ".", advice)
    return parsed.values[parsed.rows]


def _check_thousands(source: Path, column: Column, mark: str, advice: Advice) -> None:
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
            source,
            expected=f"numbers in column {quoted(column.name)} that show what the "
            f"{'comma' if mark == ',' else 'point'} means",
            got=f"{quoted(cell)} in data row {row + 1}, which may mean {cell.replace(mark, '.')} "
            f"or {cell.replace(mark, '')}, and others like it",
            do="Write decimals with a point (whole numbers among them as 950.0), and thousands "
            f"without a separator; or, {advice.category(column.name)}",
        )
