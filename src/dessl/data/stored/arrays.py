"""Arrays on disk: one or many ``.npy`` files, or raw bytes without a header."""

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dessl.data.errors import DataError
from dessl.data.features import feature_tensor
from dessl.data.formats.reading import FETCH_AGAIN
from dessl.data.formats.zipped import ArrayHeader, array_header
from dessl.data.stored.places import StoredFile, described
from dessl.data.stored.rows import StoredRows, block_ends, check_finite

IN_MEMORY = "an array in memory"
HEADER = 2**17  # bytes that hold any npy header that is read


class ArrayFiles(StoredRows):
    """Arrays (n, ...) in files, one after the other.

    uint8 images stay so, as (channels, height, width); all else becomes float32.

    Args:
        files: Files in the order of their rows.
        offsets: Bytes before the first row of each file.
        counts: Number of rows of each file.
        shape: Shape of one row in the files.
        dtype: Type of the numbers in the files.
        layout: Same as in :class:`dessl.SemiData`, for images.
    """

    def __init__(
        self,
        files: Sequence[StoredFile],
        offsets: Sequence[int],
        counts: Sequence[int],
        shape: tuple[int, ...],
        dtype: "np.dtype[Any]",
        layout: str | None = None,
    ) -> None:
        try:
            first = feature_tensor(files[0].name, np.zeros((1, *shape), dtype), layout=layout)
        except TypeError as error:  # the numbers come from a file, not from a call
            raise DataError(str(error)) from error
        self.files, self.offsets = list(files), list(offsets)
        self.source = files[0].name
        self.shape = tuple(first.shape[1:])
        self.dtype = np.dtype(np.uint8 if first.element_size() == 1 else np.float32)
        self.ends = block_ends(counts, self.row_bytes)
        self._layout = layout
        self._raw_shape, self._raw_dtype = shape, dtype
        self._starts = np.cumsum([0, *counts])
        self._as_is = dtype == self.dtype and dtype.isnative and first.is_contiguous()

    def read(self, start: int, stop: int, out: NDArray[Any]) -> None:
        """Read one stretch of one file, directly into place if nothing needs converting."""
        number = int(np.searchsorted(self._starts, start, side="right")) - 1
        file, first = self.files[number], start - int(self._starts[number])
        size = math.prod(self._raw_shape) * self._raw_dtype.itemsize
        offset = self.offsets[number] + first * size
        if self._as_is and out.flags.c_contiguous:
            file.read_into(offset, out.reshape(-1).view(np.uint8))
        else:
            raw = np.empty((stop - start, *self._raw_shape), self._raw_dtype)
            file.read_into(offset, raw.reshape(-1).view(np.uint8))
            if self.dtype == np.uint8:
                raw = feature_tensor(file.name, raw, layout=self._layout).numpy()
            with np.errstate(over="ignore"):  # numbers too large for float32 are found below
                out[:] = raw
        if self.dtype == np.float32:
            check_finite(out, first, file.name)

    def described(self) -> str:
        """Return names and sizes of the files."""
        return described(self.files)


class ArrayRows(StoredRows):
    """An array in the memory of the host, for a device that it would not fit on.

    Args:
        x: Same as in :class:`dessl.SemiData`.
        layout: Same as in :class:`dessl.SemiData`.
    """

    def __init__(self, x: NDArray[Any], layout: str | None = None) -> None:
        self._x = feature_tensor("the stored rows", x, layout=layout).numpy()
        self.source = IN_MEMORY
        self.shape, self.dtype = self._x.shape[1:], self._x.dtype
        self.ends = block_ends([len(self._x)], self.row_bytes)

    def read(self, start: int, stop: int, out: NDArray[Any]) -> None:
        """Copy the rows."""
        np.copyto(out, self._x[start:stop])

    def described(self) -> str:
        """Return the number of rows."""
        return f"{len(self._x)}"


def npy_files(files: Sequence[StoredFile], *, layout: str | None = None) -> ArrayFiles:
    """Return the rows of npy files; only their headers are read.

    Raises:
        DataError: A file is damaged, or its rows differ from those of the first.
    """
    offsets, counts = [], []
    first: tuple[tuple[int, ...], np.dtype[Any]] | None = None
    for file in files:
        path = Path(file.name)
        start = file.read(0, min(HEADER, file.size))
        header, offset = array_header(io.BytesIO(start), path)
        _check_whole(file, header, offset)
        shape = header.shape[1:]
        first = first or (shape, header.dtype)
        if (shape, header.dtype) != first:
            raise DataError.of(
                file.name,
                expected=f"rows of shape {first[0]} of {first[1]}, as {files[0].name} has",
                got=f"{shape} of {header.dtype}",
                do="Convert this file, or omit it.",
            )
        offsets.append(offset)
        counts.append(header.shape[0])
    assert first is not None  # noqa: S101 (files_at gives one at least)
    return ArrayFiles(files, offsets, counts, *first, layout)


def _check_whole(file: StoredFile, header: ArrayHeader, offset: int) -> None:
    stated = math.prod(header.shape) * header.dtype.itemsize
    if len(header.shape) < 2 or not stated or header.fortran:
        order = ", in Fortran order" if header.fortran else ""
        raise DataError.of(
            file.name,
            expected="an array (n, ...) of at least one row, in C order",
            got=f"shape {header.shape}{order}",
            do="Save one row for each sample, with numpy.save.",
        )
    if stated != file.size - offset:
        raise DataError.of(
            file.name,
            expected=f"{stated:,} bytes after the header, for shape {header.shape}",
            got=f"{file.size - offset:,}",
            do=FETCH_AGAIN,
        )


def raw_files(
    files: Sequence[StoredFile], shape: tuple[int, ...], dtype: str, *, layout: str | None = None
) -> ArrayFiles:
    """Return the rows of files of raw numbers.

    Raises:
        DataError: A file is empty, or has an incomplete row.
    """
    try:
        kind = np.dtype(dtype)
    except TypeError:  # no such type
        kind = np.dtype(object)
    if kind.kind not in "iuf" or not shape or min(shape) < 1:
        raise ValueError(
            f"raw files need the shape and number type of a row; got shape={shape!r} and "
            f"dtype={dtype!r}. Pass for example shape=(3, 32, 32), dtype='uint8'."
        )
    size = math.prod(shape) * kind.itemsize
    for file in files:
        if not file.size or file.size % size:
            raise DataError.of(
                file.name,
                expected=f"whole rows of {size:,} bytes, for shape {shape} of {kind}",
                got=f"{file.size:,} bytes",
                do="Check shape and dtype, or replace the file.",
            )
    counts = [file.size // size for file in files]
    return ArrayFiles(files, [0] * len(files), counts, shape, kind, layout)
