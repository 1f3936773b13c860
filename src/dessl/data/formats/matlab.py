"""Arrays of numbers in MATLAB 5 files (save -v6 or -v7), every size checked before it is used.

A header of 128 bytes, then elements: a tag (type and number of bytes) with its data, padded to
8 bytes. An array is an element of four others: flags, dimensions, name, values; its bytes may be
compressed with zlib. SciPy reads these files too, but 272 bytes are enough for it to crash.
"""

import struct
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dessl._checks import quoted
from dessl.data.errors import DataError
from dessl.data.formats.reading import (
    CHUNK,
    FETCH_AGAIN,
    MAX_BYTES,
    ByteSource,
    byte_count,
    check_deflated,
    check_limit,
    exact_bytes,
    file_size,
    fill,
    reading,
)

HEADER, VERSION = 128, 0x0100
MATRIX, COMPRESSED = 14, 15
# Types of stored values; MATLAB's classes of numbers, and its other classes.
STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4"}
STORED |= {7: "f4", 9: "f8", 12: "i8", 13: "u8"}
NUMBERS = dict(enumerate(("f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"), start=6))
OTHERS = dict(enumerate(("cells", "a structure", "an object", "text", "a sparse array"), start=1))
COMPLEX = 0x0800
MAX_DIMENSIONS, MAX_NAME = 32, 4096
EXPECTED = "a MATLAB 5 file"


class _Tag(NamedTuple):
    kind: int
    size: int
    small: bytes | None  # data of at most four bytes, which the tag itself contains


