"""Tables with a label column as data: the encoding is fitted on all rows, labelled or not."""

import itertools
import math
import warnings
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

import numpy as np

from dessl._checks import quoted
from dessl.data.errors import DataError, did_you_mean, few
from dessl.data.formats.cells import (
    Column,
    WrongCells,
    has_decimal_comma,
    is_number,
    nearly_numbers,
    not_numbers,
    numbers,
    numeric_share,
    with_unit,
    wrong_cells,
)
from dessl.data.formats.columns import (
    MAX_CATEGORIES,
    CategoricalColumn,
    NumericColumn,
    as_text,
    class_names,
    label_counts,
    missing_marks,
)
from dessl.data.formats.csv_dialect import is_csv
from dessl.data.formats.dates import dates_of_short_years, dates_of_unknown_order, fitted_dates
from dessl.data.formats.encoding import EncodedColumn, TableEncoding
from dessl.data.formats.far_values import Far, far_value, warn_of_far_values, warn_of_outside
from dessl.data.formats.identifiers import how_to_keep, numbering
from dessl.data.formats.reading import MAX_BYTES
from dessl.data.formats.tables import Table, open_table, warn_of_empty_rows
from dessl.data.formats.texts import fitted_text, is_free_text
from dessl.data.formats.times import fitted_times
from dessl.data.parts import Part, RawData

NUMERIC_SHARE = 0.9
ROWS_EACH = 10  # for a category, on average: with fewer, it may name a group of rows
LEAST_ROWS = 10  # a column without values is only then no coincidence
ORDINARY = (1e-15, 1e15)  # standard deviations that float32 holds, and their squares


def read_table(
    path: str | Path,
    *,
    label: str,
    categorical: Collection[str] = (),
    ignore: Collection[str] = (),
    missing_labels: Collection[str] = (),
    ask: Callable[[dict[str, int]], Collection[str]] | None = None,
    delimiter: str | None = None,
    sheet: str | None = None,
    text_encoding: str | None = None,
    missing: Collection[str] = (),
    max_bytes: int = MAX_BYTES,
) -> tuple[RawData, TableEncoding]:
    r"""A table as data, and the encoding by which later tables become the same.

    Args:
        path: The file; see :func:`dessl.data.formats.tables.open_table`.
        label: The column of the labels. An empty cell is an unlabelled row.
        categorical: Columns of numbers that are categories.
        ignore: Columns to drop.
        missing_labels: Marks of a missing label besides an empty cell, such as NA.
        ask: Called with labels that look like such a mark and are not named, and how often each
            occurs; returns those that are one. If None, they are classes, with a warning.
        delimiter: Delimiter of a CSV; guessed by default.
        sheet: Sheet of an Excel workbook; the first by default.
        text_encoding: Encoding of a CSV, such as cp1252; UTF-8 by default.
        missing: Marks of missing cells in any column, the labels included, besides empty cells.
        max_bytes: Upper limit on the bytes of the file, and of the features.

    Returns:
        x float32 (n, features), numbers less their mean and one-hot; and the fitted encoding.

    Raises:
        DataError: The file is bad, or a cell does not fit its column.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "people.csv"
    ...     _ = path.write_text("age,town,sick\n30,Oslo,no\n,Bergen,yes\n50,Oslo,\n")
    ...     data, encoding = read_table(path, label="sick")
    >>> encoding.feature_names
    ('age', 'age is missing', 'town=Bergen', 'town=Oslo')
    >>> data.x[1].tolist(), data.y.tolist(), data.class_names
    ([0.0, 1.0, 1.0, 0.0], [0, 1, -1], ('no', 'yes'))
    """
    table = open_table(
        path,
        delimiter=delimiter,
        sheet=sheet,
        text_encoding=text_encoding,
        missing=missing,
        max_bytes=max_bytes,
    )
    encoding = fit_encoding(
        table,
        label=label,
        categorical=categorical,
        ignore=ignore,
        missing_labels=missing_labels,
        ask=ask,
        missing=missing,
        text_encoding=text_encoding,
    )
    return encoded_table(table, encoding, max_bytes=max_bytes), encoding


def read_new_table(
    path: str | Path,
    encoding: TableEncoding,
    *,
    labels: bool = True,
    delimiter: str | None = None,
    sheet: str | None = None,
    text_encoding: str | None = None,
    missing: Collection[str] | None = None,
    max_bytes: int = MAX_BYTES,
) -> RawData:
    """A later table, encoded as the first one was; its label column may be missing.

    Args:
        path: The file.
        encoding: From :func:`read_table`.
        labels: Whether to read the label column; otherwise every label is missing.
        delimiter: Delimiter of a CSV; guessed by default.
        sheet: Sheet of an Excel workbook; the first by default.
        text_encoding: Encoding of a CSV; that of the first table by default.
        missing: Marks of missing cells; those of the first table by default.
        max_bytes: Upper limit on the bytes of the file, and of the features.

    Raises:
        DataError: The file is bad, or lacks a column that the encoding needs.
    """
    if missing is not None:
        encoding = replace(encoding, missing=tuple(missing))
    if text_encoding is None and is_csv(path):
        text_encoding = encoding.text_encoding
    table = open_table(
        path,
        delimiter=delimiter,
        sheet=sheet,
        text_encoding=text_encoding,
        missing=encoding.missing,
        max_bytes=max_bytes,
    )
    _warn_of_empty_columns(table, encoding)
    data = encoded_table(table, encoding, labels=labels, max_bytes=max_bytes)
    warn_of_outside(table, data.x.numpy(), encoding.columns, stacklevel=2)
    return data


