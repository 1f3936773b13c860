"""One column of a table as features, numbers or one-hot, or as the classes to predict."""

import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dessl._checks import quoted
from dessl.data.errors import DataError
from dessl.data.formats.cells import (
    Column,
    arrow_module,
    has_decimal_comma,
    is_number,
    numbers,
    numeric_share,
)
from dessl.data.formats.clock import DAY, seconds_of
from dessl.data.formats.tables import Table
from dessl.data.labels import marks_among, warn_of_doubtful, warn_of_spellings

MAX_CATEGORIES = 64
MAX_CLASSES = 1000
NO_CLASSES = "Is it the right column? Only classes can be predicted, not measurements."
BOOLEANS = {"0": 0, "false": 0, "1": 1, "true": 1}  # in any case
WHOLE_NUMBER = r"^(-?(?:0|[1-9][0-9]*))\.0+$"


class ColumnFeatures(NamedTuple):
    """Features (n, columns), and the number of missing cells that none of them marks."""

    x: NDArray[Any]
    n_unmarked: int


@dataclass(frozen=True)
class NumericColumn:
    """(value - mean) / scale; a missing value becomes the median and is marked by an indicator.

    The mean is subtracted in float64, so that float32 keeps the digits in which rows differ.
    Whoever trains on the features scales them.

    Attributes:
        name: Name of the column.
        median: Median of the observed values, which replaces a missing one.
        mean: Mean of the observed values.
        scale: 1, or a power of two for values too large for float32. Encodings saved by
            older versions have the standard deviation here.
        indicator: Whether a 0/1 feature says that the value was missing.
        decimal_comma: Whether the numbers were written 38,6 when the encoding was fitted.
        boolean: Whether they were all 0 or 1 then. If so, true and false are read as 1 and 0; in
            any other column of numbers they are an error.
        low: Smallest observed value; None in encodings saved by older versions.
        high: Largest observed value.
    """

    name: str
    median: float
    mean: float
    scale: float
    indicator: bool
    decimal_comma: bool = False
    boolean: bool = False
    low: float | None = None
    high: float | None = None

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One name for each feature the column becomes."""
        return (self.name, f"{self.name} is missing") if self.indicator else (self.name,)

    def features(self, table: Table) -> ColumnFeatures:
        """(n, 1 or 2); decimals may have a point or a comma, whichever this table uses."""
        column, known = table.columns[self.name], self.decimal_comma
        if self.boolean:
            column = _booleans_as_numbers(column)
        elif self.low is None or self.high is None or 0 <= self.low <= self.high <= 1:
            column = _times_as_days(column)
        comma = has_decimal_comma(column)
        advice = table.advice.later
        values = numbers(table.source, column, comma=comma, known=known, advice=advice)
        missing = np.isnan(values)
        centred = (np.where(missing, self.median, values) - self.mean) / self.scale
        if self.indicator:
            return ColumnFeatures(np.stack([centred, missing], axis=1), 0)
        return ColumnFeatures(centred[:, None], int(missing.sum()))


@dataclass(frozen=True)
class CategoricalColumn:
    """One 0/1 feature for each category; any other category is all zeros, with a warning.

    Categories true and false (or 0 and 1) are booleans, however later tables write them: programs
    differ in this.

    There is no warning if the largest number of categories is listed: rarer ones were dropped.

    Attributes:
        name: Name of the column.
        categories: Categories in the order of the features.
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

    def features(self, table: Table) -> ColumnFeatures:
        """(n, categories, and one more with an indicator)."""
        column = as_text(table.columns[self.name])
        place = {text: number for number, text in enumerate(self.categories)}
        if self.indicator:
            place[""] = len(self.categories)
        width = len(self.feature_names)
        # The last row, all zeros, is for all other texts.
        rows = np.eye(width + 1, width, dtype=np.float32)
        texts = column.texts.to_pylist()
        values = [BOOLEANS.get(category.lower()) for category in self.categories]
        if sorted(values, key=str) == [0, 1]:
            same = {text: BOOLEANS[text.lower()] for text in texts if text.lower() in BOOLEANS}
            place = {text: values.index(value) for text, value in same.items()} | place
        chosen = np.array([place.get(text, width) for text in texts], np.int64)
        unknown = np.array([bool(text) and text not in place for text in texts])[column.codes]
        if len(self.categories) < MAX_CATEGORIES and unknown.any():
            listed = ", ".join(map(quoted, self.categories[:8]))
            more = ", ..." if len(self.categories) > 8 else ""
            warnings.warn(
                f"{table.source}: {unknown.sum()} of {len(table)} cells in column "
                f"{quoted(self.name)} have a category that did not occur in training, such as "
                f"{quoted(column.cell(int(np.argmax(unknown))))}; they count as none of "
                f"{listed}{more}. Spell categories as in training.",
                UserWarning,
                stacklevel=2,
            )
        n_empty = 0 if self.indicator else np.array([not t for t in texts])[column.codes].sum()
        return ColumnFeatures(np.asarray(rows[chosen[column.codes]]), int(n_empty))


def _booleans_as_numbers(column: Column) -> Column:
    """The column with 1 and 0 in place of true and false."""
    if column.numbers is not None:
        return column
    replace, texts = arrow_module().compute.replace_substring_regex, column.texts
    for word in ("false", "true"):
        texts = replace(texts, f"(?i)^{word}$", str(BOOLEANS[word]))
    return Column.of_texts(column.name, texts, column.codes)


