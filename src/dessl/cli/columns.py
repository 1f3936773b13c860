"""Columns of DATA that are not features: strata, groups, labelling probabilities.

Images have no columns: their groups are parts of their file names.
"""

import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dessl._checks import quoted
from dessl.cli.options import AS_IT_IS, Reading
from dessl.cli.output import say
from dessl.cli.sources import kind_of, nearest
from dessl.data import DataError, Part
from dessl.data.errors import few
from dessl.data.formats.cells import Column, numbers
from dessl.data.formats.tables import open_table
from dessl.data.formats.zipped import open_npz
from dessl.safety.propensity import ESTIMATES

EMPTY = "(empty)"  # name of a group of rows without a value
GAPS = ("", "nan")


def text_column(
    source: str, name: str, rows: Part, *, reading: Reading = AS_IT_IS
) -> NDArray[np.str_]:
    """A column of a table, or an array of an .npz file, as text."""
    return _texts(source, name, len(rows.y), reading)


def _texts(source: str, name: str, n_rows: int, reading: Reading) -> NDArray[np.str_]:
    values: Any = _column(source, name, n_rows, reading=reading)
    if isinstance(values, Column):
        values = values.cells.to_pylist() if values.numbers is None else values.numbers
    return np.asarray(["" if value is None else str(value) for value in values])


def group_names(
    source: str, name: str, rows: Part, *, reading: Reading = AS_IT_IS
) -> NDArray[np.str_]:
    """The group of each row by a column's value; rows without one are a group of their own."""
    texts = text_column(source, name, rows, reading=reading)
    return np.where(np.isin(texts, GAPS), EMPTY, texts)


def announced_groups(
    source: str,
    name: str,
    labelled: Tensor,
    row_names: Sequence[str | int] | None = None,
    *,
    reading: Reading = AS_IT_IS,
) -> Tensor:
    """The group number of each row, (n,), after printing how many groups there are.

    Args:
        source: DATA.
        name: The column of the groups; of images, a pattern of their file names.
        labelled: (n,) which rows have a label.
        row_names: The images' file names.
        reading: How a table is read.
    """
    found = _numbered(_group_texts(source, name, len(labelled), row_names, reading))
    every, known = (len(torch.unique(one)) for one in (found, found[labelled.cpu()]))
    say(f"{every:,} groups by {as_typed(name)}, {known:,} of them with a label.")
    return found


def _group_texts(
    source: str, name: str, n_rows: int, row_names: Sequence[str | int] | None, reading: Reading
) -> NDArray[np.str_]:
    """What rows of one group have in common, (n,), "" for a row without a group."""
    if kind_of(source) != "images":
        return _texts(source, name, n_rows, reading)
    return _parts_of_names(source, name, [str(row) for row in row_names or ()])


def as_typed(pattern: str) -> str:
    r"""A column or a pattern in quotes, with its backslashes as the user typed them.

    >>> print(as_typed(r"^p\d+"))
    '^p\d+'
    """
    return quoted(pattern).replace("\\\\", "\\")


def _parts_of_names(source: str, pattern: str, row_names: Sequence[str]) -> NDArray[np.str_]:
    """The part of each file name that a pattern matches: its first bracket, or all of it.

    Raises:
        DataError: The pattern is wrong, or matches no name.
    """
    files = [PurePosixPath(name).name for name in row_names]
    do = "For files named like p017_02.png, pass --group '^p[0-9]+'."
    try:
        matches = [re.search(pattern, name) for name in files]
    except re.error as error:
        expected = "a regular expression of file names in --group"
        raise DataError.of(
            source, expected=expected, got=f"{as_typed(pattern)}, {error}", do=do
        ) from error
    lost = [name for name, match in zip(files, matches, strict=True) if match is None]
    if len(lost) == len(files):
        raise DataError.of(
            source,
            expected=f"file names that match --group {as_typed(pattern)}; images have no columns",
            got=few([quoted(name) for name in files[:3]]) or "no file names",
            do=do,
        )
    if lost:
        warnings.warn(
            f"{source}: {len(lost):,} of {len(files):,} file names do not match "
            f"{as_typed(pattern)}, "
            f"such as {quoted(lost[0])}: each of these images counts as a group of its own.",
            UserWarning,
            stacklevel=2,
        )
    found = ["" if match is None else match[1 if match.re.groups else 0] for match in matches]
    return np.asarray([part or "" for part in found])