def _warn_of_empty_columns(table: Table, encoding: TableEncoding) -> None:
    """Warn about columns that the encoding needs and that have lost all their values."""
    marked = {column.name for column in encoding.columns if column.indicator}  # others warn anyway
    cells = (column for name, column in table.columns.items() if name in marked)
    empty = [column.name for column in cells if column.is_empty().all()]
    if empty and len(table) >= LEAST_ROWS:
        warnings.warn(
            f"{table.source}: {few([quoted(name) for name in empty])}: no value in {len(table):,} "
            "rows, but there were values in training. Expect less accurate predictions.",
            UserWarning,
            stacklevel=3,
        )


def encoded_table(
    table: Table, encoding: TableEncoding, *, labels: bool = True, max_bytes: int = MAX_BYTES
) -> RawData:
    """A table's features and labels under an encoding; without labels, all are missing."""
    warn_of_empty_rows(table)
    x = encoding.features(table, max_bytes=max_bytes)
    y = encoding.labels(table) if labels else np.full(len(table), -1, np.int64)
    return RawData(Part.of_arrays(x, y), encoding.class_names, feature_names=encoding.feature_names)


def fit_encoding(
    table: Table,
    *,
    label: str,
    categorical: Collection[str] = (),
    ignore: Collection[str] = (),
    missing_labels: Collection[str] = (),
    ask: Callable[[dict[str, int]], Collection[str]] | None = None,
    missing: Collection[str] = (),
    text_encoding: str | None = None,
) -> TableEncoding:
    """The encoding of a table: kinds of columns, medians, means, categories, classes.

    A column is numeric if all its non-empty cells are numbers. If nine in ten are, or half are and
    the others are a few different texts (see :func:`nearly_numbers`), the others are considered
    mistakes and refused; so are measurements with their unit in each cell, as 80.1 kPa, that would
    otherwise be dropped. Numbers may have a decimal comma, as 38,6; a column whose commas may all
    be thousands separators, as in 1,234, is refused. A column is dates if nine in ten of its cells
    are, as 2024-12-31, 31.12.2024, 31 Dec 2024 or 12/31/2024; times of day if nine in ten are, as
    13:15 or 13:15:30; and free text if it has more than 64 different texts, or half as many as
    rows, of which most have three words or more. Any other column is categories, of which the 64
    most frequent are kept. Columns that are constant, that tell the rows apart
    (:mod:`dessl.data.formats.identifiers`), or in which nearly every text is unique are dropped,
    with a warning. A label such as NA or unlabelled, or -1 among whole numbers, is a class like any
    other, with a warning; -1 among text is refused, and so are fractions most of which occur only
    once.

    Raises:
        DataError: A named column is missing, a cell is wrong, or no feature is left.
    """
    table = table.without(missing)
    _check_named(table, label, categorical, ignore)
    columns: list[EncodedColumn] = []
    wrong: list[WrongCells] = []
    left_out: dict[str, str] = {}
    far: dict[str, Far] = {}
    aside, categories = {label, *ignore}, set(categorical)
    for name, column in table.columns.items():
        if name in aside:
            continue
        fitted = _fitted(table, column, name in categories, far)
        if isinstance(fitted, str):
            left_out[name] = fitted
        elif isinstance(fitted, WrongCells):
            wrong.append(fitted)
        else:
            columns.append(fitted)
    if wrong:
        raise not_numbers(table.source, wrong, table.advice)
    reasons = _reasons(left_out)
    if not columns:
        raise DataError.of(
            table.source,
            expected="a column to learn from besides the label",
            got=reasons or "none",
            do=f"Add features to the table.{how_to_keep(left_out.values())}",
        )
    if far:
        warn_of_far_values(table, far)
    _warn_of_groups(table, [column for column in columns if column.name not in categories])
    if left_out:
        warnings.warn(
            f"{table.source}: dropped {reasons}. {table.advice.dropped(left_out)}",
            UserWarning,
            stacklevel=3,
        )
    marks = missing_marks(label_counts(table, label, missing_labels), missing_labels, ask)
    names = class_names(table, label, missing=marks, asked=ask is not None, stacklevel=3)
    return TableEncoding(
        label, names, tuple(columns), left_out, marks, tuple(missing), text_encoding
    )


