"""Holm's correction: p-values that stay valid after testing a whole λ grid.

With the m p-values in ascending order, p̃_(i) = max_{j ≤ i} min(1, (m − j + 1)·p_(j)).
"""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dessl import _checks
from dessl._checks import ArrayLike


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Return adjusted p-values, (n,), in the input order.

    Rejecting at adjusted p ≤ α keeps the probability of any false rejection at or below α, whatever
    the dependence between tests. NaN (a test that was not run) stays NaN and does not count towards
    m.

    Args:
        p_values: (n,), each in [0, 1] or NaN.

    >>> holm([0.01, 0.04, 0.03, float("nan")])
    array([0.03, 0.06, 0.06,  nan])
    """
    found = _checks.numbers("p_values", p_values)
    values = np.asarray(found.cpu() if isinstance(found, Tensor) else found, dtype=np.float64)
    if values.ndim != 1 or values.shape[0] == 0:
        raise ValueError(f"p_values must have shape (n,), not empty; got {values.shape}.")
    done = ~np.isnan(values)
    if np.any((values[done] < 0) | (values[done] > 1)):
        raise ValueError(
            f"p_values must lie in [0, 1]; got {values[done].min():g} to {values[done].max():g}."
        )
    order = np.argsort(values, kind="stable")[: int(done.sum())]  # NaN sorts last
    remaining = np.arange(order.shape[0], 0, -1)
    adjusted = np.full_like(values, np.nan)
    adjusted[order] = np.maximum.accumulate(np.minimum(1.0, remaining * values[order]))
    return adjusted
