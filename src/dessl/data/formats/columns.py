"""One column of a table as numbers for a model: standardised with an indicator, or one-hot."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dessl.data.errors import DataError
from dessl.data.formats.tables import Column, Table, arrow_module

MISSING_NUMBERS = frozenset(
    ("", "NA", "N/A", "na", "n/a", "NaN", "nan", "NULL", "null", "None", "?")
)
NUMERIC_SHARE = 0.9
MAX_CATEGORIES = 64
NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
WHOLE_NUMBER = r"^(-?(?:0|[1-9][0-9]*))\.0+$"


@dataclass(frozen=True)
class NumericColumn:
    """(value - mean) / scale, a missing value taken for the median and marked beside.

    Attributes:
        name: The column.
        median: What stands in for a missing value.
        mean: Of the observed values.
        scale: Their standard deviation, or 1 where they do not vary.
        indicator: Whether a 0/1 feature says that the value was missing.
    """

    name: str
    median: float
    mean: float
    scale: float
    indicator: bool

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One name for each feature the column becomes."""
        return (self.name, f"{self.name} is missing") if self.indicator else (self.name,)

    def features(self, table: Table) -> NDArray[np.float64]:
        """(n, 1 or 2)."""
        values = numbers(table, table.columns[self.name])
        missing = np.isnan(values)
        scaled = (np.where(missing, self.median, values) - self.mean) / self.scale
        return np.stack([scaled, missing] if self.indicator else [scaled], axis=1)


@dataclass(frozen=True)
class CategoricalColumn:
    """One 0/1 feature for each category; a category not listed here is all zeros, with a warning.

    There is none where as many are listed as are ever kept: others were there, but too rare.

    Attributes:
        name: The column.
        categories: In the order of the features.
        indicator: Whether a last feature says that the cell was empty.
    """

    name: str
    categories: tuple[str, ...]
    indicator: bool

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One name for each feature the column becomes."""
        names = tuple(f"{self.name}={category}" for category in self.categories)
        return (*names, f"{self.name} is missing") if self.indicator else names

    def features(self, table: Table) -> NDArray[np.float32]:
        """(n, categories, and one more with an indicator)."""
        column = as_text(table.columns[self.name])
        place = {text: number for number, text in enumerate(self.categories)}
        if self.indicator:
            place[""] = len(self.categories)
        width = len(self.feature_names)
        # The last row, all zeros, is for everything else.
        rows = np.eye(width + 1, width, dtype=np.float32)
        texts = column.texts.to_pylist()
        chosen = np.array([place.get(text, width) for text in texts], np.int64)
        if len(self.categories) < MAX_CATEGORIES:
            self._warn_of_unknown(table, column, [bool(t) and t not in place for t in texts])
        return np.asarray(rows[chosen[column.codes]])

    def _warn_of_unknown(self, table: Table, column: Column, unknown: Sequence[bool]) -> None:
        rows = np.flatnonzero(np.array(unknown)[column.codes])
        if len(rows):
            listed = ", ".join(map(repr, self.categories[:8]))
            more = ", ..." if len(self.categories) > 8 else ""
            warnings.warn(
                f"{table.source}: {len(rows)} of {len(table)} cells in column {self.name!r} hold "
                "a category that was not there in training, such as "
                f"{column.cell(int(rows[0]))!r}; they count as none of {listed}{more}. "
                "Spell categories as in training.",
                UserWarning,
                stacklevel=2,
            )


EncodedColumn: TypeAlias = NumericColumn | CategoricalColumn


def numeric_share(column: Column) -> float:
    """The share of a column's non-empty cells that are numbers; 1 where all cells are empty."""
    if column.numbers is not None:
        return 1.0
    parsed, wrong = _parsed(column)
    cells = np.bincount(column.codes, minlength=len(parsed))
    n_wrong, n_right = cells[wrong].sum(), cells[~np.isnan(parsed)].sum()
    return float(n_right / (n_right + n_wrong)) if n_right + n_wrong else 1.0


def numbers(table: Table, column: Column) -> NDArray[np.float64]:
    """A column as float64 (n,) with NaN for missing, refusing a cell that is no number.

    Missing are empty cells and NA, N/A, NaN, NULL, None and "?".

    Raises:
        DataError: A cell holds something else; the message names its row, column and value.
    """
    if column.numbers is not None:
        values, wrong = column.numbers, np.isinf(column.numbers)
    else:
        parsed, bad = _parsed(column)
        values, wrong = parsed[column.codes], bad[column.codes]
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise DataError.of(
            table.source,
            expected=f"numbers in column {column.name!r}",
            got=f"{column.cell(row)!r} in data row {row + 1} ({int(wrong.sum())} such cells)",
            do="Correct or empty the cell; or, if the column holds categories, name it in "
            "categorical=.",
        )
    return values


def as_text(column: Column) -> Column:
    """A column as texts, whole numbers without a point.

    A program that keeps a gap as NaN writes the whole numbers beside it as 1.0, another as 1: they
    are one category.
    """
    arrow = arrow_module()
    if column.numbers is None:
        replace = arrow.compute.replace_substring_regex
        whole = replace(column.texts, WHOLE_NUMBER, r"\1")
        return Column.of_texts(column.name, replace(whole, "^-0$", "0"), column.codes)
    distinct, codes = np.unique(column.numbers, return_inverse=True)
    # The shortest text that tells a number from its neighbours; 0 + x makes 0 of -0.
    texts = [
        "" if np.isnan(value) else np.format_float_positional(0 + value, trim="-")
        for value in distinct
    ]
    return Column.of_texts(column.name, arrow.array(texts, arrow.string()), codes)


def _parsed(column: Column) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Each distinct text as a number, NaN where it is missing or none; and whether it is none."""
    arrow = arrow_module()
    compute, texts = arrow.compute, column.texts
    # Python's own liberties (1_000, Arabic digits, infinity) are no numbers in a table.
    plain = compute.if_else(compute.match_substring_regex(texts, NUMBER), texts, None)
    parsed = compute.utf8_ltrim(plain, "+").cast(arrow.float64())
    values = parsed.to_numpy(zero_copy_only=False)
    number = np.isfinite(values)
    missing = compute.is_in(texts, arrow.array(sorted(MISSING_NUMBERS)))
    return np.where(number, values, np.nan), ~number & ~missing.to_numpy(zero_copy_only=False)
