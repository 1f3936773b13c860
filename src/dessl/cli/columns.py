"""Columns of DATA that are not features: strata, groups, labelling probabilities."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dessl._checks import quoted
from dessl.cli.sources import kind_of, nearest
from dessl.data import DataError, Part
from dessl.data.errors import did_you_mean, few
from dessl.data.formats.cells import numbers
from dessl.data.formats.tables import open_table
from dessl.data.formats.zipped import open_npz


def text_column(
    source: str, name: str, rows: Part, *, sheet: str | None = None
) -> NDArray[np.str_]:
    """A column of a table, or an array of an .npz file, as text."""
    kind = kind_of(source)
    known: list[str] = []
    values: Any = None
    if kind == "table":
        table = open_table(source, sheet=sheet)
        known = list(table.columns)
        if column := table.columns.get(name):
            values = column.cells.to_pylist() if column.numbers is None else column.numbers
    elif kind == "npz":
        with open_npz(source) as arrays:
            known = list(arrays.names)
            values = arrays.array(name) if name in known else None
    if values is None or np.shape(values) != (len(rows.y),):
        raise DataError.of(
            source,
            expected=f"a column {name!r} with one value for each of the {len(rows.y)} rows",
            got=f"the columns {', '.join(known)}" if known else "data without columns",
            do=f"{did_you_mean(name, known)} Only tables and .npz files have columns.",
        )
    return np.asarray(["" if value is None else str(value) for value in values])


def labelled_numbers(
    source: str, name: str, rows: Part, *, sheet: str | None = None
) -> NDArray[np.float64]:
    """A column of numbers; the cells of unlabelled rows may be empty."""
    texts = text_column(source, name, rows, sheet=sheet)
    known = rows.labelled.numpy()
    values = np.full(len(texts), np.nan)
    try:
        values[known] = texts[known].astype(np.float64)
    except ValueError as error:
        raise DataError.of(
            source,
            expected=f"a number in {name!r} for each labelled row",
            got=str(error),
            do="Enter each labelled row's probability of being labelled.",
        ) from error
    return values


def propensity_column(
    source: str, name: str, n_rows: int, *, sheet: str | None = None
) -> NDArray[np.float64]:
    """Read each row's probability of being labelled, (n,), from a column or an npz array.

    Raises:
        DataError: There is no such column, or it is not numeric.
    """
    kind = kind_of(source)
    if kind not in ("table", "npz"):
        raise ValueError(
            f"--propensity {name} must be a column of a table or an array of an .npz file, but "
            "DATA is neither. Use estimate-x or estimate-y, or save the data as .npz."
        )
    if kind == "table":
        table = open_table(source, sheet=sheet)
        there: Sequence[str] = tuple(table.columns)
        values = numbers(table.source, table.columns[name]) if name in there else None
    else:
        with open_npz(source) as arrays:
            there = arrays.names
            values = arrays.array(name) if name in there else None
    if name in there and (values is None or values.dtype.kind != "f" or values.shape != (n_rows,)):
        raise DataError.of(
            source,
            expected=f"a number from 0 to 1 for each of the {n_rows} rows in {quoted(name)}",
            got="other values",
            do="Unlabelled rows may have an empty cell or NaN.",
        )
    if values is None:
        raise DataError.of(
            source,
            expected=f"the column {quoted(name)} of --propensity, or estimate-x or estimate-y",
            got=few([quoted(one) for one in there], most=20),
            do=nearest(name, there, otherwise="Check the name."),
        )
    return values
