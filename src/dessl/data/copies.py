"""Copies of one row go together: a model that was trained on one knows the label of the other."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dessl.data.labels import MISSING
from dessl.data.row_keys import row_digests


def copy_groups(keys: NDArray[np.void], y: Tensor, *, labelled: int, unlabelled: int) -> Tensor:
    """Return a number for each row, (n,), the same for rows that are copies of one.

    Equal rows are copies, unless their labels differ or they are many: such are cases of their own
    that have the same few values, and each has its own number.

    Args:
        keys: (n,) of :func:`dessl.data.row_keys.row_digests`, equal if the rows are.
        y: (n,) class numbers, -1 for a missing label.
        labelled: The most labelled rows that may be copies of one.
        unlabelled: The most unlabelled rows that may be.

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
    """Return which of some rows to take, bool (m,), so that n are taken or a few more.

    Args:
        rows: (m,) numbers of different rows, in a random order: that in which they are taken.
        groups: (all rows,) of :func:`copy_groups`. All rows of a group are taken, or none.
        n: How many to take at least, where there are so many.

    >>> whole_groups(torch.tensor([4, 1, 0, 3]), torch.tensor([0, 1, 1, 3, 1]), 1).tolist()
    [True, True, False, False]
    """
    # A group's turn is that of its lowest row, for one of many rows must not come sooner.
    group, place = groups[rows], torch.empty_like(groups)
    place[rows] = torch.arange(len(rows))
    lowest = torch.full_like(groups, len(groups)).scatter_reduce(0, group, rows, "amin")
    turn = place[lowest[group]]
    return torch.searchsorted(turn.sort().values, turn) < n


def shared_rows(x: Tensor, y: Tensor, test_x: Tensor, test_y: Tensor) -> int:
    """Return how many test rows are copies of rows to train on, x and label alike.

    None, where they are no more than rows that are drawn like those to train on would be: where few
    values make a row, cases of their own are equal too.

    Args:
        x: (n, ...), labelled rows to train on.
        y: (n,), their labels.
        test_x: (m, ...), labelled test rows.
        test_y: (m,), their labels.

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
