"""StoredRows: the result of every reader of stored rows, and the same rows without some."""

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dessl.data.errors import DataError, few

BLOCK = 2**19  # bytes of rows read at once
MOST_BLOCKS = 2**20  # beyond that, blocks grow: their list is kept in memory
SPARSE = 8  # if fewer than one row in this many is needed, each is read alone
SAMPLED_ROWS = 16  # rows that identify a store

Numbers = NDArray[np.int64]


class StoredRows(ABC):
    """Rows of one shape that are read block by block, in any order and from several threads.

    A subclass sets the attributes and fills in two methods.

    Attributes:
        source: Name in error messages.
        shape: Shape of one row: (channels, height, width) of uint8 images, (features, ...) of
            float32.
        dtype: ``uint8`` or ``float32``.
        ends: (blocks,) int64, increasing: where each block of consecutive rows ends.
    """

    source: str
    shape: tuple[int, ...]
    dtype: "np.dtype[Any]"
    ends: Numbers

    @abstractmethod
    def read(self, start: int, stop: int, out: NDArray[Any]) -> None:
        """Fill ``out``, (stop - start, *shape), with consecutive rows of one block.

        Raises:
            DataError: A file is damaged, changed or is gone; the message names it.
        """

    @abstractmethod
    def described(self) -> str:
        """Return names and sizes of the files, by which a resumed run identifies them."""

    def prepare(self) -> None:  # noqa: B027 (most have nothing to do)
        """Prepare once before rows are read, for example by writing a file of them."""

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    @property
    def row_bytes(self) -> int:
        """Bytes of one row in memory."""
        return math.prod(self.shape) * self.dtype.itemsize

    def rows(self, numbers: "NDArray[Any] | Sequence[int]") -> NDArray[Any]:
        """Return rows by their numbers, (n, *shape), in the order given.

        Args:
            numbers: Row numbers from 0, in any order.
        """
        wanted = np.asarray(numbers, np.int64)
        if len(wanted) and not 0 <= wanted.min() <= wanted.max() < len(self):
            raise IndexError(f"rows must lie in 0 to {len(self) - 1}; got {few_numbers(wanted)}.")
        found = np.empty((len(wanted), *self.shape), self.dtype)
        order = np.argsort(wanted, kind="stable")
        blocks = np.searchsorted(self.ends, wanted[order], side="right")
        for places in np.split(order, np.flatnonzero(np.diff(blocks)) + 1):
            own = wanted[places]
            if len(own) and (own[-1] - own[0]) >= SPARSE * len(own):
                for place, row in zip(places.tolist(), own.tolist(), strict=True):
                    self.read(row, row + 1, found[place : place + 1])
            elif len(own):
                start, stop = int(own[0]), int(own[-1]) + 1
                block = np.empty((stop - start, *self.shape), self.dtype)
                self.read(start, stop, block)
                found[places] = block[own - start]
        return found

    def identity(self) -> str:
        """Return a sha256 of names, sizes and sixteen rows spread over the store."""
        digest = hashlib.sha256(f"{self.described()}\0{self.shape}\0{self.dtype}".encode())
        some = np.unique(np.linspace(0, len(self) - 1, SAMPLED_ROWS).astype(np.int64))
        digest.update(np.ascontiguousarray(self.rows(some)).view(np.uint8).data)
        return digest.hexdigest()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.source}: {len(self):,} rows of shape {self.shape})"


def few_numbers(numbers: Numbers) -> str:
    """Return the first numbers as text."""
    return few([str(number) for number in numbers[:100].tolist()])