def _times_as_days(column: Column) -> Column:
    """The column with parts of a day in place of times, as older versions read Excel workbooks."""
    if column.numbers is not None or numeric_share(column) == 1:
        return column
    texts = column.texts.to_pylist()
    seconds = [seconds_of(text) for text in texts]
    days = [
        text if one is None else repr(one / DAY) for text, one in zip(texts, seconds, strict=True)
    ]
    return Column.of_texts(column.name, arrow_module().array(days), column.codes)


def as_text(column: Column) -> Column:
    """A column as texts, whole numbers without a decimal point.

    A program that stores a missing number as NaN writes the other whole numbers as 1.0, another
    program writes 1: they are one category.
    """
    arrow = arrow_module()
    if column.numbers is None:
        replace = arrow.compute.replace_substring_regex
        whole = replace(column.texts, WHOLE_NUMBER, r"\1")
        return Column.of_texts(column.name, replace(whole, "^-0$", "0"), column.codes)
    distinct, codes = np.unique(column.numbers, return_inverse=True)
    # The shortest text that identifies the number; 0 + x makes 0 of -0.
    texts = [
        "" if np.isnan(value) else np.format_float_positional(0 + value, trim="-")
        for value in distinct
    ]
    return Column.of_texts(column.name, arrow.array(texts, arrow.string()), codes)


def missing_marks(
    counts: Mapping[str, int],
    given: Collection[str],
    ask: Callable[[dict[str, int]], Collection[str]] | None,
) -> tuple[str, ...]:
    """The texts in a label column that stand for a missing label.

    Args:
        counts: Count of each label, except those given.
        given: Marks named by the user.
        ask: Called with other labels that look like such a mark, and the count of each; returns
            those that are. None treats them all as classes.
    """
    marks = {mark: counts[mark] for mark in marks_among(counts)}
    more = ask(marks) if ask and marks else ()
    return tuple(dict.fromkeys((*given, *more)))


def label_counts(table: Table, label: str, missing: Collection[str]) -> dict[str, int]:
    """Count of each text in the label column, except missing ones."""
    column = as_text(table.columns[label])
    counts = dict(zip(column.texts.to_pylist(), np.bincount(column.codes).tolist(), strict=True))
    return {text: count for text, count in counts.items() if text and text not in missing}


def class_names(
    table: Table,
    label: str,
    *,
    missing: Collection[str] = (),
    asked: bool = False,
    stacklevel: int = 2,
) -> tuple[str, ...]:
    """The labels that occur: sorted by value if all are numbers, otherwise alphabetically.

    Args:
        table: The table.
        label: Name of the label column.
        missing: Texts that mark a missing label.
        asked: Whether the user was asked about others that look like one.
        stacklevel: Same as in ``warnings.warn``, as if called in place of this function.

    Raises:
        DataError: There are too few or too many classes, or the labels are measurements, or -1
            occurs among text.
    """
    counts = label_counts(table, label, missing)
    _check_class_count(table, label, counts, missing)
    marks = marks_among(counts)
    sure = {text: count for text, count in counts.items() if text not in marks}
    _check_minus_one(table, label, sure)
    _check_repeated(table, label, sure)
    where = f"{table.source}, label column {quoted(label)}"
    if asked:
        warn_of_spellings(counts, where=where, stacklevel=stacklevel + 1)
    else:
        do = "empty the cell, or name it in missing_labels= (--missing-label)"
        warn_of_doubtful(counts, where=where, do=do, stacklevel=stacklevel + 1)
    return tuple(sorted(counts, key=float if all(map(is_number, counts)) else None))


def _check_minus_one(table: Table, label: str, texts: Collection[str]) -> None:
    """Refuse -1 among text, as :func:`dessl.data.labels.texts` does."""
    words = sorted(text for text in texts if not is_number(text))
    if "-1" in texts and words:
        raise DataError.of(
            table.source,
            expected=f"one kind of labels in column {quoted(label)}",
            got=f"'-1' together with text such as {quoted(words[0])}; -1 marks a missing label "
            "only among numbers",
            do="Empty the cell if the label is missing; if it is a class, rename it.",
        )


def _check_class_count(
    table: Table, label: str, counts: Mapping[str, int], missing: Collection[str]
) -> None:
    """Refuse a label column with no label, one class, or too many classes."""
    if not counts:
        marks = " or mark a missing label" if missing else ""
        raise DataError.of(
            table.source,
            expected=f"labels in the column {quoted(label)}",
            got=f"none: all {len(table):,} cells are empty{marks}",
            do="Enter labels for some rows, of two classes or more; or name another column in "
            "label= (--label on the command line).",
        )
    if not 2 <= len(counts) <= MAX_CLASSES:
        only = f", {quoted(next(iter(counts)))}" if len(counts) == 1 else ""
        raise DataError.of(
            table.source,
            expected=f"2 to {MAX_CLASSES} classes in the label column {quoted(label)}",
            got=f"{len(counts)}{only}",
            do="Label rows of other classes too, or check the name of the column."
            if only
            else NO_CLASSES,
        )


def _check_repeated(table: Table, label: str, counts: dict[str, int]) -> None:
    """Refuse fractions most of which occur only once: they are measurements."""
    n_rows = sum(counts.values())
    if not all(map(is_number, counts)) or len(counts) <= n_rows / 2:
        return
    broken = sorted(text for text in counts if not float(text).is_integer())
    if broken:
        raise DataError.of(
            table.source,
            expected=f"classes in the label column {quoted(label)}",
            got=f"{len(counts)} different numbers in {n_rows} labelled rows, such as "
            f"{quoted(broken[0])}",
            do=NO_CLASSES,
        )
