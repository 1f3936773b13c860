"""Draws with unequal, known probabilities: uncertain rows or groups more often than others."""

import numpy as np
from numpy.typing import NDArray

EQUAL_SHARE = 0.25  # share of labels drawn with equal probabilities: weights stay below 4


def alike(
    unsure: NDArray[np.float64], others: NDArray[np.float64], chances: NDArray[np.float64], n: int
) -> NDArray[np.float64]:
    """Return the probabilities that units would have in the design of the others.

    Args:
        unsure: Uncertainty of the units.
        others: Uncertainty of the others, (m,).
        chances: Probabilities of the others, (m,): those of :func:`design`.
        n: Number of units to draw.

    >>> others = np.array([0.0, 1.0, 1.0, 2.0])
    >>> alike(np.array([1.0, 9.0]), others, design(others, 2), 2).tolist()
    [0.5, 1.0]
    """
    below, wanted = chances < 1, _wanted(others, others, n)
    scale = float(chances[below].sum() / wanted[below].sum()) if below.any() else 1.0
    bounded: NDArray[np.float64] = np.minimum(1.0, scale * _wanted(unsure, others, n))
    return bounded


def _wanted(
    unsure: NDArray[np.float64], others: NDArray[np.float64], n: int
) -> NDArray[np.float64]:
    """Probabilities before any is limited to 1: a quarter equal, the rest ∝ ``unsure``."""
    m, total = len(others), others.sum()
    if total == 0:
        return np.full(len(unsure), n / m)
    found: NDArray[np.float64] = EQUAL_SHARE * n / m + (1 - EQUAL_SHARE) * n * unsure / total
    return found


def design(unsure: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Return inclusion probabilities (m,) that sum to n: a quarter equal, the rest ∝ ``unsure``.

    >>> design(np.array([0.0, 1.0, 1.0, 2.0]), 2).round(3).tolist()
    [0.125, 0.5, 0.5, 0.875]
    """
    m = len(unsure)
    if n == m:
        return np.ones(m)
    chances = _wanted(unsure, unsure, n)
    for _ in range(m):  # the excess over 1 is distributed over the others
        above = chances >= 1
        left = n - above.sum()
        if not above.any() or left <= 0 or chances[~above].sum() == 0:
            break
        scaled = chances[~above] * left / chances[~above].sum()
        chances = np.where(above, 1.0, 0.0)
        chances[~above] = scaled
        if (scaled <= 1).all():
            break
    bounded: NDArray[np.float64] = np.clip(chances, 0, 1)
    return bounded


def systematic(chances: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.int64]:
    """Draw rows in a random order at equal steps of their cumulative probabilities.

    >>> systematic(np.array([0.5, 0.5, 1.0]), np.random.default_rng(0)).shape
    (2,)
    """
    order = generator.permutation(len(chances))
    ends = np.cumsum(chances[order])
    marks = generator.random() + np.arange(round(float(ends[-1])) + 1)
    places = np.searchsorted(ends, marks[marks < ends[-1] - 1e-9], side="right")
    drawn: NDArray[np.int64] = order[np.unique(places)]
    return drawn
