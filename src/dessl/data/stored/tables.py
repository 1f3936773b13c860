"""A CSV or Parquet table that is larger than memory: read in blocks, the rest encoded once on disk.

The table is read three times, some megabytes at a time: to count its labels; to take the labelled
rows and a random sample of the others, on which the encoding is fitted; and, only if a network
draws from them, to encode all other rows into one float32 file, written atomically. Its sha256 is
stored with it: a file that is damaged, or from another table, is written again.
"""

import dataclasses
import hashlib
import io
import json
import os
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dessl._checks import quoted
from dessl._files import alone, file_sha256, naming, neighbour, sweep, write_whole
from dessl.data.errors import DataError, did_you_mean, few
from dessl.data.formats.cells import arrow_module, numeric_share
from dessl.data.formats.columns import MAX_CLASSES, NO_CLASSES, as_text, missing_marks
from dessl.data.formats.encoding import TableEncoding
from dessl.data.formats.fitting import encoded_table, fit_encoding
from dessl.data.formats.identifiers import numbering
from dessl.data.formats.tables import Table, as_table, table_blocks
from dessl.data.parts import RawData
from dessl.data.stored.arrays import npy_files
from dessl.data.stored.places import CHANGED, files_at
from dessl.data.stored.rows import StoredRows, block_ends

SAMPLE = 50_000  # unlabelled rows that are kept in memory, for teachers and the audit
MOST_LABELLED = 1_000_000  # which are kept in memory


class LargeTable(NamedTuple):
    """The labelled rows and a sample of the others, and the rest.

    Attributes:
        raw: Features and labels of the rows in memory.
        encoding: How the table became features, for later tables.
        rest: The other unlabelled rows.
    """

    raw: RawData
    encoding: TableEncoding
    rest: "TableRows"


def read_large_table(
    path: str | Path,
    *,
    label: str,
    place: Path,
    categorical: Collection[str] = (),
    ignore: Collection[str] = (),
    missing_labels: Collection[str] = (),
    ask: Callable[[dict[str, int]], Collection[str]] | None = None,
    delimiter: str | None = None,
    text_encoding: str | None = None,
    missing: Collection[str] = (),
    sample: int = SAMPLE,
    seed: int = 0,
) -> LargeTable | None:
    """A table that need not fit in memory; None if no more than a sample is unlabelled.

    Args:
        path: A CSV or Parquet file.
        label: Name of the label column, see :func:`dessl.data.formats.fitting.read_table`.
        place: Folder for the file of encoded rows, if they are needed.
        categorical: Numeric columns to treat as categories.
        ignore: Columns to drop.
        missing_labels: Marks of a missing label, besides an empty cell.
        ask: Decides which labels are such marks.
        delimiter: Delimiter of a CSV; guessed by default.
        text_encoding: Encoding of a CSV, such as cp1252; UTF-8 by default.
        missing: Marks of missing cells in any column, besides empty cells.
        sample: Unlabelled rows to keep in memory, drawn completely at random.
        seed: Seed of the sample.

    Raises:
        DataError: The file is bad, a cell does not fit its column, or there are more labelled rows
            than should be kept in memory.
    """
    path = Path(path)
    read = _Read(path, delimiter, text_encoding, tuple(missing))
    counts = _label_counts(read, label)
    marks = missing_marks({k: n for k, n in counts.items() if k}, missing_labels, ask)
    no_label = {"", *marks}
    unlabelled = sum(counts[mark] for mark in no_label)
    labelled = counts.total() - unlabelled
    if unlabelled <= sample:
        return None
    if labelled > MOST_LABELLED:
        raise DataError.of(
            path,
            expected=f"at most {MOST_LABELLED:,} labelled rows, which are kept in memory, in a "
            "table that is read in blocks",
            got=f"{labelled:,}",
            do="Pass --no-stream to read all of it into memory.",
        )
    drawn = np.random.default_rng(seed).choice(unlabelled, sample, replace=False)
    kept = np.zeros(unlabelled, np.bool_)
    kept[drawn] = True
    table = as_table(path, _kept_rows(read, label, no_label, kept)).without(missing)
    dropped = _numbering_columns(read, {label, *ignore, *categorical})
    encoding = fit_encoding(
        table,
        label=label,
        categorical=categorical,
        ignore=[*ignore, *dropped],
        missing_labels=marks,
        missing=missing,
        text_encoding=text_encoding,
    )
    encoding = dataclasses.replace(encoding, left_out={**encoding.left_out, **dropped})
    rest = TableRows(path, encoding, place, kept, delimiter)
    return LargeTable(encoded_table(table, encoding), encoding, rest)