def _warn_of_groups(table: Table, columns: Collection[EncodedColumn]) -> None:
    """Warn about a column of few rows for each category, which may say whose rows they are."""
    for column in columns:
        if isinstance(column, CategoricalColumn) and len(column.categories) == MAX_CATEGORIES:
            values = len(as_text(table.columns[column.name]).texts)
            if values * ROWS_EACH > len(table):
                warnings.warn(
                    f"{table.source}: {quoted(column.name)} has {values:,} different values in "
                    f"{len(table):,} rows, of which the {MAX_CATEGORIES} most frequent are "
                    "features. If it says which rows belong together, such as those of one "
                    f"patient, {table.advice.group(column.name)}",
                    UserWarning,
                    stacklevel=4,
                )


def _reasons(left_out: dict[str, str]) -> str:
    """Which columns are dropped, by reason."""
    names: dict[str, list[str]] = {}
    for name, why in left_out.items():
        names.setdefault(why, []).append(quoted(name))
    return "; ".join(f"{few(some)}: {why}" for why, some in names.items())


def _check_named(
    table: Table, label: str, categorical: Collection[str], ignore: Collection[str]
) -> None:
    lists = {"label": [label], "categorical": categorical, "ignore": ignore}
    for (one, its), (other, theirs) in itertools.combinations(lists.items(), 2):
        if twice := set(its).intersection(theirs):
            raise ValueError(
                f"label, categorical and ignore must name different columns; {quoted(min(twice))} "
                f"is in {one} and in {other}. Name it once."
            )
    names = [*table.columns, *table.unread]
    for name in (label, *categorical, *ignore):
        if name not in names:
            several = "," in name and all(part.strip() in names for part in name.split(","))
            do = "Name one column at a time, and repeat the option for each."
            if 2 * sum(is_number(other) for other in names) >= len(names):
                several, do = True, "The first line seems to be data: add one with column names."
            raise DataError.of(
                table.source,
                expected=f"a column {quoted(name)}",
                got=few([quoted(other) for other in names], most=20),
                do=do if several else did_you_mean(name, names) or "Check the name.",
            )
    for name in table.unread.keys() - set(ignore):
        raise DataError.of(
            table.source,
            expected=f"numbers or text in column {quoted(name)}",
            got=f"type {table.unread[name]}",
            do=table.advice.unread(name),
        )


def _fitted(
    table: Table, column: Column, categorical: bool, far: dict[str, Far]
) -> EncodedColumn | str | WrongCells:
    """The encoded column, or why it is dropped, or which cells are wrong.

    A number far from all others is added to ``far``, by the column's name.
    """
    if not categorical:
        comma = has_decimal_comma(column)
        share = numeric_share(column, comma=comma)
        if share >= NUMERIC_SHARE or nearly_numbers(column, comma=comma):
            return wrong_cells(column, comma=comma) or _numeric(table, column, comma, far)
        moments = fitted_dates(table, column) or fitted_times(table, column)
        if moments is not None:
            return moments
        if column.numbers is None and is_free_text(column):
            return fitted_text(column) or "its texts have nothing in common"
        if (measured := with_unit(column, MAX_CATEGORIES)) is not None:
            return measured
    text = as_text(column)
    counts = dict(zip(text.texts.to_pylist(), np.bincount(text.codes), strict=True))
    empty = int(counts.pop("", 0))
    if len(counts) + bool(empty) < 2:
        return "constant"
    filled = len(text) - empty
    if not categorical and len(counts) > max(10, filled // 2):
        if column.numbers is None and dates_of_unknown_order(column.texts):
            return "dates whose day and month cannot be told apart: write them as 2024-12-31"
        if column.numbers is None and dates_of_short_years(column.texts):
            return "dates with two digits for the year: write them as 2024-12-31"
        return "nearly every value is unique"
    frequent = sorted(counts, key=lambda category: (-counts[category], category))
    return CategoricalColumn(column.name, tuple(sorted(frequent[:MAX_CATEGORIES])), empty > 0)


def _numeric(table: Table, column: Column, comma: bool, far: dict[str, Far]) -> EncodedColumn | str:
    values = numbers(table.source, column, comma=comma, advice=table.advice)
    observed = values[~np.isnan(values)]
    missing = len(values) - len(observed)
    if not len(observed):
        return "empty"
    if observed.min() == observed.max():  # a rounded mean would give a tiny scale instead of 0
        value = float(observed[0])
        constant = NumericColumn(column.name, value, value, 1.0, True, comma)
        return constant if missing else "constant"
    if (why := numbering(observed)) is not None:
        return why
    with np.errstate(over="ignore", invalid="ignore"):
        mean, scale = float(observed.mean()), float(observed.std())
    if not np.isfinite([mean, scale]).all() or not scale:
        raise DataError.of(
            table.source,
            expected=f"numbers of ordinary size in column {quoted(column.name)}",
            got=f"values up to {np.abs(observed).max():g}",
            do="Correct them, or take their logarithm.",
        )
    unit = 1.0 if ORDINARY[0] < scale < ORDINARY[1] else 2.0 ** round(math.log2(scale))
    median = float(np.median(observed))
    boolean = bool(np.isin(observed, (0, 1)).all())
    if not boolean and (found := far_value(observed)) is not None:
        far[column.name] = found
    low, high = float(observed.min()), float(observed.max())
    return NumericColumn(column.name, median, mean, unit, missing > 0, comma, boolean, low, high)
