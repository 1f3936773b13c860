"""Equal rows: byte keys that are equal if the rows are, and groups of copies.

Copies stay together: a model trained on one copy knows the label of the other.
"""

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dessl.data.labels import MISSING

BLOCK = 2**18  # bytes processed at a time
SUMS = 4  # sums per hash
EXACT = 53  # bits of a whole number that float64 represents
LEAST_ROWS = 16  # at a time, so that the factors are not reread for each row
SHORT = 64  # rows of fewer bytes are not hashed


def row_keys(*columns: NDArray[Any]) -> NDArray[np.void]:
    """Return one string of bytes for each row, (n,), to sort rows or to find equal ones.

    They sort like the rows, number by number from the left, and take no more memory.

    Args:
        columns: (n, ...) of floats without NaN, or of whole numbers from 0.

    >>> x = np.array([[1.0, 0.0], [-2.0, 5.0], [1.0, -0.0]])
    >>> np.unique(row_keys(x), return_inverse=True)[1].tolist()
    [1, 0, 1]
    """
    first, widths = columns[0], _widths(columns)
    if len(columns) == 1 and first.dtype.itemsize == 1 and first.flags.c_contiguous:
        keys = first.reshape(len(first), -1).view(np.uint8)  # images are such bytes already
    else:
        keys = np.empty((len(first), sum(widths)), np.uint8)
        for rows in _blocks(columns):
            left = 0
            for part, width in zip(columns, widths, strict=True):
                keys[rows, left : left + width] = _bytes(part[rows].reshape(len(part[rows]), -1))
                left += width
    found: NDArray[np.void] = keys.view(f"V{keys.shape[1]}")[:, 0]
    return found