class _Read(NamedTuple):
    """A table, and how it is read."""

    path: Path
    delimiter: str | None
    text_encoding: str | None
    missing: tuple[str, ...]

    def arrow_blocks(self, columns: list[str] | None = None) -> Iterator[Any]:
        """Arrow tables, with the marks of missing cells."""
        return table_blocks(
            self.path, columns=columns, delimiter=self.delimiter, text_encoding=self.text_encoding
        )

    def blocks(self, columns: list[str] | None = None) -> Iterator[tuple[Any, Table]]:
        """The same, and as columns without these marks."""
        for block in self.arrow_blocks(columns):
            if block.num_rows:
                yield block, as_table(self.path, block).without(self.missing)


def _labels_of(table: Table, label: str) -> tuple[list[str], NDArray[np.int64]]:
    """The different labels of a block, and which of them each row has."""
    column = as_text(table.columns[label])
    return column.texts.to_pylist(), column.codes


def _label_counts(read: _Read, label: str) -> Counter[str]:
    """Count of each label, "" for a missing one."""
    path = read.path
    first = next(iter(read.arrow_blocks()), None)
    names = [] if first is None else first.column_names
    if label not in names:
        raise DataError.of(
            path,
            expected=f"a column {quoted(label)}",
            got=few([quoted(name) for name in names], most=20) or "no rows",
            do=did_you_mean(label, names) or "Check the name.",
        )
    counts: Counter[str] = Counter()
    for _, table in read.blocks([label]):
        if label not in table.columns:
            raise DataError.of(
                path,
                expected=f"numbers or text in column {quoted(label)}",
                got=f"type {table.unread[label]}",
                do="Convert the column.",
            )
        texts, codes = _labels_of(table, label)
        rows = np.bincount(codes, minlength=len(texts)).tolist()
        counts.update(dict(zip(texts, rows, strict=True)))
        if len(counts) > 10 * MAX_CLASSES:
            raise DataError.of(
                path,
                expected=f"2 to {MAX_CLASSES} classes in the label column {quoted(label)}",
                got=f"more than {10 * MAX_CLASSES:,}",
                do=NO_CLASSES,
            )
    return counts


def _without_label(table: Table, label: str, missing: Collection[str]) -> NDArray[np.bool_]:
    """Which rows of a block have no label, (n,)."""
    texts, codes = _labels_of(table, label)
    found: NDArray[np.bool_] = np.array([text in missing for text in texts])[codes]
    return found


def _kept_rows(read: _Read, label: str, missing: Collection[str], kept: NDArray[np.bool_]) -> Any:
    """The labelled rows and the unlabelled ones that are kept, in the order of the file."""
    arrow = arrow_module()
    parts, done = [], 0
    for block, table in read.blocks():
        unlabelled = _without_label(table, label, missing)
        count = int(unlabelled.sum())
        wanted = ~unlabelled
        wanted[unlabelled] = _checked(read.path, kept[done : done + count], count)
        parts.append(block.filter(arrow.array(wanted)))
        done += count
    return arrow.concat_tables(parts)


def _checked(path: Path, part: NDArray[np.bool_], count: int) -> NDArray[np.bool_]:
    """A part of the rows' marks; refuse a file with more rows than before."""
    if len(part) != count:
        raise DataError.of(
            path,
            expected="the same number of rows each time it is read",
            got="another",
            do=CHANGED,
        )
    return part


def _numbering_columns(read: _Read, but: Collection[str]) -> dict[str, str]:
    """Columns that tell the rows apart, which a sample of the rows may not show, and why."""
    found = {}
    _, first = next(read.blocks())  # enough to tell
    for name, column in first.columns.items():
        if name in but or numeric_share(column) < 1:
            continue
        values = column.numbers
        if values is None:
            parsed = column.parsed()
            values = parsed.values[parsed.rows]
        if (why := numbering(values[~np.isnan(values)])) is not None:
            found[name] = why
    if found:
        texts = [f"{quoted(name)}: {why}" for name, why in found.items()]
        warnings.warn(
            f"{read.path}: dropped {few(texts)}. {first.advice.dropped(found)}",
            UserWarning,
            stacklevel=4,
        )
    return found


