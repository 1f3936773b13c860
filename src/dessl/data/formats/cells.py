"""The cells of one column of a table: numbers, or texts of which some may be numbers."""

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MISSING_NUMBERS = ("", "NA", "N/A", "na", "n/a", "NaN", "nan", "NULL", "null", "None", "?")
# No digit can be matched in two ways, so that matching takes linear time.
NUMBER = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"
COMMA_NUMBER = r"^[+-]?([0-9]+(,[0-9]+)?|,[0-9]+)([eE][+-]?[0-9]+)?$"


class Parsed(NamedTuple):
    """A column's entries as numbers.

    Attributes:
        values: float64 (m,), NaN where an entry is missing or not a number.
        wrong: bool (m,), whether it is neither.
        rows: (n,) which entry each row has; a slice of all if there is one entry for each row.
    """

    values: NDArray[np.float64]
    wrong: NDArray[np.bool_]
    rows: "NDArray[np.int64] | slice"


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a table, of numbers or of texts; texts are parsed when they are needed.

    Attributes:
        name: The column's name.
        numbers: float64 (n,) with NaN for missing, if the file itself says that these are numbers.
        cells: Otherwise the texts (n,) as they are in the file, in an Arrow array, plain or with
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

    @property
    def texts(self) -> Any:
        """The distinct texts, trimmed and sorted, as an Arrow array; "" is a missing cell."""
        return self._coded[0]

    @property
    def codes(self) -> NDArray[np.int64]:
        """(n,) which of the texts each row holds."""
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


def arrow_module() -> Any:
    """PyArrow with the parts of it used here, imported when the first table is read."""
    import pyarrow
    import pyarrow.compute
    import pyarrow.csv
    import pyarrow.parquet

    return pyarrow


def _plain(cells: Any) -> NDArray[np.float64] | None:
    """A column of numbers and gaps as float64 (n,), row by row; None if any cell is something else.

    Most columns of wide tables are like that, and finding equal texts first would take longer.
    """
    first = (cells[0].as_py() or "").strip()  # enough to rule most other columns out
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