class _Inflated:
    """The uncompressed bytes of a zlib stream of a given length."""

    def __init__(self, source: ByteSource, compressed: int) -> None:
        self._source, self._left, self._zlib = source, compressed, zlib.decompressobj()

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes, none at the end."""
        while not self._zlib.eof:
            piece = self._zlib.unconsumed_tail
            if not piece and self._left:
                piece = self._source.read(min(self._left, CHUNK))
                self._left -= len(piece)
            found = self._zlib.decompress(piece, size)
            if found:
                return found
            if not piece:
                raise zlib.error("incomplete compressed data")
        return b""

    def end(self, path: Path) -> None:
        """Refuse more than padding up to the end, where zlib verifies its checksum."""
        rest = 0
        while piece := self.read(8):
            rest += len(piece)
            if rest > 7:
                raise _damaged(path, "more bytes than its header states")


def read_matlab(
    path: str | Path, names: Collection[str], *, max_bytes: int = MAX_BYTES
) -> dict[str, NDArray[Any]]:
    """Some arrays of a MATLAB 5 file.

    Args:
        path: The file.
        names: Names of the arrays to read, which must be real numbers; others are skipped.
        max_bytes: Upper limit on the bytes of one array.

    Returns:
        Each array in the type and shape that MATLAB shows, with the first index fastest.

    Raises:
        DataError: The file is missing, damaged or of another version, or an array is missing or
            does not contain real numbers.

    >>> import tempfile, scipy.io
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     scipy.io.savemat(f"{folder}/a.mat", {"X": np.eye(2), "y": np.uint8([3, 1])})
    ...     read_matlab(f"{folder}/a.mat", ["y"])
    {'y': array([[3, 1]], dtype=uint8)}
    """
    path = Path(path)
    size = file_size(path, EXPECTED)
    found: dict[str, NDArray[Any]] = {}
    with reading(path, EXPECTED, zlib.error, ValueError), path.open("rb") as file:
        order = _byte_order(file.read(HEADER), path)
        while set(names) - found.keys() and file.tell() < size:
            tag = _tag(file, order, path)
            start, left = file.tell(), size - file.tell()
            if tag.kind not in (MATRIX, COMPRESSED) or tag.size > left:
                raise _damaged(path, f"an element of type {tag.kind} and {tag.size:,} bytes")
            if tag.kind == MATRIX:
                found |= _Matrix(file, tag.size, order, path, max_bytes).read(names)
            else:
                stream = _Inflated(file, tag.size)
                inner = _tag(stream, order, path)
                check_deflated(path, inner.size, tag.size)
                if inner.kind != MATRIX:
                    raise _damaged(path, f"an element of type {inner.kind} instead of an array")
                some = _Matrix(stream, inner.size, order, path, max_bytes).read(names)
                if some:
                    stream.end(path)
                found |= some
            file.seek(start + tag.size)  # an array's size is a multiple of 8
    for name in names:
        if name not in found:
            raise DataError.of(
                path,
                expected=f"an array {quoted(name)}",
                got="none of that name",
                do="Check that the file is of the right data set.",
            )
    return found


class _Matrix:
    """One array element, whose parts are read in order and never beyond its end."""

    def __init__(
        self, source: ByteSource, size: int, order: str, path: Path, max_bytes: int
    ) -> None:
        self.source, self.left, self.order = source, size, order
        self.path, self.max_bytes = path, max_bytes

    def read(self, names: Collection[str]) -> dict[str, NDArray[Any]]:
        """The array by its name; nothing if it is not one of the names."""
        flags = self._numbers("u4", 2)
        if len(flags) != 2:
            raise _damaged(self.path, f"{len(flags)} flags of an array")
        kind = int(flags[0]) & 0xFF
        if kind not in NUMBERS and kind not in OTHERS:  # no dimensions follow
            return {}
        shape = tuple(map(int, self._numbers("i4", MAX_DIMENSIONS)))
        name = self._numbers("i1", MAX_NAME).tobytes().decode("latin-1")
        if len(shape) < 2 or min(shape) < 0:
            raise _damaged(self.path, f"an array of shape {shape}")
        if name not in names:
            return {}
        if kind in OTHERS or int(flags[0]) & COMPLEX:
            raise DataError.of(
                self.path,
                expected=f"real numbers in {quoted(name)}",
                got=OTHERS.get(kind, "complex numbers"),
                do="Check that the file is of the right data set.",
            )
        values = self._values(name, shape, np.dtype(NUMBERS[kind]))
        return {name: values.reshape(shape, order="F")}

    def _values(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """The values in the file's order; a file may store them in a smaller type."""
        tag = self._tag()
        stored = self._type(tag)
        if byte_count(shape, stored.itemsize) != tag.size:
            raise _damaged(self.path, f"{tag.size:,} bytes for {quoted(name)} of shape {shape}")
        check_limit(self.path, byte_count(shape, dtype.itemsize), self.max_bytes)
        if tag.small is not None:
            return np.frombuffer(tag.small, stored).astype(dtype)
        values = np.empty(tag.size // stored.itemsize, stored)
        fill(self.source, values, self.path)
        return values.astype(dtype, copy=False)

    def _numbers(self, kind: str, most: int) -> NDArray[Any]:
        """A short part: flags, dimensions or the name."""
        tag = self._tag()
        stored = self._type(tag)
        if stored != np.dtype(self.order + kind) or tag.size > most * stored.itemsize:
            raise _damaged(self.path, f"a part of type {tag.kind} and {tag.size:,} bytes")
        if tag.small is not None:
            return np.frombuffer(tag.small, stored)
        padded = tag.size + -tag.size % 8
        if padded > self.left:
            raise _damaged(self.path, f"a part of {tag.size:,} bytes")
        self.left -= padded
        return np.frombuffer(exact_bytes(self.source, padded, self.path)[: tag.size], stored)

    def _tag(self) -> _Tag:
        if self.left < 8:
            raise _damaged(self.path, "an array that lacks a part")
        tag = _tag(self.source, self.order, self.path)
        self.left -= 8
        if tag.small is None and tag.size > self.left:
            raise _damaged(self.path, f"a part of {tag.size:,} bytes that exceeds its array")
        return tag

    def _type(self, tag: _Tag) -> np.dtype[Any]:
        if tag.kind not in STORED:
            raise _damaged(self.path, f"a part of type {tag.kind}")
        stored = np.dtype(self.order + STORED[tag.kind])
        if tag.size % stored.itemsize:
            raise _damaged(self.path, f"{tag.size:,} bytes of {stored}")
        return stored


def _tag(source: ByteSource, order: str, path: Path) -> _Tag:
    raw = exact_bytes(source, 8, path)
    kind, size = struct.unpack(f"{order}2I", raw)
    if kind >> 16:  # a small element: its size, its type, then up to four bytes
        size, kind = kind >> 16, kind & 0xFFFF
        if size > 4:
            raise _damaged(path, f"a small element of {size:,} bytes")
        return _Tag(kind, size, raw[4 : 4 + size])
    return _Tag(kind, size, None)


def _byte_order(header: bytes, path: Path) -> str:
    """``"<"`` or ``">"``; refuse a file of another kind or version."""
    order = {b"IM": "<", b"MI": ">"}.get(header[126:])
    version = struct.unpack(f"{order}H", header[124:126])[0] if order else None
    if order is None or version != VERSION:
        newer = header.startswith(b"MATLAB 7.3")
        raise DataError.of(
            path,
            expected=EXPECTED,
            got="version 7.3 (HDF5)" if newer else "another kind of file",
            do="Save it in MATLAB with -v7." if newer else FETCH_AGAIN,
        )
    return order


def _damaged(path: Path, got: str) -> DataError:
    return DataError.of(path, expected=EXPECTED, got=got, do=FETCH_AGAIN)