def block_ends(counts: Sequence[int], row_bytes: int) -> Numbers:
    """Return the ends of blocks, (blocks,), each within one file.

    A block has half a megabyte of rows, or more if there would be more than a million blocks.

    Args:
        counts: Number of rows of each file.
        row_bytes: Bytes of one row.

    >>> block_ends([3, 2], row_bytes=2**18).tolist()
    [2, 3, 5]
    """
    rows = max(1, BLOCK // max(1, row_bytes), -(-sum(counts) // MOST_BLOCKS))
    first, found = 0, []
    for count in counts:
        found.append(np.minimum(np.arange(rows, count + rows, rows), count) + first)
        first += count
    return np.concatenate(found) if found else np.empty(0, np.int64)


def check_finite(out: NDArray[Any], start: int, source: str) -> None:
    """Refuse rows with NaN or infinite numbers, naming them.

    Args:
        out: (n, ...) of floats, as read.
        start: The number of the first row.
        source: The file they are from.
    """
    if np.isfinite(out).all():
        return
    bad = np.flatnonzero(~np.isfinite(out.reshape(len(out), -1)).all(1)) + start
    raise DataError.of(
        source,
        expected="finite numbers that float32 can hold",
        got=f"NaN, infinity or more than 3e38 in rows {few_numbers(bad)}",
        do="Correct these rows, counted from 0, or leave them out.",
    )


class Without(StoredRows):
    """Stored rows without some, such as labelled ones or those held out.

    Args:
        stored: The rows.
        left_out: Numbers of rows, in any order.

    The remaining rows are renumbered from 0, in the same order.
    """

    def __init__(self, stored: StoredRows, left_out: "NDArray[Any] | Sequence[int]") -> None:
        self.stored = stored
        self.left_out = np.unique(np.asarray(left_out, np.int64))
        self.source, self.shape, self.dtype = stored.source, stored.shape, stored.dtype
        removed = np.searchsorted(self.left_out, stored.ends, side="left")
        self.ends = np.unique(stored.ends - removed)
        self.ends = self.ends[self.ends > 0]
        self._before = self.left_out - np.arange(len(self.left_out))  # rows that remain before each

    def originals(self, numbers: Numbers) -> Numbers:
        """Return the numbers that rows have in the whole store.

        Args:
            numbers: Numbers of remaining rows.
        """
        return numbers + np.searchsorted(self._before, numbers, side="right")

    def prepare(self) -> None:
        """Prepare all rows."""
        self.stored.prepare()

    def read(self, start: int, stop: int, out: NDArray[Any]) -> None:
        """Read a stretch of rows, and keep those that are not left out."""
        first, last = self.originals(np.array([start, stop - 1])).tolist()
        low, high = np.searchsorted(self.left_out, [first, last + 1])
        if low == high:
            self.stored.read(first, last + 1, out)
            return
        whole = np.empty((last + 1 - first, *self.shape), self.dtype)
        self.stored.read(first, last + 1, whole)
        keep = np.ones(len(whole), np.bool_)
        keep[self.left_out[low:high] - first] = False
        np.compress(keep, whole, axis=0, out=out)

    def described(self) -> str:
        """Return the description of all rows, and a sha256 of the numbers left out."""
        return f"{self.stored.described()}\0{hashlib.sha256(self.left_out.data).hexdigest()}"

    def identity(self) -> str:
        """Return a sha256 of the identity of all rows and of the numbers left out."""
        return hashlib.sha256(f"{self.stored.identity()}\0{self.described()}".encode()).hexdigest()


class Changed(StoredRows):
    """Stored rows, each block passed through a function, such as a scaling.

    Args:
        stored: The rows.
        change: Function from rows to rows of the same type, row by row.
        name: Name that identifies the function.
        shape: The shape of a changed row; that of the rows by default.
    """

    def __init__(
        self,
        stored: StoredRows,
        change: Callable[[NDArray[Any]], NDArray[Any]],
        name: str,
        shape: tuple[int, ...] | None = None,
    ) -> None:
        self.stored, self.change, self.name = stored, change, name
        self.source, self.dtype = stored.source, stored.dtype
        self.shape = stored.shape if shape is None else shape
        self.ends = stored.ends

    def prepare(self) -> None:
        """Prepare the rows."""
        self.stored.prepare()

    def read(self, start: int, stop: int, out: NDArray[Any]) -> None:
        """Read the rows and change them."""
        rows = out
        if self.shape != self.stored.shape:
            rows = np.empty((stop - start, *self.stored.shape), dtype=self.dtype)
        self.stored.read(start, stop, rows)
        out[:] = self.change(rows)

    def described(self) -> str:
        """Return the description of the rows, and the name of the change."""
        return f"{self.stored.described()}\0{self.name}"

    def identity(self) -> str:
        """Return a sha256 of the identity of the rows and of the name."""
        return hashlib.sha256(f"{self.stored.identity()}\0{self.name}".encode()).hexdigest()