def row_digests(*columns: NDArray[Any]) -> NDArray[np.void]:
    """Return a few bytes for each row, (n,), equal if the rows are: for wide rows or many.

    Short rows return all their bytes, others a hash: four sums Σ a_i x_i over the row's 16-bit
    numbers x_i, with random whole a_i small enough that float64 represents the sums exactly, in any
    order. Two different rows share a sum with the probability of a single a_i, 2⁻²⁶ for 3,000
    bytes.

    Args:
        columns: Same as in :func:`row_keys`.

    >>> x = np.array([[1.0, 0.0], [-2.0, 5.0], [1.0, -0.0]])
    >>> one, other, same = row_digests(x)
    >>> bool(one == same), bool(one == other)
    (True, False)
    """
    width = sum(_widths(columns))
    if width <= SHORT:
        return row_keys(*columns)
    sums = np.empty((len(columns[0]), SUMS))
    factors = _factors(-(-width // 2))
    for rows in _blocks(columns, least=LEAST_ROWS):
        plain = _plain([part[rows] for part in columns])
        if width % 2:
            plain = np.pad(plain, ((0, 0), (0, 1)))
        np.matmul(plain.view(np.uint16).astype(np.float64), factors, out=sums[rows])
    whole = sums.astype(np.uint64)
    keys = np.ascontiguousarray((whole[:, ::2] << np.uint64(64 - EXACT)) ^ whole[:, 1::2])
    found: NDArray[np.void] = keys.view(f"V{8 * keys.shape[1]}")[:, 0]
    return found


def copy_groups(keys: NDArray[np.void], y: Tensor, *, labelled: int, unlabelled: int) -> Tensor:
    """Return a number for each row, (n,), the same for rows that are copies of one.

    Equal rows are copies, unless their labels differ or they are many: then they are separate cases
    with the same few values, and each has its own number.

    Args:
        keys: Keys (n,) from :func:`row_digests`, equal if the rows are.
        y: (n,) class numbers, -1 for a missing label.
        labelled: The largest number of labelled rows that may be copies.
        unlabelled: The largest number of unlabelled rows that may be copies.

    >>> keys = row_digests(np.array([[1.0], [2.0], [1.0], [3.0], [3.0]]))
    >>> copy_groups(keys, torch.tensor([0, 1, -1, 0, 1]), labelled=2, unlabelled=2).tolist()
    [0, 1, 0, 3, 4]
    """
    codes = y.numpy(force=True)
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    known = codes != MISSING
    n_labelled, n_rows = np.bincount(group[known], minlength=len(first)), np.bincount(group)
    lowest, highest = np.full(len(first), codes.max()), np.full(len(first), MISSING)
    np.minimum.at(lowest, group[known], codes[known])
    np.maximum.at(highest, group[known], codes[known])
    alike = (lowest == highest) | (n_labelled == 0)
    few = (n_labelled <= labelled) & (n_rows - n_labelled <= unlabelled)
    numbers = np.where((alike & few)[group], first[group], np.arange(len(codes)))
    return torch.from_numpy(numbers)


def whole_groups(rows: Tensor, groups: Tensor, n: int) -> Tensor:
    """Return which rows to take, bool (m,), n of them or a few more.

    Args:
        rows: Distinct row numbers (m,), in the random order in which they are taken.
        groups: Group numbers of all rows from :func:`copy_groups`. A group is taken whole or not at
            all.
        n: The least number of rows to take, if there are as many.

    >>> whole_groups(torch.tensor([4, 1, 0, 3]), torch.tensor([0, 1, 1, 3, 1]), 1).tolist()
    [True, True, False, False]
    """
    # A group's turn is that of one fixed row, so that large groups do not come sooner.
    group, place = groups[rows], torch.empty_like(groups)
    place[rows] = torch.arange(len(rows))
    lowest = torch.full_like(groups, len(groups)).scatter_reduce(0, group, rows, "amin")
    turn = place[lowest[group]]
    return torch.searchsorted(turn.sort().values, turn) < n


def shared_rows(x: Tensor, y: Tensor, test_x: Tensor, test_y: Tensor) -> int:
    """Return how many test rows are copies of training rows, in both x and label.

    Returns 0 if they are no more than expected for rows drawn like the training rows: with few
    distinct values, separate cases are equal too.

    Args:
        x: Labelled training rows (n, ...).
        y: Their labels (n,).
        test_x: Labelled test rows (m, ...).
        test_y: Their labels (m,).

    >>> x, y = torch.arange(4.0)[:, None], torch.tensor([0, 1, 0, 1])
    >>> shared_rows(x, y, torch.tensor([[1.0], [2.0], [7.0]]), torch.tensor([1, 1, 0]))
    1
    >>> shared_rows(x // 2, 0 * y, x // 2, 0 * y)
    0
    """
    keys = row_digests(x.numpy(force=True), y.numpy(force=True))
    shared = int(
        np.isin(row_digests(test_x.numpy(force=True), test_y.numpy(force=True)), keys).sum()
    )
    _, group, size = np.unique(keys, return_inverse=True, return_counts=True)
    usual = float((size[group] > 1).mean()) * len(test_y)
    return shared if shared > usual + 3 * usual**0.5 else 0


@lru_cache(maxsize=4)
def _factors(halves: int) -> NDArray[np.float64]:
    """Factors (halves, sums), such that a sum of halves times 16 bits stays below 2⁵³."""
    bits = EXACT - 16 - max(1, halves - 1).bit_length()
    return np.random.default_rng(0).integers(0, 2**bits, (halves, SUMS)).astype(np.float64)


def _plain(columns: Sequence[NDArray[Any]]) -> NDArray[np.uint8]:
    """All bytes of each row, (n, width), equal if the rows are; they need not sort like them."""
    same = [part + 0.0 if part.dtype.kind == "f" else part for part in columns]  # -0 becomes 0
    rows = [np.ascontiguousarray(part).reshape(len(part), -1).view(np.uint8) for part in same]
    return rows[0] if len(rows) == 1 else np.concatenate(rows, axis=1)


def _widths(columns: Sequence[NDArray[Any]]) -> list[int]:
    """How many bytes a row has in each column."""
    return [math.prod(part.shape[1:]) * part.dtype.itemsize for part in columns]


def _blocks(columns: Sequence[NDArray[Any]], least: int = 1) -> Iterator[slice]:
    step = max(least, BLOCK // max(1, sum(_widths(columns))))
    for start in range(0, len(columns[0]), step):
        yield slice(start, start + step)


def _bytes(numbers: NDArray[Any]) -> NDArray[np.uint8]:
    """Numbers (n, m) as bytes (n, m · size), the most significant byte first."""
    if numbers.dtype.kind == "f":
        bits = (numbers + 0.0).view(f"i{numbers.dtype.itemsize}")  # -0 becomes 0
        numbers = np.where(
            bits < 0, ~bits, bits ^ np.iinfo(bits.dtype).min
        )  # which sort in the same order
    ordered = np.ascontiguousarray(numbers, dtype=numbers.dtype.newbyteorder(">"))
    return ordered.view(np.uint8)
