"""Numeric arrays of MATLAB's v5 files (``save -v6``, ``-v7``), sizes checked before reading.

A file is a 128-byte header and a row of elements, each a tag (type, bytes) and its bytes. A
variable is an element of type MATRIX holding four more: flags, dimensions, name and numbers. It
may be wrapped in an element of type COMPRESSED. SciPy reads these files too, but it believes the
sizes they state.
"""

import io
import struct
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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

EXPECTED = "a MATLAB v5 file"
MATRIX, COMPRESSED = 14, 15
NUMBERS = {
    1: "i1",
    2: "u1",
    3: "i2",
    4: "u2",
    5: "i4",
    6: "u4",
    7: "f4",
    9: "f8",
    12: "i8",
    13: "u8",
}
NUMERIC_CLASSES = range(6, 16)  # double, single and the eight integer classes
COMPLEX = 0x0800


class Tag(NamedTuple):
    """Type and size of an element; a small one carries its bytes in the tag itself."""

    kind: int
    n_bytes: int
    inside: bytes | None


def read_matrices(
    path: str | Path, names: Collection[str], *, max_bytes: int = MAX_BYTES
) -> dict[str, NDArray[Any]]:
    """The named numeric arrays of a MATLAB v5 file, in Fortran order and their stored type.

    Args:
        path: The file.
        names: The variables wanted; others are skipped unread.
        max_bytes: A variable that promises more is refused before memory is taken.

    Raises:
        DataError: The file is missing, damaged, of another version, or lacks a variable.
    """
    path = Path(path)
    size = file_size(path, EXPECTED)
    found: dict[str, NDArray[Any]] = {}
    with reading(path, EXPECTED, zlib.error), path.open("rb") as file:
        order = _byte_order(file, path)
        for kind, n_bytes in _elements(file, order, size, path):
            if kind not in (MATRIX, COMPRESSED):
                continue
            matrix = _Matrix(file, kind, n_bytes, order, path)
            if matrix.name in names and matrix.name not in found:
                found[matrix.name] = matrix.numbers(max_bytes)
    absent = sorted(set(names) - set(found))
    if absent:
        raise DataError.of(
            path,
            expected=f"the variable(s) {', '.join(absent)}",
            got=f"{', '.join(sorted(found)) or 'none'} of those wanted",
            do="Check that the file is what its name says.",
        )
    return found


def _byte_order(file: IO[bytes], path: Path) -> str:
    header = exact_bytes(file, 128, path)
    order = {b"IM": "<", b"MI": ">"}.get(header[126:])
    version = struct.unpack(f"{order or '<'}H", header[124:126])[0]
    if order is None or version != 0x0100:
        newer = header.startswith(b"MATLAB 7.3")
        raise DataError.of(
            path,
            expected=EXPECTED,
            got="a v7.3 (HDF5) file" if newer else f"{header[:24]!r}",
            do="Save it in MATLAB with '-v7'." if newer else "Check the file.",
        )
    return order


def _elements(file: IO[bytes], order: str, size: int, path: Path) -> Iterator[tuple[int, int]]:
    """Type and size of each top-level element, with the file set at its first byte."""
    position = 128
    while position < size:
        file.seek(position)
        kind, n_bytes = struct.unpack(f"{order}2I", exact_bytes(file, 8, path))
        position += 8 + n_bytes
        if position > size:
            raise DataError.of(
                path,
                expected=f"an element of {n_bytes:,} bytes",
                got=f"a file that ends {position - size:,} bytes before",
                do=FETCH_AGAIN,
            )
        yield kind, n_bytes


