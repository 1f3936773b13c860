"""Deviations from the mean that are exactly zero for a constant, also for one with rounding."""

import numpy as np
import torch
from torch import Tensor

from dessl._checks import ArrayLike

ROUNDING = 1e-14  # relative size of rounding errors in float64
SINGLE = 8  # the same of a sum over classes in float32, in units of its precision


def centred(rows: Tensor) -> Tensor:
    """Return the rows minus their mean over dimension 0.

    The first row is subtracted first: otherwise the rounded mean of equal numbers leaves a
    remainder, and a slope computed from it could have any value.

    >>> constant = torch.full((6,), 0.1, dtype=torch.float64)
    >>> bool((constant - constant.mean()).any()), bool(centred(constant).any())
    (True, False)
    """
    from_first = rows - rows[0]
    return from_first - from_first.mean(0)


def settled(rows: Tensor, precision: float) -> Tensor:
    """Return the rows with each column that is constant up to rounding made exactly constant.

    The H of rows with one prediction may differ in the last digit, from sums in another order; a
    slope on such differences could have any value.

    Args:
        rows: Rows (n, ...) in float64.
        precision: :func:`precision_of` the values that they were converted from.

    >>> h = torch.tensor([1.2322, 1.2322 + 2e-7])
    >>> settled(h.double(), precision_of(h)).unique().numel()
    1
    """
    spread = rows.amax(0) - rows.amin(0)
    still = spread <= rounding_at(precision) * rows.abs().amax(0)
    return torch.where(still, rows[0], rows)


def rounding_at(precision: float) -> float:
    """Return the relative size of rounding errors in values of a precision.

    >>> rounding_at(torch.finfo(torch.float64).eps)
    1e-14
    """
    if precision > torch.finfo(torch.float32).eps:  # half precision: computed in float32
        return precision
    return max(ROUNDING, SINGLE * precision)


def precision_of(*values: ArrayLike) -> float:
    """Return the relative precision of the coarsest dtype; that of float64 for other values.

    >>> precision_of(torch.zeros(1)) == precision_of([0.5], np.zeros(1, np.float32)) > 1e-8
    True
    """
    return max(map(_precision, values))


def _precision(value: ArrayLike) -> float:
    if isinstance(value, Tensor) and value.is_floating_point():
        return torch.finfo(value.dtype).eps
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return max(float(np.finfo(value.dtype).eps), torch.finfo(torch.float64).eps)
    return torch.finfo(torch.float64).eps
