"""Arrays in npz files: the zip directory and each npy header are checked before they are used."""

import ast
import math
import re
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dessl._checks import quoted
from dessl.data.errors import DataError, few
from dessl.data.formats.reading import (
    FETCH_AGAIN,
    MAX_BYTES,
    byte_count,
    check_deflated,
    check_end,
    check_limit,
    exact_bytes,
    file_size,
    fill,
    reading,
)

EXPECTED = "an npz file (a zip of npy arrays)"
MAX_HEADER = 10_000
# What zipfile raises for damaged or unusual archives, besides OSError and EOFError.
ZIP_ERRORS = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    struct.error,
    RuntimeError,  # for encryption; its subclass NotImplementedError, for unknown compression
    ValueError,
    OverflowError,
    LookupError,
)


class ArrayHeader(NamedTuple):
    """Contents of an npy header."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool


class Npz:
    """An open npz file whose arrays are read one by one; made by :func:`open_npz`.

    Attributes:
        path: The file.
        names: The arrays in it, without their ``.npy``.
    """

    def __init__(self, path: Path, archive: zipfile.ZipFile, max_bytes: int) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self._archive = archive
        self._members = {
            info.filename.removesuffix(".npy"): info
            for info in archive.infolist()
            if info.filename.endswith(".npy")
        }
        self.names = tuple(self._members)

    def array(self, name: str) -> NDArray[Any]:
        """Read one array.

        Raises:
            DataError: It is missing, contains Python objects, or does not match its header.
        """
        with self._opened(name) as (stream, header):
            shape = header.shape[::-1] if header.fortran else header.shape
            array = np.empty(shape, header.dtype)
            fill(stream, array, self.path)
            check_end(stream, self.path)
        if header.dtype.kind == "U":
            check_text(self.path, name, array)
        return array.T if header.fortran else array

    def images(self, name: str) -> NDArray[np.uint8]:
        """Read uint8 images (n, h, w) or (n, h, w, channels) directly into (n, channels, h, w)."""
        with self._opened(name) as (stream, header):
            self._check_images(name, header)
            n, height, width, channels = (*header.shape, 1)[:4]
            x = np.empty((n, channels, height, width), np.uint8)
            rows = max(1, 2**20 // (height * width * channels))
            buffer = np.empty((rows, height, width, channels), np.uint8)
            for start in range(0, n, rows):
                piece = buffer[: n - start]
                fill(stream, piece, self.path)
                x[start : start + rows] = piece.transpose(0, 3, 1, 2)
            check_end(stream, self.path)
        return x

    def header(self, name: str) -> ArrayHeader:
        """Shape and type of one array, without reading it."""
        with self._opened(name) as (_, header):
            return header

    def _check_images(self, name: str, header: ArrayHeader) -> None:
        shape = header.shape
        image_like = len(shape) == 3 or (len(shape) == 4 and shape[3] in (1, 3))
        if header.dtype != np.uint8 or header.fortran or not image_like or 0 in shape:
            raise DataError.of(
                self.path,
                expected=f"{quoted(name)} to be uint8 images (n, height, width[, 1 or 3])",
                got=f"{header.dtype} of shape {shape}" + ", columns first" * header.fortran,
                do="Save them with numpy.ascontiguousarray."
                if header.fortran
                else "Check that the file is a 2D image set.",
            )

    @contextmanager
    def _opened(self, name: str) -> Iterator[tuple[IO[bytes], ArrayHeader]]:
        if name not in self._members:
            raise DataError.of(
                self.path,
                expected=f"an array named {quoted(name)}",
                got=f"the arrays {few(self.names, most=12) or 'none'}",
                do="Check that the file is what its name says.",
            )
        info = self._members[name]
        self._check_member(info)
        with reading(self.path, EXPECTED, *ZIP_ERRORS), self._archive.open(info) as stream:
            header, length = array_header(stream, self.path)
            promised = byte_count(header.shape, header.dtype.itemsize)
            if promised != info.file_size - length:
                raise DataError.of(
                    self.path,
                    expected=f"{promised:,} bytes in {quoted(name)}, as its header says",
                    got=f"{info.file_size - length:,}",
                    do=FETCH_AGAIN,
                )
            yield stream, header

    def _check_member(self, info: zipfile.ZipInfo) -> None:
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DataError.of(
                self.path,
                expected="members stored or deflated, as numpy writes them",
                got=f"compression method {info.compress_type}",
                do="Write the file with numpy.savez or numpy.savez_compressed.",
            )
        check_limit(self.path, info.file_size, self.max_bytes)
        # The directory may be wrong about the compressed size too; the size on disk is not.
        on_disk = min(info.compress_size, file_size(self.path, EXPECTED))
        if info.compress_type == zipfile.ZIP_DEFLATED:
            check_deflated(self.path, info.file_size, on_disk)
        elif info.file_size > on_disk:
            raise DataError.of(
                self.path,
                expected=f"{info.file_size:,} bytes in {quoted(info.filename)}, as the archive's "
                "directory says",
                got=f"{on_disk:,}",
                do=FETCH_AGAIN,
            )


@contextmanager
def open_npz(path: str | Path, *, max_bytes: int = MAX_BYTES) -> Iterator[Npz]:
    """Open an npz file for reading array by array; nothing in it is ever unpickled.

    Args:
        path: The file.
        max_bytes: An array whose header states more is refused before memory is allocated.

    Raises:
        DataError: The file is missing, damaged or not an npz file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder) / "a.npz", x=np.arange(3), y=np.eye(2))
    ...     with open_npz(Path(folder) / "a.npz") as arrays:
    ...         print(arrays.names, arrays.array("x"))
    ('x', 'y') [0 1 2]
    """
    path = Path(path)
    file_size(path, EXPECTED)
    with reading(path, EXPECTED, *ZIP_ERRORS):
        archive = zipfile.ZipFile(path)
    with archive:
        yield Npz(path, archive, max_bytes)


def check_text(path: Path, name: str, array: NDArray[Any]) -> None:
    """Refuse text with code points that are not characters, on which NumPy itself fails."""
    points = array.reshape(-1).view(array.dtype.byteorder.replace("|", "=") + "u4")
    largest = int(points.max(initial=0))
    if largest > sys.maxunicode:
        raise DataError.of(
            path,
            expected=f"text in {quoted(name)}",
            got=f"the code point {largest:#x}",
            do=FETCH_AGAIN,
        )


def array_header(stream: IO[bytes], path: Path) -> tuple[ArrayHeader, int]:
    """The header and the bytes it takes, parsed as literals: no code, no objects."""
    magic = exact_bytes(stream, 8, path)
    if magic[:6] != b"\x93NUMPY" or magic[6:] not in (b"\x01\x00", b"\x02\x00", b"\x03\x00"):
        raise DataError.of(path, expected="npy arrays", got=f"{quoted(magic)}", do=FETCH_AGAIN)
    width = 2 if magic[6] == 1 else 4
    length = int.from_bytes(exact_bytes(stream, width, path), "little")
    if length > MAX_HEADER:
        raise DataError.of(
            path, expected="a short npy header", got=f"{length:,} bytes", do=FETCH_AGAIN
        )
    text = exact_bytes(stream, length, path)
    try:
        fields = ast.literal_eval(text.decode("utf-8").strip())
        return _checked_fields(fields), 8 + width + length
    except (ValueError, TypeError, KeyError, SyntaxError, MemoryError, RecursionError) as error:
        raise DataError.of(
            path,
            expected="an npy header with a plain shape and number type",
            got=f"{quoted(text[:80])}",
            do="Arrays of Python objects are not read: save numbers or text instead.",
        ) from error


def _checked_fields(fields: Any) -> ArrayHeader:
    if set(fields) != {"descr", "fortran_order", "shape"}:
        raise KeyError
    shape, fortran = fields["shape"], fields["fortran_order"]
    if not isinstance(fields["descr"], str) or not isinstance(fortran, bool):
        raise TypeError
    if not isinstance(shape, tuple) or len(shape) > 32:
        raise TypeError
    if any(type(size) is not int or size < 0 for size in shape) or math.prod(shape) >= 2**62:
        raise ValueError
    if not re.fullmatch(r"[<>|=]?[biufU]\d{1,9}", fields["descr"]):
        raise TypeError
    dtype = np.dtype(fields["descr"])
    if dtype.itemsize == 0:
        raise TypeError
    return ArrayHeader(shape, dtype, fortran)