def _numbered(texts: NDArray[np.str_]) -> Tensor:
    _, numbers = np.unique(texts, return_inverse=True)
    n = len(texts)
    return torch.from_numpy(np.where(np.isin(texts, GAPS), n + np.arange(n), numbers))


class NamedRows(NamedTuple):
    """Rows, with the file they were read from and the names of images."""

    source: str
    rows: Part
    names: Sequence[str | int] | None

    def groups(self, name: str, reading: Reading) -> NDArray[np.str_]:
        """What rows of one group have in common, (n,)."""
        return _group_texts(self.source, name, len(self.rows.y), self.names, reading)

    def has_groups(self, name: str, reading: Reading) -> bool:
        """Whether there is such a column, or an image whose file name matches."""
        if kind_of(self.source) != "images":
            return _named(self.source, name, reading)[1] is not None
        files = (PurePosixPath(str(row)).name for row in self.names or ())
        return any(re.search(name, file) for file in files)


def groups_of_test(
    name: str, test: NamedRows, training: NamedRows, reading: Reading = AS_IT_IS
) -> Tensor:
    """The group numbers of test rows from a file, (n,), with a warning about known groups.

    Args:
        name: The column of the groups in both files; of images, a pattern of their file names.
        test: The test rows.
        training: All rows of DATA.
        reading: How both are read; the sheet is that of DATA.
    """
    groups, rows = test.groups(name, reading.for_file(test.source)), training.rows
    known = set(training.groups(name, reading)[rows.labelled.numpy()]) - set(GAPS)
    labelled = test.rows.labelled.numpy()
    if shared := int(np.isin(groups[labelled], sorted(known)).sum()):
        warnings.warn(
            f"{shared} of the {labelled.sum()} labelled test rows have a value of {quoted(name)} "
            "that labelled training rows have too: metrics on them are optimistic for new groups. "
            "Remove them from one of the two.",
            UserWarning,
            stacklevel=2,
        )
    return _numbered(groups)


def labelled_numbers(
    source: str, name: str, rows: Part, *, reading: Reading = AS_IT_IS
) -> NDArray[np.float64]:
    """A column of numbers; the cells of unlabelled rows may be empty."""
    texts = text_column(source, name, rows, reading=reading)
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
    source: str, name: str, n_rows: int, *, reading: Reading = AS_IT_IS
) -> NDArray[np.float64]:
    """Read each row's probability of being labelled, (n,), from a column or an npz array.

    Raises:
        DataError: There is no such column, or it is not numeric.
    """
    instead = "Or pass --propensity estimate-x or estimate-y."
    column = _column(source, name, n_rows, reading=reading, instead=instead)
    values = numbers(Path(source), column) if isinstance(column, Column) else column
    if values.dtype.kind != "f":
        raise DataError.of(
            source,
            expected=f"a number from 0 to 1 for each of the {n_rows} rows in {quoted(name)}",
            got=f"values of type {values.dtype}",
            do="Unlabelled rows may have an empty cell or NaN.",
        )
    return values


def _named(
    source: str, name: str, reading: Reading
) -> tuple[tuple[str, ...], Column | NDArray[Any] | None]:
    """The names of all columns or arrays, and the one of this name if there is one."""
    kind = kind_of(source)
    if kind == "table":
        table = open_table(source, **reading.options)
        return tuple(table.columns), table.columns.get(name)
    if kind == "npz":
        with open_npz(source) as arrays:
            return arrays.names, arrays.array(name) if name in arrays.names else None
    return (), None


def _column(
    source: str, name: str, n_rows: int, *, reading: Reading, instead: str = ""
) -> Column | NDArray[Any]:
    """A column of a table, or an array (n,) of an .npz file.

    Args:
        source: DATA.
        name: The column's name.
        n_rows: Rows of DATA, n.
        reading: How a table is read.
        instead: What to do if the data have no such column, added to the error message.

    Raises:
        DataError: There is no such column, or it has not one value for each row.
    """
    known, found = _named(source, name, reading)
    if found is None:
        do = nearest(name, known, otherwise="Check the name.")
        raise DataError.of(
            source,
            expected=f"a column {quoted(name)}",
            got=few([quoted(other) for other in known], most=20) or "data without columns",
            do=f"{do if known else 'Only tables and .npz files have columns.'} {instead}".rstrip(),
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
