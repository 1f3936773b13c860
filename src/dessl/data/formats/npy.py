"""Embeddings: rows of numbers in npy files, joined column-wise, and their labels in another file.

The files are memory-mapped: one float32 file becomes data without a copy, several
files or other types become one float32 array, filled a few rows at a time.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dessl._checks import quoted
from dessl.data.errors import DataError, few
from dessl.data.formats.cells import numbers
from dessl.data.formats.columns import class_names as names_in_column
from dessl.data.formats.columns import label_counts, missing_marks
from dessl.data.formats.encoding import TableEncoding
from dessl.data.formats.npz import coded_labels, new_coded_labels
from dessl.data.formats.reading import (
    FETCH_AGAIN,
    MAX_BYTES,
    Labels,
    byte_count,
    check_limit,
    file_size,
    reading,
)
from dessl.data.formats.tables import Table, open_table
from dessl.data.formats.zipped import array_header, check_text
from dessl.data.labels import MISSING, warn_of_doubtful
from dessl.data.parts import Part, RawData

EXPECTED = "an npy file (an array saved with numpy.save)"
ROW = "row"  # column of a labels file with the row of each label
AT_ONCE = 2**22  # numbers checked or converted at once


def read_embeddings(
    paths: Sequence[str | Path],
    *,
    labels: str | Path,
    label: str | None = None,
    missing_labels: Collection[str] = (),
    ask: Callable[[dict[str, int]], Collection[str]] | None = None,
    text_encoding: str | None = None,
    missing: Collection[str] = (),
    max_bytes: int = MAX_BYTES,
) -> RawData:
    r"""Embeddings from one or several npy files, and their labels from a table or an npy file.

    A table of labels has one line for each row of the embeddings, in their order, with an empty
    cell for a missing label. Or it has a column ``row`` with row numbers from 0, as ``dessl
    predict`` writes them: then rows that are not listed are unlabelled.

    Args:
        paths: Arrays (n, columns) of float16, float32, float64 or whole numbers, all with the same
            number of rows; their columns are joined.
        labels: A table, see :func:`dessl.data.formats.tables.open_table`, or an npy file of class
            numbers (-1 or NaN for missing) or text ("" for missing).
        label: Name of the label column, for a table with several.
        missing_labels: Marks of a missing label, besides an empty cell.
        ask: Same as in :func:`dessl.data.formats.fitting.read_table`.
        text_encoding: Encoding of a table of labels; UTF-8 by default.
        missing: Marks of missing cells in a table of labels.
        max_bytes: Upper limit on the bytes of the float32 array.

    Raises:
        DataError: A file is missing, damaged or of another kind, a row is not finite, or the
            labels do not match the rows.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     vectors, labels = Path(folder) / "vectors.npy", Path(folder) / "labels.csv"
    ...     np.save(vectors, np.eye(4, dtype=np.float16))
    ...     _ = labels.write_text("row,animal\n2,cat\n0,dog\n")
    ...     data = read_embeddings([vectors], labels=labels)
    >>> data.x.dtype, data.y.tolist(), data.class_names
    (torch.float32, [1, -1, 0, -1], ('cat', 'dog'))
    """
    x = _side_by_side([Path(path) for path in paths], max_bytes)
    found = sparse_labels(
        labels,
        len(x),
        label=label,
        missing_labels=missing_labels,
        ask=ask,
        text_encoding=text_encoding,
        missing=missing,
    )
    y = np.full(len(x), MISSING, np.int64)
    y[found.rows] = found.y
    return RawData(Part.of_arrays(x, y), found.class_names)


class SparseLabels(NamedTuple):
    """The numbers of labelled rows, (n,), their classes, (n,), and all classes."""

    rows: Labels
    y: Labels
    class_names: tuple[str, ...]


def sparse_labels(
    labels: str | Path,
    n_rows: int,
    *,
    label: str | None = None,
    missing_labels: Collection[str] = (),
    ask: Callable[[dict[str, int]], Collection[str]] | None = None,
    text_encoding: str | None = None,
    missing: Collection[str] = (),
) -> SparseLabels:
    """Labels of rows of numbers, from a table or an npy file.

    Args:
        labels: Same as in :func:`read_embeddings`, like the arguments below.
        n_rows: Number of rows.
        label: Name of the label column.
        missing_labels: Marks of a missing label.
        ask: Decides which labels are such marks.
        text_encoding: Encoding of a table.
        missing: Marks of missing cells in a table.

    Raises:
        DataError: The file is bad, or does not match the rows.
    """
    source = Path(labels)
    if source.suffix.lower() == ".npy":
        y, names = coded_labels(source, _label_array(source, n_rows), None)
        warn_of_doubtful(names, where=f"{source}", do='save "" in its place')
        rows = np.arange(n_rows)
    else:
        table = open_table(source, text_encoding=text_encoding, missing=missing)
        column = _label_column(table, label)
        marks = missing_marks(label_counts(table, column, missing_labels), missing_labels, ask)
        names = names_in_column(table, column, missing=marks, asked=ask is not None)
        y = TableEncoding(column, names, (), missing_labels=marks).labels(table)
        rows = row_places(table, n_rows)
    labelled = y != MISSING
    return SparseLabels(rows[labelled], y[labelled], names)


def read_new_embeddings(
    paths: Sequence[str | Path],
    class_names: Sequence[str],
    *,
    labels: str | Path | None = None,
    label: str | None = None,
    text_encoding: str | None = None,
    missing: Collection[str] = (),
    max_bytes: int = MAX_BYTES,
) -> RawData:
    """Embeddings for a trained model: labels may be missing, and the classes are the model's.

    Args:
        paths: Same as in :func:`read_embeddings`.
        class_names: The model's classes, in its order.
        labels: Same as in :func:`read_embeddings`; None if every label is missing.
        label: Name of the label column, for a table with several.
        text_encoding: Encoding of a table of labels; UTF-8 by default.
        missing: Marks of missing cells in a table of labels.
        max_bytes: Upper limit on the bytes of the float32 array.

    Raises:
        DataError: A file is bad, or a label is not one of the classes.
    """
    x = _side_by_side([Path(path) for path in paths], max_bytes)
    y: Labels
    if labels is None:
        y = np.full(len(x), MISSING, np.int64)
    elif Path(labels).suffix.lower() == ".npy":
        found = _label_array(Path(labels), len(x))
        y = new_coded_labels(Path(labels), found, class_names, None)
    else:
        table = open_table(
            labels, text_encoding=text_encoding, missing=missing, max_bytes=max_bytes
        )
        encoding = TableEncoding(_label_column(table, label), tuple(class_names), ())
        y = np.full(len(x), MISSING, np.int64)
        y[row_places(table, len(x))] = encoding.labels(table)
    return RawData(Part.of_arrays(x, y), tuple(class_names))


def _side_by_side(paths: Sequence[Path], max_bytes: int) -> NDArray[np.float32]:
    """The columns of all files as float32 (n, columns): the file's own memory if possible."""
    parts = [_mapped(path) for path in paths]
    for path, part in zip(paths, parts, strict=True):
        _check_matrix(path, part)
        if len(part) != len(parts[0]):
            raise DataError.of(
                path,
                expected=f"{len(parts[0]):,} rows, as {paths[0]} has",
                got=f"{len(part):,}",
                do="Pass files with the same rows in the same order.",
            )
    shape = (len(parts[0]), sum(part.shape[1] for part in parts))
    check_limit(paths[0], byte_count(shape, 4), max_bytes)
    first = parts[0]
    if len(parts) == 1 and first.dtype == np.float32 and first.flags.c_contiguous:
        _check_finite(paths[0], first)
        return first
    x = np.empty(shape, np.float32)
    start = 0
    for path, part in zip(paths, parts, strict=True):
        columns = x[:, start : start + part.shape[1]]
        for rows in _blocks(part):
            with np.errstate(over="ignore"):  # numbers too large for float32 are found below
                columns[rows] = part[rows]
        _check_finite(path, columns)
        start += part.shape[1]
    return x


