"""Deviations from the mean that are exactly zero for a constant."""

from torch import Tensor


def centred(rows: Tensor) -> Tensor:
    """Return the rows minus their mean over dimension 0.

    The first row is subtracted first: otherwise the rounded mean of equal numbers leaves a
    remainder, and a slope computed from it could have any value.

    >>> import torch
    >>> constant = torch.full((6,), 0.1, dtype=torch.float64)
    >>> bool((constant - constant.mean()).any()), bool(centred(constant).any())
    (True, False)
    """
    from_first = rows - rows[0]
    return from_first - from_first.mean(0)
