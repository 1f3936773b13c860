"""Parquet files of numbers, a row group at a time."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dessl._checks import quoted
from dessl.data.errors import DataError, few
from dessl.data.formats.cells import arrow_module
from dessl.data.stored.places import StoredFile, described
from dessl.data.stored.rows import StoredRows, check_finite

GROUP = 2**31  # bytes of the largest row group, which is read at once


class ParquetRows(StoredRows):
    """Columns of numbers, and of lists of numbers of one length, side by side as float32.

    Args:
        files: Files with the same columns, in the order of their rows.
        columns: Columns to read, in this order; all by default.

    Raises:
        DataError: A file is damaged or differs from the first, or a column is not numeric.
    """

    def __init__(self, files: Sequence[StoredFile], columns: Sequence[str] | None = None) -> None:
        self.files, self.source = list(files), files[0].name
        self.dtype = np.dtype(np.float32)
        groups, self._groups = [], []
        first: Any = None
        for number, file in enumerate(files):
            schema, counts = _opened(file)
            first = first or schema
            self.columns = list(columns or first.names)
            _check_schema(file, schema, first, self.columns, self.source)
            _check_groups(file, counts, len(self.columns))
            groups += counts
            self._groups += [(number, k) for k in range(len(counts))]
        kept = [k for k, count in enumerate(groups) if count]
        self._groups = [self._groups[k] for k in kept]
        self.ends = np.cumsum([groups[k] for k in kept])
        if not kept:
            raise DataError.of(
                self.source, expected="at least one row", got="none", do="Check the files."
            )
        self.shape = self._group(0).shape[1:]

    def read(self, start: int, stop: int, out: NDArray[Any]) -> None:
        """Read a row group, or a part of one."""
        group = int(np.searchsorted(self.ends, start, side="right"))
        first = int(self.ends[group - 1]) if group else 0
        found = self._group(group)
        name = self.files[self._groups[group][0]].name
        if found.shape[1:] != self.shape or len(found) < stop - first:
            raise DataError.of(
                name,
                expected=f"rows of shape {self.shape}",
                got=f"{found.shape[1:]} in row group {self._groups[group][1]}",
                do="Make all lists of numbers of one length.",
            )
        out[:] = found[start - first : stop - first]
        check_finite(out, start, name)

    def described(self) -> str:
        """Return names and sizes of the files, and the columns."""
        return "\0".join([described(self.files), *self.columns])

    def _group(self, group: int) -> NDArray[np.float32]:
        arrow = arrow_module()
        number, k = self._groups[group]
        file = self.files[number]
        with file.reading(arrow.ArrowException, ValueError), file.opened() as opened:
            table = arrow.parquet.ParquetFile(opened).read_row_group(
                k, columns=self.columns, use_threads=False
            )
            table.validate(full=True)
        parts = [_numbers(file.name, name, table.column(name)) for name in self.columns]
        with np.errstate(over="ignore"):  # numbers too large for float32 are found when read
            return np.concatenate(parts, axis=1, dtype=np.float32, casting="unsafe")


def _opened(file: StoredFile) -> tuple[Any, list[int]]:
    """The schema of a file, and the rows of each of its row groups."""
    arrow = arrow_module()
    with file.reading(arrow.ArrowException, ValueError), file.opened() as opened:
        found = arrow.parquet.ParquetFile(opened)
        metadata = found.metadata
        counts = [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)]
        return found.schema_arrow, counts


def _check_groups(file: StoredFile, counts: Sequence[int], n_columns: int) -> None:
    """Refuse a row group that does not fit into memory: a few bytes can state billions of rows."""
    largest = max(counts, default=0) * n_columns * 4
    if largest > GROUP or min(counts, default=0) < 0:
        raise DataError.of(
            file.name,
            expected=f"row groups of at most {GROUP:,} bytes as float32",
            got=f"one of {largest:,}",
            do="Write the file again with smaller row groups (row_group_size=100_000 in pyarrow).",
        )


def _check_schema(
    file: StoredFile, schema: Any, first: Any, columns: Sequence[str], source: str
) -> None:
    absent = [name for name in columns if name not in schema.names]
    if absent:
        raise DataError.of(
            file.name,
            expected=f"the column(s) {few([quoted(name) for name in absent])}, as {source} has",
            got=few([quoted(name) for name in schema.names], most=20),
            do="Omit the file, or name other columns.",
        )
    for name in columns:
        kind = schema.field(name).type
        if kind != first.field(name).type or not _is_numbers(kind):
            raise DataError.of(
                file.name,
                expected=f"numbers in column {quoted(name)}, as {source} has"
                if kind != first.field(name).type
                else f"numbers, or lists of numbers, in column {quoted(name)}",
                got=f"{kind}",
                do="Pass columns=[...] with those of numbers; a table with text goes to dessl fit.",
            )


def _is_numbers(kind: Any) -> bool:
    types = arrow_module().types
    if types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind):
        kind = kind.value_type
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _numbers(source: str, name: str, column: Any) -> NDArray[Any]:
    """A column as (n, 1), or (n, width) for lists."""
    arrow = arrow_module()
    whole = column.combine_chunks()
    if isinstance(whole, arrow.ChunkedArray):
        whole = whole.chunk(0)
    width, n = 1, len(whole)
    values = whole
    if arrow.types.is_nested(whole.type):
        lengths = set(arrow.compute.list_value_length(whole).to_pylist())
        values, width = whole.flatten(), lengths.pop() if len(lengths) == 1 else 0
    if whole.null_count or values.null_count or not width:
        raise DataError.of(
            source,
            expected=f"a number in every cell of {quoted(name)}, and lists of one length",
            got="missing cells" if whole.null_count or values.null_count else "several lengths",
            do="Fill them in, or omit their rows.",
        )
    return np.asarray(values.to_numpy(zero_copy_only=False)).reshape(n, width)