def _mapped(path: Path) -> NDArray[Any]:
    """An array over a file's own bytes; nothing is read but the header."""
    size = file_size(path, EXPECTED)
    with reading(path, EXPECTED, ValueError):
        with path.open("rb") as file:
            header, start = array_header(file, path)
        stated = byte_count(header.shape, header.dtype.itemsize)
        if stated == 0 or stated != size - start:
            expected = f"{stated:,} bytes after the header, for shape {header.shape}"
            raise DataError.of(
                path,
                expected=expected if stated else f"an array with rows; its shape is {header.shape}",
                got=f"{size - start:,} bytes",
                do=FETCH_AGAIN,
            )
        order: Literal["F", "C"] = "F" if header.fortran else "C"
        return np.memmap(path, header.dtype, "r", start, header.shape, order)


def _check_matrix(path: Path, part: NDArray[Any]) -> None:
    if part.ndim != 2 or part.dtype.kind not in "iuf":
        raise DataError.of(
            path,
            expected="numbers, one row for each sample, shape (n, columns)",
            got=f"{part.dtype} of shape {part.shape}",
            do="Save one vector for each row; images go into an .npz file or a folder.",
        )


def _check_finite(path: Path, x: NDArray[np.float32]) -> None:
    """Refuse numbers that are not finite in float32, naming their rows."""
    bad = np.concatenate([~np.isfinite(x[rows]).all(1) for rows in _blocks(x)])
    found = np.flatnonzero(bad)
    if len(found):
        raise DataError.of(
            path,
            expected="finite numbers that float32 can hold",
            got=f"NaN, infinity or more than 3e38 in {len(found):,} of {len(x):,} rows: "
            f"{few([str(row) for row in found])}",
            do="Correct these rows, counted from 0, or leave them out, with their labels.",
        )


