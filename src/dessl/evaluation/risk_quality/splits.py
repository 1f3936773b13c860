"""Random splits of a labelled set into few labelled and many unlabelled rows."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from dessl import _checks
from dessl._checks import ArrayLike


class SplitMeans(NamedTuple):
    """Means of each split: of L and H over its labelled rows, of H over the others; (splits, p)."""

    loss: Tensor
    h_labelled: Tensor
    h_unlabelled: Tensor


def row_mean(values: Tensor) -> Callable[[Tensor], Tensor]:
    """Return a function from row numbers to the mean of values (n, p) over those rows, (p,)."""
    return lambda rows: values[rows].mean(0)


def split_means(
    mean_loss: Callable[[Tensor], Tensor],
    mean_h: Callable[[Tensor], Tensor],
    like: Tensor,
    n_labelled: int,
    splits: int,
    generator: torch.Generator | None,
) -> SplitMeans:
    """Means over the rows of many random splits.

    Args:
        mean_loss: Row numbers → mean of L (or of its gradient) over those rows, (p,).
        mean_h: Row numbers → mean of H (or of its gradient) over those rows, (p,).
        like: A tensor with one entry per row, on the device where the means are computed.
        n_labelled: Labelled rows per split.
        splits: Number of splits.
        generator: Source of the splits; seeded with 0 by default.
    """
    n = len(like)
    n_unlabelled = unlabelled_count(n_labelled, n)
    everyone = mean_h(torch.arange(n, device=like.device))
    loss, h = [], []
    for drawn in labelled_rows(n, n_labelled, splits, generator):
        rows = drawn.to(like.device)
        loss.append(mean_loss(rows))
        h.append(mean_h(rows))
    labelled = torch.stack(h)
    unlabelled = (n * everyone - n_labelled * labelled) / n_unlabelled
    return SplitMeans(torch.stack(loss), labelled, unlabelled)


def labelled_rows(
    n: int, n_labelled: int, splits: int, generator: torch.Generator | None
) -> Iterator[Tensor]:
    """The indices of the labelled rows, (n_labelled,), of each split of n rows.

    Args:
        n: Total number of rows.
        n_labelled: Labelled rows per split.
        splits: Number of splits.
        generator: Source of the splits; seeded with 0 by default.

    >>> [len(rows) for rows in labelled_rows(10, 4, 2, None)]
    [4, 4]
    """
    unlabelled_count(n_labelled, n)
    _checks.whole_number("splits", splits, low=2)
    source = torch.Generator().manual_seed(0) if generator is None else generator
    return (
        torch.randperm(n, generator=source, device=source.device)[:n_labelled]
        for _ in range(splits)
    )


def unlabelled_count(n_labelled: int, n: int) -> int:
    """The number of unlabelled rows in a split of n rows: at least one."""
    if n < 2:
        raise ValueError(f"a split needs at least two rows, one labelled and one not; got {n}.")
    _checks.whole_number("n_labelled", n_labelled, low=1, high=n - 1)
    return n - n_labelled


def checked_pair(loss: ArrayLike, h: ArrayLike) -> tuple[Tensor, Tensor]:
    """L and H of the same rows, (n,) each, in float64."""
    loss_, h_ = _checks.float64("loss", loss, ndim=1), _checks.float64("h", h, ndim=1)
    _checks.same_length("loss", loss_, "h", h_)
    return loss_, h_
