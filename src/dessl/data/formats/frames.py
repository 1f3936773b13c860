"""Data frames as tables: pandas, and any other with an Arrow interface.

The columns are read like those of a Parquet file, so that a frame and a file with the same table
have the same features. A pandas categorical column stays categorical.
"""

import dataclasses
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dessl._checks import quoted
from dessl.data.errors import DataError, few
from dessl.data.formats.advice import FrameAdvice, PandasAdvice
from dessl.data.formats.cells import Column, arrow_module
from dessl.data.formats.encoding import TableEncoding
from dessl.data.formats.fitting import fit_encoding
from dessl.data.formats.identifiers import numbering
from dessl.data.formats.reading import Labels, reading
from dessl.data.formats.tables import Table, as_table, check_different, check_names
from dessl.data.labels import is_missing

SOURCE = Path("X")  # name of a frame in error messages


class Frame(NamedTuple):
    """The columns of a data frame.

    Attributes:
        source: Name in error messages.
        arrow: The columns, in a ``pyarrow.Table``.
        categorical: Names of the frame's categorical columns.
        advice: How to correct it, in error messages.
    """

    source: Path
    arrow: Any
    categorical: tuple[str, ...]
    advice: FrameAdvice

    @property
    def all_numbers(self) -> bool:
        """Whether every column has numbers without gaps, so that the frame is an array."""
        types = arrow_module().types
        return not self.categorical and all(
            (types.is_integer(column.type) or types.is_floating(column.type))
            and not column.null_count
            for column in self.arrow.columns
        )

    def table(self) -> Table:
        """The columns in the form of a file's, before any encoding."""
        return as_table(self.source, self.arrow, self.advice)

    def only(self, name: str) -> "Frame":
        """One of the columns."""
        categorical = tuple(one for one in self.categorical if one == name)
        return self._replace(arrow=self.arrow.select([name]), categorical=categorical)

    def followed_by(self, other: "Frame") -> "Frame":
        """The rows of both, with the columns of this one."""
        arrow = arrow_module()
        expected = "columns of the same types in X and X_unlabelled"
        with reading(self.source, expected, arrow.ArrowException, do=self.advice.columns):
            rows = [self.arrow, other.arrow.select(self.arrow.column_names)]
            both = arrow.concat_tables(rows, promote_options="permissive")
        return self._replace(arrow=both)


def is_frame(x: object) -> bool:
    """Whether x has named, typed columns: pandas, Polars, PyArrow and others.

    >>> is_frame(arrow_module().table({"age": [1, 2]})), is_frame(np.zeros((2, 2)))
    (True, False)
    """
    read = hasattr(x, "__arrow_c_stream__") or hasattr(x, "__dataframe__")
    return read and hasattr(x, "columns")  # in this order: the names of a lazy frame take long


def read_frame(x: Any, *, source: Path = SOURCE) -> Frame:
    """Read the columns of a data frame.

    Raises:
        DataError: Names are empty or repeated, or a column cannot be read.

    >>> frame = read_frame(arrow_module().table({"age": [1, None], "town": ["Oslo", "Bergen"]}))
    >>> list(frame.table().columns), frame.all_numbers
    (['age', 'town'], False)
    """
    arrow, advice = arrow_module(), frame_advice(x)
    if _is_pandas(x):
        names = [str(name) for name in x.columns]
        _check_names(source, names)
        table = arrow.table(
            {name: _of_pandas(source, name, x.iloc[:, k]) for k, name in enumerate(names)}
        )
    else:
        expected = "a data frame that Arrow can read"
        with reading(source, expected, arrow.ArrowException, TypeError, do=advice.columns):
            given = hasattr(x, "__arrow_c_stream__")
            table = arrow.table(x) if given else arrow.interchange.from_dataframe(x)
        _check_names(source, table.column_names)
    dictionary = arrow.types.is_dictionary
    categorical = tuple(field.name for field in table.schema if dictionary(field.type))
    with reading(source, "columns of numbers or text", arrow.ArrowException, do=advice.columns):
        return Frame(source, _plain(table), categorical, advice)


def frame_advice(x: object) -> FrameAdvice:
    """How to correct a data frame of its kind.

    >>> frame_advice(arrow_module().table({"id": [1, 2]})).identifiers(["id"])
    'drop it from X'
    """
    return PandasAdvice() if _is_pandas(x) else FrameAdvice()


def is_numbers(x: Any, *, source: Path = SOURCE) -> bool:
    """Whether a data frame has only numbers without gaps, and can be used as an array.

    Most large pandas frames do, and are not copied for this check.

    Raises:
        DataError: Names are repeated.
    """
    if not _is_pandas(x) or not all(
        isinstance(kind, np.dtype) and kind.kind in "iuf" for kind in x.dtypes
    ):
        return read_frame(x, source=source).all_numbers
    _check_different(source, [str(name) for name in x.columns])
    return not any(x.iloc[:, k].isna().any() for k in range(x.shape[1]))