def _blocks(part: NDArray[Any]) -> Iterator[slice]:
    step = max(1, AT_ONCE // part.shape[1])
    return (slice(start, start + step) for start in range(0, len(part), step))


def _label_array(path: Path, n_rows: int) -> NDArray[Any]:
    """The labels of an npy file, of numbers or text."""
    array = np.array(_mapped(path))
    if array.dtype.kind == "U":
        check_text(path, "the labels", array)
    _check_count(path, len(array), n_rows)
    return array


def _label_column(table: Table, label: str | None) -> str:
    names = [*table.columns, *table.unread]
    others = [name for name in names if name != ROW]
    if label is None and len(others) == 1:
        label = others[0]
    if label is None or label not in table.columns:
        raise DataError.of(
            table.source,
            expected="the labels in its only column"
            if label is None
            else f"a column {quoted(label)}",
            got=f"the columns {few([quoted(name) for name in names], most=20)}",
            do="Which column has the labels? Pass --label NAME (label= in Python).",
        )
    return label


def row_places(table: Table, n_rows: int, *, what: str = "labels") -> Labels:
    """Return the row of each line of a table, in its order or from its column ``row``.

    Args:
        table: Table of labels or answers.
        n_rows: Number of rows.
        what: What there must be as many of, for an error.

    Raises:
        DataError: There are more or fewer lines than rows, or row numbers that do not exist.
    """
    if ROW not in table.columns:
        _check_count(table.source, len(table), n_rows, what)
        return np.arange(n_rows)
    rows = numbers(table.source, table.columns[ROW])
    right = (rows >= 0) & (rows < n_rows) & (rows == np.floor(rows))
    first = np.zeros(len(rows), np.bool_)
    first[np.unique(rows, return_index=True)[1]] = True
    if not (right & first).all():
        line = int(np.flatnonzero(~(right & first))[0])
        raise DataError.of(
            table.source,
            expected=f"in column {quoted(ROW)} different row numbers from 0 to {n_rows - 1}",
            got=f"{table.columns[ROW].cell(line)} in data row {line + 1}",
            do="Correct it, or rename the column if it has no row numbers.",
        )
    return rows.astype(np.int64)


def _check_count(path: Path, n_labels: int, n_rows: int, what: str = "labels") -> None:
    if n_labels != n_rows:
        header = " The first line of a table names its columns." * (n_labels == n_rows - 1)
        raise DataError.of(
            path,
            expected=f"{n_rows:,} {what}, one for each row of the embeddings",
            got=f"{n_labels:,}",
            do=f"Leave the cell of a row without one empty, or add a column {quoted(ROW)} with the "
            f"numbers, from 0, of the rows that have one.{header}",
        )
