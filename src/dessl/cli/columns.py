"""Columns of DATA that are not features: strata, groups, labelling probabilities."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dessl._checks import quoted
from dessl.cli.options import AS_IT_IS, Reading
from dessl.cli.sources import kind_of, nearest
from dessl.data import DataError, Part
from dessl.data.errors import few
from dessl.data.formats.cells import Column, numbers
from dessl.data.formats.image_table import images_of_table
from dessl.data.formats.tables import Table, open_table
from dessl.data.formats.zipped import open_npz
from dessl.safety.propensity import ESTIMATES


class Beside(NamedTuple):
    """A table about the images of DATA (``--labels``), and the names of the images."""

    labels: str
    names: Sequence[str | int]

    def table(self, reading: Reading) -> Table:
        """Its columns, with a row for each image."""
        names = [str(name) for name in self.names]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they were given when the labels were read
            return images_of_table(self.labels, names, **reading.options)


EMPTY = "(empty)"  # name of a group of rows without a value
GAPS = ("", "nan")


def texts_of(
    source: str,
    name: str,
    n_rows: int,
    reading: Reading = AS_IT_IS,
    *,
    beside: Beside | None = None,
) -> NDArray[np.str_]:
    """A column of a table, or an array of an .npz file, as text, (n_rows,); "" for no value."""
    values: Any = _column(source, name, n_rows, reading=reading, beside=beside)
    if isinstance(values, Column):
        values = values.cells.to_pylist() if values.numbers is None else values.numbers
    return np.asarray(["" if value is None else str(value) for value in values])


def group_names(
    source: str,
    name: str,
    rows: Part,
    *,
    reading: Reading = AS_IT_IS,
    beside: Beside | None = None,
) -> NDArray[np.str_]:
    """The group of each row by a column's value; rows without one are a group of their own."""
    texts = texts_of(source, name, len(rows.y), reading, beside=beside)
    return np.where(np.isin(texts, GAPS), EMPTY, texts)


def labelled_numbers(
    source: str,
    name: str,
    rows: Part,
    *,
    reading: Reading = AS_IT_IS,
    beside: Beside | None = None,
) -> NDArray[np.float64]:
    """A column of numbers; the cells of unlabelled rows may be empty."""
    texts = texts_of(source, name, len(rows.y), reading, beside=beside)
    known = rows.labelled.numpy()
    values = np.full(len(texts), np.nan)
    try:
        values[known] = texts[known].astype(np.float64)
    except ValueError as error:
        raise DataError.of(
            source,
            expected=f"a number in {quoted(name)} for each labelled row",
            got=str(error),
            do="Enter each labelled row's probability of being labelled.",
        ) from error
    return values


def propensity_column(
    source: str,
    name: str,
    n_rows: int,
    *,
    reading: Reading = AS_IT_IS,
    beside: Beside | None = None,
) -> NDArray[np.float64]:
    """Read each row's probability of being labelled, (n,), from a column or an npz array.

    Raises:
        DataError: There is no such column, or it is not numeric.
    """
    instead = "Or pass --propensity estimate-x or estimate-y."
    column = _column(source, name, n_rows, reading=reading, beside=beside, instead=instead)
    values = numbers(Path(source), column) if isinstance(column, Column) else column
    if values.dtype.kind != "f":
        raise DataError.of(
            source,
            expected=f"a number from 0 to 1 for each of the {n_rows} rows in {quoted(name)}",
            got=f"values of type {values.dtype}",
            do="Unlabelled rows may have an empty cell or NaN.",
        )
    return values


def named_column(
    source: str, name: str, reading: Reading, beside: Beside | None = None
) -> tuple[tuple[str, ...], Column | NDArray[Any] | None]:
    """The names of all columns or arrays, and the one of this name if there is one."""
    kind = kind_of(source)
    if kind == "table" or beside is not None:
        table = open_table(source, **reading.options) if beside is None else beside.table(reading)
        return tuple(table.columns), table.columns.get(name)
    if kind == "npz":
        with open_npz(source) as arrays:
            return arrays.names, arrays.array(name) if name in arrays.names else None
    return (), None


def _column(
    source: str,
    name: str,
    n_rows: int,
    *,
    reading: Reading,
    beside: Beside | None = None,
    instead: str = "",
) -> Column | NDArray[Any]:
    """A column of a table, or an array (n,) of an .npz file.

    Args:
        source: DATA.
        name: The column's name.
        n_rows: Rows of DATA, n.
        reading: How a table is read.
        beside: The table about images that has the column.
        instead: What to do if the data have no such column, added to the error message.

    Raises:
        DataError: There is no such column, or it has not one value for each row.
    """
    known, found = named_column(source, name, reading, beside)
    if found is None:
        do = nearest(name, known, otherwise="Check the name.")
        raise DataError.of(
            source if beside is None else beside.labels,
            expected=f"a column {quoted(name)}",
            got=few([quoted(other) for other in known], most=20) or "data without columns",
            do=f"{do if known else _where_columns_are(source)} {instead}".rstrip(),
        )
    shape = (len(found),) if isinstance(found, Column) else found.shape
    if shape != (n_rows,):
        raise DataError.of(
            source,
            expected=f"one value in {quoted(name)} for each of the {n_rows} rows",
            got=f"shape {shape}",
            do="Pass one value for each row.",
        )
    return found


def _where_columns_are(source: str) -> str:
    if kind_of(source) == "images":
        return "Images have columns in a table with their file names: pass --labels FILE."
    return "Only tables and .npz files have columns."


def ignored(source: str, options: Mapping[str, Any]) -> list[str]:
    """The columns to drop: those of --ignore and, in a table, those of groups and propensities.

    Args:
        source: DATA.
        options: Options of the command by name: ``label``, ``categorical``, ``ignore``, ``group``
            and, if it has one, ``propensity``.

    Raises:
        ValueError: A column of groups or propensities is also the label or a categorical column.
    """
    found = list(options["ignore"] or ())
    if kind_of(source) != "table":
        return found
    given = {"--group": options["group"], "--propensity": options.get("propensity")}
    apart = {name: at for at, name in given.items() if name and name not in ESTIMATES}
    for name, at in apart.items():
        taken = {"--label": [options["label"]], "--categorical": options["categorical"] or ()}
        for other, names in taken.items():
            if name in names:
                raise ValueError(
                    f"{at} must name a column that is neither the label nor a feature; got "
                    f"{quoted(name)}, which {other} names too. Pass another column, or omit {at}."
                )
    return [*found, *(name for name in apart if name not in found)]