class TableRows(StoredRows):
    """Unlabelled rows of a table, encoded into a file before the first of them is read.

    Args:
        path: The table.
        encoding: Encoding of its columns and labels.
        place: Folder for the file.
        left_out: Which unlabelled rows are in memory instead, (unlabelled,).
        delimiter: Delimiter of a CSV; guessed by default.
    """

    def __init__(
        self,
        path: Path,
        encoding: TableEncoding,
        place: Path,
        left_out: NDArray[np.bool_],
        delimiter: str | None,
    ) -> None:
        self.path, self.encoding = path, encoding
        self._left_out, self._delimiter = left_out, delimiter
        self.source, self.dtype = str(path), np.dtype(np.float32)
        self.shape = (len(encoding.feature_names),)
        self.ends = block_ends([len(left_out) - int(left_out.sum())], self.row_bytes)
        name = hashlib.sha256(self.described().encode()).hexdigest()[:16]
        self.place = place / f"rows-{name}.npy"
        self._sum = self.place.with_suffix(".json")
        self._file: StoredRows | None = None

    def prepare(self) -> None:
        """Write the file of encoded rows unless an intact one exists; several ranks write one."""
        if self._file is None:
            if not self._is_whole():
                with alone(self.place):
                    if not self._is_whole():
                        self._write_again()
            self._file = npy_files(files_at(self.place, (".npy",)))

    def read(self, start: int, stop: int, out: NDArray[Any]) -> None:
        """Read encoded rows."""
        self.prepare()
        assert self._file is not None  # noqa: S101 (prepared)
        self._file.read(start, stop, out)

    def described(self) -> str:
        """Return the table's name and size, its encoding and what is left out."""
        encoding = json.dumps(self.encoding.as_dict(), sort_keys=True)
        sample = hashlib.sha256(np.packbits(self._left_out).data).hexdigest()
        return f"{self.path.name}\0{self.path.stat().st_size}\0{encoding}\0{sample}"

    def identity(self) -> str:
        """Return a sha256 of the description: no row is encoded for it."""
        return hashlib.sha256(self.described().encode()).hexdigest()

    def remove(self) -> None:
        """Remove the file; it is written again if a row is read."""
        self._file = None
        self.place.unlink(missing_ok=True)
        self._sum.unlink(missing_ok=True)

    def _is_whole(self) -> bool:
        """Whether the file is there, and of this table to the last byte."""
        try:
            noted = json.loads(self._sum.read_bytes())
            found = file_sha256(self.place)
        except (OSError, ValueError, RecursionError):
            return False
        return bool(noted == {"of": self.identity(), "sha256": found})

    def _write_again(self) -> None:
        """Write the file and its sha256, in the place of one that is not whole."""
        if self.place.exists() and self._sum.exists():
            warnings.warn(
                f"{self.place} is damaged, or not made from {self.path}. It is written again.",
                UserWarning,
                stacklevel=2,
            )
        sweep(self._sum)
        self._sum.unlink(missing_ok=True)
        noted = {"of": self.identity(), "sha256": self._write()}
        write_whole(self._sum, json.dumps(noted) + "\n")

    def _write(self) -> str:
        """Write the encoded rows and return the sha256 of the file."""
        size, folder = len(self) * self.row_bytes, self.place.parent
        sweep(self.place)
        if (free := shutil.disk_usage(folder).free) < size:
            raise DataError.of(
                self.path,
                expected=f"room for its {len(self):,} encoded rows in {folder}, {size:,} bytes",
                got=f"{free:,} bytes free",
                do="Free some, or choose an --out on another disk.",
            )
        temporary, header = neighbour(self.place), io.BytesIO()
        shape = {"descr": "<f4", "fortran_order": False, "shape": (len(self), *self.shape)}
        np.lib.format.write_array_header_2_0(header, shape)
        digest = hashlib.sha256()
        try:
            with temporary.open("xb") as file, naming(self.place):
                for part in chain(
                    [header.getbuffer()], (x.reshape(-1).data for x in self._encoded())
                ):
                    file.write(part)
                    digest.update(part)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.place)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        return digest.hexdigest()

    def _encoded(self) -> Iterator[NDArray[np.float32]]:
        """The features of the rows, block by block, with one warning in place of many."""
        missing = {"", *self.encoding.missing_labels}
        row = done = count = 0
        messages: list[str] = []
        how = _Read(self.path, self._delimiter, self.encoding.text_encoding, self.encoding.missing)
        for block, table in how.blocks():
            unlabelled = _without_label(table, self.encoding.label, missing)
            n = int(unlabelled.sum())
            unlabelled[unlabelled] = ~_checked(self.path, self._left_out[done : done + n], n)
            done += n
            part = block.filter(arrow_module().array(unlabelled))
            if part.num_rows:
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    x = self._features(part, row)
                yield x
                messages += [str(one.message) for one in caught]
                count += part.num_rows
            row += block.num_rows
        _checked(self.path, self._left_out, done)
        if messages:
            warnings.warn(
                f"{messages[0]} {len(messages) - 1} more such notes on {count:,} rows are omitted."
                if len(messages) > 1
                else messages[0],
                UserWarning,
                stacklevel=2,
            )

    def _features(self, part: Any, row: int) -> NDArray[np.float32]:
        try:
            return np.ascontiguousarray(self.encoding.features(as_table(self.path, part)), "<f4")
        except DataError as error:
            raise DataError(
                f"{error} Rows are counted from data row {row + 1:,} on, without those that have a "
                "label or are in memory."
            ) from error
