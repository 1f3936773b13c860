"""Read bytes from files within limits: sizes are checked before memory is allocated."""

import io
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dessl.data.errors import DataError

Labels: TypeAlias = NDArray[np.int64]  # (n,), -1 for a missing label
MAX_BYTES = 8 * 2**30
DEFLATE_RATIO = 1032  # no deflate stream (gzip, zip, zlib) can grow by more than this
CHUNK = 2**20
FETCH_AGAIN = "The file is damaged or incomplete: replace it with an intact copy."


class ByteSource(Protocol):
    """Anything bytes can be read from: a file, a gzip stream, a zip member."""

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes, none at the end."""


@contextmanager
def reading(
    path: str | Path,
    expected: str,
    *errors: type[Exception],
    do: str = FETCH_AGAIN,
    refused: str = "Check the path and its permissions.",
    if_missing: str | None = None,
) -> Iterator[None]:
    """Turn the given errors, and those of the file system, into a DataError about ``path``.

    Args:
        path: Path that is read.
        expected: What the file should be.
        errors: Errors of the reader.
        do: Advice on errors of the reader.
        refused: Advice on errors of the file system.
        if_missing: Advice on a missing file; ``refused`` by default.
    """
    caught: tuple[type[Exception], ...] = (OSError, EOFError, *errors)
    try:
        yield
    except DataError:
        raise
    except caught as error:
        got = " ".join(str(error).split())[:200] or type(error).__name__
        if isinstance(error, OSError) and error.errno is not None:  # from the file system
            do = refused
        if if_missing is not None and isinstance(error, FileNotFoundError):
            got, do = "no such file", if_missing
        raise DataError.of(path, expected=expected, got=got, do=do) from error


def file_size(path: Path, expected: str) -> int:
    """Size of a file in bytes, and refuse anything that is not a file."""
    if not path.is_file():
        got = "a folder" if path.is_dir() else "no such file"
        raise DataError.of(path, expected=expected, got=got, do="Check the path.")
    with reading(path, expected):
        return path.stat().st_size


def how_to_convert(path: Path) -> str:
    """What to do with a file of an unsupported kind.

    >>> how_to_convert(Path("people.csv.gz"))
    'Unpack it first.'
    """
    suffix = path.suffix.lower()
    if suffix in (".gz", ".bz2", ".xz", ".zst", ".zip", ".tar", ".tgz", ".7z"):
        return "Unpack it first."
    if suffix in (".xls", ".ods", ".xlsb", ".numbers"):
        return "Save it as .xlsx, or the sheet as a CSV file in UTF-8."
    return "Rename or convert it."


def check_name(path: str | Path) -> None:
    """Refuse a path that is not UTF-8: no report or model could contain it."""
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError.of(
            repr(str(path)),  # with the odd characters escaped, so that the error can be printed
            expected="a name in UTF-8",
            got="another encoding, as in some archives from Windows",
            do="Rename the file or folder; convmv -f cp1252 -t utf-8 -r --notest FOLDER renames "
            "them all.",
        ) from error


def byte_count(shape: Iterable[int], itemsize: int) -> int:
    """Bytes of an array, in whole numbers that cannot overflow.

    >>> byte_count((2**40, 2**40), 8) == 2**83
    True
    """
    return math.prod(int(size) for size in shape) * itemsize


def check_limit(path: Path, n_bytes: int, max_bytes: int) -> None:
    """Refuse data that would take more memory than the caller allows."""
    if n_bytes > max_bytes:
        raise DataError.of(
            path,
            expected=f"at most {max_bytes:,} bytes of data",
            got=f"{n_bytes:,} bytes",
            do="If the file is right, pass a larger max_bytes.",
        )


def check_deflated(path: Path, n_bytes: int, compressed: int) -> None:
    """Refuse a size that no deflate stream of this compressed size can expand to."""
    if n_bytes > DEFLATE_RATIO * compressed + CHUNK:
        raise DataError.of(
            path,
            expected=f"data that {compressed:,} compressed bytes can hold",
            got=f"a header that states {n_bytes:,} bytes",
            do=FETCH_AGAIN,
        )


def exact_bytes(source: ByteSource, n_bytes: int, path: Path) -> bytes:
    """The next ``n_bytes`` bytes; refuse a file that ends earlier."""
    pieces, missing = [], n_bytes
    while missing:
        piece = source.read(min(missing, CHUNK))
        if not piece:
            raise _truncated(path, n_bytes, n_bytes - missing)
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces)


def fill(source: ByteSource, array: NDArray[Any], path: Path) -> None:
    """Read the bytes of a C-contiguous array in place and in pieces, without a second copy."""
    view = array.reshape(-1).view(np.uint8)
    done = 0
    while done < len(view):
        piece = source.read(min(len(view) - done, CHUNK))
        if not piece:
            raise _truncated(path, len(view), done)
        view[done : done + len(piece)] = np.frombuffer(piece, np.uint8)
        done += len(piece)


def check_end(source: ByteSource, path: Path) -> None:
    """Refuse a stream that continues after the stated end; one more byte is enough to know."""
    if source.read(1):
        raise DataError.of(
            path,
            expected="only the data that its header states",
            got="more bytes after it",
            do=FETCH_AGAIN,
        )


def text_lines(path: Path, expected: str) -> tuple[str, ...]:
    """Non-empty lines of a short text file of class names."""
    size = file_size(path, expected)
    check_limit(path, size, 2**16)
    with reading(path, expected, UnicodeDecodeError):
        text = path.read_bytes().decode("utf-8")
    return tuple(line.strip() for line in io.StringIO(text) if line.strip())


def class_indices(path: Path, labels: NDArray[Any], n_classes: int, *, first: int = 0) -> Labels:
    """Labels of a file as class numbers from 0; refuse any other label.

    Args:
        path: The file, for the error.
        labels: Numbers (n,) or (n, 1).
        n_classes: Number of classes.
        first: The number that the file uses for class 0.
    """
    flat = labels.reshape(-1)
    inside = (flat >= first) & (flat < first + n_classes) & (flat == np.floor(flat))
    if not inside.all():
        outside = np.flatnonzero(~inside)
        row = int(outside[0])
        raise DataError.of(
            path,
            expected=f"labels from {first} to {first + n_classes - 1}",
            got=f"label {flat[row]} at row {row} ({len(outside)} such rows)",
            do="The file is damaged or belongs to another data set: replace it.",
        )
    return flat.astype(np.int64) - first


def same_count(path: Path, x: NDArray[Any], y: NDArray[Any]) -> None:
    """Refuse different numbers of rows and labels."""
    if len(x) != len(y):
        raise DataError.of(
            path,
            expected="one label for each row",
            got=f"{len(y)} labels for {len(x)} rows",
            do="The files belong to different data sets, or one of them is truncated.",
        )


def _truncated(path: Path, promised: int, got: int) -> DataError:
    return DataError.of(path, expected=f"{promised:,} bytes", got=f"only {got:,}", do=FETCH_AGAIN)
