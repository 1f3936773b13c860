"""Folds of the labels: each network is trained without one of them, and judged by it."""

from typing import NamedTuple

import torch
from torch import Tensor

from dessl.data import LabelDraw, SemiData

FOLDS = 5
FEWEST_LABELS = 10  # below it no label can be spared to be held out


class HeldOutParts(NamedTuple):
    """The data of each network, and a number for each row that is held out of one of them.

    Attributes:
        data: One for each network, with the rows held out of its training.
        groups: (n,) numbers, part after part; rows of one group count as one held-out label.
    """

    data: tuple[SemiData, ...]
    groups: Tensor


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


def held_out_parts(
    data: SemiData, groups: Tensor | None, *, members: int, seed: int
) -> HeldOutParts:
    """Return the data of each network: another fold held out, or the validation part it came with.

    Args:
        data: With its labels.
        groups: (n_labelled,) as in :func:`fold_numbers`; each row its own if not given.
        members: Folds to hold out, 1 to 5.
        seed: Of the folds.
    """
    if data.validation is not None:
        return HeldOutParts((data,), torch.arange(len(data.validation.y)))
    y = data.y[data.labelled_rows]
    numbers = torch.arange(len(y)) if groups is None else groups
    if numbers.shape != y.shape:
        raise ValueError(
            f"groups must hold one number for each of the {len(y)} labelled rows, shape "
            f"({len(y)},); got {tuple(numbers.shape)}. Leave out those of unlabelled rows."
        )
    folds = fold_numbers(y, numbers, seed)
    if not bool((folds >= 0).any()):
        return HeldOutParts((data,), numbers[:0])
    each = range(members)
    held_out = torch.cat([numbers[folds.to(numbers.device) == fold] for fold in each])
    return HeldOutParts(tuple(fold_data(data, folds, fold) for fold in each), held_out)


def fold_data(data: SemiData, folds: Tensor, fold: int) -> SemiData:
    """Return the data with one fold's labels held out for validation."""
    rows, held_out = data.labelled_rows, folds == fold
    return data.with_labels(LabelDraw(rows[~held_out], rows[held_out], data.unlabelled_rows))