class _Matrix:
    """One variable, read up to its name; its numbers wait until they are asked for."""

    def __init__(self, file: IO[bytes], kind: int, n_bytes: int, order: str, path: Path) -> None:
        self.path, self.order = path, order
        self.compressed, self.stored = kind == COMPRESSED, n_bytes
        self.source: ByteSource = Inflated(file, n_bytes) if self.compressed else file
        if self.compressed and self._tag().kind != MATRIX:
            raise self._damaged("a matrix in the compressed element", "something else")
        flags = self._part(16)
        self.flags = struct.unpack(f"{order}I", flags[:4])[0] if len(flags) == 8 else 0
        dimensions = self._part(128)
        n_dimensions = len(dimensions) // 4
        self.shape = struct.unpack(f"{order}{n_dimensions}i", dimensions[: 4 * n_dimensions])
        self.name = self._part(256).decode("latin-1")

    def numbers(self, max_bytes: int) -> NDArray[Any]:
        tag = self._tag()
        numeric = self.flags & 0xFF in NUMERIC_CLASSES and not self.flags & COMPLEX
        if not numeric or tag.kind not in NUMBERS or not self.shape or min(self.shape) < 1:
            raise self._damaged(
                f"real numbers in {self.name!r}", f"class {self.flags & 0xFF}, shape {self.shape}"
            )
        dtype = np.dtype(self.order + NUMBERS[tag.kind])
        promised = byte_count(self.shape, dtype.itemsize)
        if promised != tag.n_bytes:
            raise self._damaged(f"{promised:,} bytes in {self.name!r}", f"{tag.n_bytes:,}")
        check_limit(self.path, promised, max_bytes)
        if self.compressed:
            check_deflated(self.path, promised, self.stored)
        elif promised > self.stored:
            raise self._damaged(f"{promised:,} bytes in {self.name!r}", f"{self.stored:,}")
        array = np.empty(self.shape[::-1], dtype)
        fill(self.source if tag.inside is None else io.BytesIO(tag.inside), array, self.path)
        self._check_checksum()
        return array.astype(dtype.newbyteorder("="), copy=False).T

    def _check_checksum(self) -> None:
        if isinstance(self.source, Inflated):
            padding = self.source.read(8) + self.source.read(8)
            if len(padding) >= 8 or not self.source.ended:
                raise self._damaged(f"{self.name!r} to end with its numbers", "something else")

    def _tag(self) -> Tag:
        first = exact_bytes(self.source, 8, self.path)
        kind, n_bytes = struct.unpack(f"{self.order}2I", first)
        if kind >> 16:
            return Tag(kind & 0xFFFF, kind >> 16, first[4 : 4 + (kind >> 16)])
        return Tag(kind, n_bytes, None)

    def _part(self, limit: int) -> bytes:
        """Bytes of a short sub-element, with the padding behind it skipped."""
        tag = self._tag()
        if tag.inside is not None:
            return tag.inside
        if tag.n_bytes > limit:
            raise self._damaged("a variable's flags, dimensions and name", f"{tag.n_bytes:,} bytes")
        return exact_bytes(self.source, -(-tag.n_bytes // 8) * 8, self.path)[: tag.n_bytes]

    def _damaged(self, expected: str, got: str) -> DataError:
        return DataError.of(self.path, expected=expected, got=got, do=FETCH_AGAIN)


class Inflated:
    """The next ``n_bytes`` of a file decompressed, never more at once than asked for."""

    def __init__(self, file: IO[bytes], n_bytes: int) -> None:
        self._file, self._left = file, n_bytes
        self._inflate = zlib.decompressobj()
        self._waiting = b""

    def read(self, size: int, /) -> bytes:
        """At most ``size`` bytes; none at the end."""
        piece = b""
        while not piece and not self.ended:
            if not self._waiting:
                self._waiting = self._file.read(min(self._left, CHUNK))
                self._left -= len(self._waiting)
            last = not self._waiting
            piece = self._inflate.decompress(self._waiting, size)
            self._waiting = self._inflate.unconsumed_tail
            if last:
                break
        return piece

    @property
    def ended(self) -> bool:
        """Whether the compressed data came to its own end, checksum included."""
        return self._inflate.eof
