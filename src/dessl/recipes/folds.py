"""Folds of the labels: each network is trained without one of them, and judged by it."""

import torch
from torch import Tensor

from dessl.data import LabelDraw, SemiData

FOLDS = 5
FEWEST_LABELS = 10  # below it no label can be spared to be held out


def fold_numbers(y: Tensor, groups: Tensor, seed: int) -> Tensor:
    """Return the fold 0, ..., 4 of each label, (n,), or all -1 where labels are too few.

    Classes are spread evenly over the folds. A class with one group of rows is in no fold (-1): a
    network that never saw a class cannot be judged by it. Where the others would leave a fold
    empty, labels are too few.

    Args:
        y: (n,) class numbers.
        groups: (n,) numbers; rows of one group, such as copies of one row, share a fold.
        seed: Of the order within a class.

    >>> y = torch.tensor([0, 1] * 10 + [2])
    >>> folds = fold_numbers(y, torch.arange(21), seed=0)
    >>> folds[y < 2].bincount().tolist(), int(folds[-1])
    ([4, 4, 4, 4, 4], -1)
    """
    folds = torch.full_like(y, -1)
    generator = torch.Generator().manual_seed(seed)
    _, number = torch.unique(groups, return_inverse=True)
    n_groups = int(number.max()) + 1
    if n_groups < FEWEST_LABELS:
        return folds
    first = torch.empty(n_groups, dtype=y.dtype)
    first[number.flip(0)] = y.cpu().flip(0)  # the label of each group's first row
    order = torch.randperm(n_groups, generator=generator)
    order = order[first[order].argsort(stable=True)]
    order = order[first.bincount()[first[order]] > 1]
    if len(order) < FOLDS:
        return folds
    turn = torch.full((n_groups,), -1)
    turn[order] = torch.arange(len(order)) % FOLDS
    return turn.to(y.device)[number]


def fold_data(data: SemiData, folds: Tensor, fold: int) -> SemiData:
    """Return the data with one fold's labels held out for validation."""
    rows, held_out = data.labelled_rows, folds == fold
    return data.with_labels(LabelDraw(rows[~held_out], rows[held_out], data.unlabelled_rows))
