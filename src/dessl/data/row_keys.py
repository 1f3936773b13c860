"""Rows as bytes that are equal if the rows are: keys that sort like the rows, or short digests."""

import math
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK = 2**18  # bytes at a time
DIGEST = 16  # bytes of a hash
SHORT = 64  # bytes of a row that is not worth hashing


def row_keys(*columns: NDArray[Any]) -> NDArray[np.void]:
    """Return one string of bytes for each row, (n,), to sort rows or to find equal ones.

    They sort as the rows do, number by number from the left, and take no more memory.

    Args:
        columns: (n, ...) of floats without NaN, or of whole numbers from 0.

    >>> x = np.array([[1.0, 0.0], [-2.0, 5.0], [1.0, -0.0]])
    >>> np.unique(row_keys(x), return_inverse=True)[1].tolist()
    [1, 0, 1]
    """
    keys = _matrix(columns)
    found: NDArray[np.void] = keys.view(f"V{keys.shape[1]}")[:, 0]
    return found


def row_digests(*columns: NDArray[Any]) -> NDArray[np.void]:
    """Return a few bytes for each row, (n,), equal if the rows are: for wide rows or many.

    Short rows give all their bytes, others a hash of them.

    Args:
        columns: As in :func:`row_keys`.

    >>> x = np.array([[1.0, 0.0], [-2.0, 5.0], [1.0, -0.0]])
    >>> one, other, same = row_digests(x)
    >>> bool(one == same), bool(one == other)
    (True, False)
    """
    if sum(_widths(columns)) <= SHORT:
        return row_keys(*columns)
    blocks = (_plain([part[rows] for part in columns]) for rows in _blocks(columns))
    digests = (blake2b(row.data, digest_size=DIGEST).digest() for block in blocks for row in block)
    return np.frombuffer(b"".join(digests), f"V{DIGEST}")


def _plain(columns: Sequence[NDArray[Any]]) -> NDArray[np.uint8]:
    """All bytes of each row, (n, width), equal if the rows are; they need not sort like them."""
    same = [part + 0.0 if part.dtype.kind == "f" else part for part in columns]  # -0 becomes 0
    rows = [np.ascontiguousarray(part).reshape(len(part), -1).view(np.uint8) for part in same]
    return rows[0] if len(rows) == 1 else np.concatenate(rows, axis=1)


def _matrix(columns: Sequence[NDArray[Any]]) -> NDArray[np.uint8]:
    """All bytes of each row, (n, width)."""
    first = columns[0]
    if len(columns) == 1 and first.dtype.itemsize == 1 and first.flags.c_contiguous:
        return first.reshape(len(first), -1).view(np.uint8)  # images are such bytes already
    return _joined(columns)


def _widths(columns: Sequence[NDArray[Any]]) -> list[int]:
    """How many bytes a row has in each column."""
    return [math.prod(part.shape[1:]) * part.dtype.itemsize for part in columns]


def _blocks(columns: Sequence[NDArray[Any]]) -> Iterator[slice]:
    step = max(1, BLOCK // max(1, sum(_widths(columns))))
    for start in range(0, len(columns[0]), step):
        yield slice(start, start + step)


def _joined(columns: Sequence[NDArray[Any]]) -> NDArray[np.uint8]:
    """All bytes of each row, (n, width), written in blocks of rows."""
    widths = _widths(columns)
    keys = np.empty((len(columns[0]), sum(widths)), np.uint8)
    for rows in _blocks(columns):
        left = 0
        for part, width in zip(columns, widths, strict=True):
            keys[rows, left : left + width] = _bytes(part[rows].reshape(len(part[rows]), -1))
            left += width
    return keys


def _bytes(numbers: NDArray[Any]) -> NDArray[np.uint8]:
    """Numbers (n, m) as bytes (n, m · size), the most significant byte first."""
    if numbers.dtype.kind == "f":
        bits = (numbers + 0.0).view(f"i{numbers.dtype.itemsize}")  # -0 becomes 0
        numbers = np.where(bits < 0, ~bits, bits ^ np.iinfo(bits.dtype).min)  # as these sort
    ordered = np.ascontiguousarray(numbers, dtype=numbers.dtype.newbyteorder(">"))
    return ordered.view(np.uint8)