def identifiers(x: Any) -> list[Any]:
    """Names of columns of a frame of numbers, without gaps, that may only tell the rows apart.

    >>> identifiers(arrow_module().table({"id": range(40, 0, -1), "age": [30, 40] * 20}))
    ['id']
    """
    if _is_pandas(x):
        columns = {name: _as_numbers(x.iloc[:, k]) for k, name in enumerate(x.columns)}
    else:
        arrow = read_frame(x).arrow
        columns = {name: arrow[name].to_numpy() for name in arrow.column_names}
    return [name for name, values in columns.items() if numbering(values) is not None]


def _as_numbers(column: Any) -> NDArray[Any]:
    """A column of pandas with numbers alone, which may be objects."""
    values: NDArray[Any] = column.to_numpy()
    return values.astype(np.float64) if values.dtype == object else values


def frame_encoding(
    table: Table,
    codes: Labels,
    *,
    label: str,
    class_names: Sequence[str],
    categorical: Sequence[str] = (),
) -> TableEncoding:
    """The encoding of a frame's columns, fitted on all rows, like that of a file.

    Args:
        table: All rows of the frame, labelled or not.
        codes: (n,) class numbers of its rows, -1 for missing.
        label: Name of the label column in later tables.
        class_names: The classes, in the order of their numbers.
        categorical: The frame's categorical columns.

    Raises:
        DataError: A cell does not fit its column, or no feature is left.
    """
    while label in table.columns or label in table.unread:
        label += "_"
    numbers = np.where(codes < 0, np.nan, codes)
    columns = table.columns | {label: Column.of_numbers(label, numbers)}
    whole = dataclasses.replace(table, columns=columns)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*: dropped ", UserWarning)  # warned about below
        fitted = fit_encoding(whole, label=label, categorical=categorical)
    if fitted.left_out:
        dropped = [f"{quoted(name)} ({why})" for name, why in fitted.left_out.items()]
        warnings.warn(
            f"{table.source}: dropped {few(dropped)}. {table.advice.dropped(fitted.left_out)}",
            UserWarning,
            stacklevel=4,  # at the call of fit
        )
    return dataclasses.replace(fitted, class_names=tuple(class_names))


def _check_names(source: Path, names: Sequence[str]) -> None:
    _check_different(source, names)
    check_names(source, names)


def _check_different(source: Path, names: Sequence[str]) -> None:
    check_different(
        source,
        names,
        expected="different column names",
        do="Rename or drop one of these columns.",
    )


def _is_pandas(x: object) -> bool:
    pandas = sys.modules.get("pandas")  # a pandas frame means that pandas is imported
    return pandas is not None and isinstance(x, pandas.DataFrame)


def _of_pandas(source: Path, name: str, column: Any) -> Any:
    """One column of pandas as an Arrow array; mixed objects as text."""
    arrow = arrow_module()
    try:
        return arrow.Array.from_pandas(column)
    except (arrow.ArrowException, OverflowError) as error:
        if column.dtype != object:
            sparse = hasattr(column, "sparse")
            convert = f"Convert the column. {PandasAdvice().columns}"
            raise DataError.of(
                source,
                expected=f"numbers or text in column {quoted(name)}",
                got=f"type {column.dtype}",
                do="Pass X.sparse.to_dense()." if sparse else convert,
            ) from error
        return arrow.array([None if is_missing(cell) else str(cell) for cell in column])


def _plain(table: Any) -> Any:
    """The table with categories and short texts decoded, and NaN as missing."""
    arrow = arrow_module()
    types, compute = arrow.types, arrow.compute
    columns = {}
    for name, values in zip(table.column_names, table.columns, strict=True):
        if types.is_dictionary(values.type):
            values = arrow.chunked_array([_decoded(chunk) for chunk in values.chunks])
        if types.is_string_view(values.type):
            values = values.cast(arrow.string())
        if types.is_floating(values.type):
            values = compute.if_else(compute.is_nan(values), None, values)
        if types.is_timestamp(values.type) and values.type.tz is None:
            values = _days(values)
        columns[name] = values
    return arrow.table(columns)


def _decoded(categories: Any) -> Any:
    """Categories as their values; texts as plain Arrow strings, since views cannot be looked up."""
    arrow = arrow_module()
    distinct = categories.dictionary
    if arrow.types.is_string_view(distinct.type):
        distinct = distinct.cast(arrow.string())
    return arrow.DictionaryArray.from_arrays(categories.indices, distinct).dictionary_decode()


def _days(values: Any) -> Any:
    """Times as days if all are midnight: pandas has no type for days."""
    arrow = arrow_module()
    days = values.cast(arrow.date32(), safe=False)
    return days if days.cast(values.type).equals(values) else values
