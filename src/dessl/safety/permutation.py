"""Permutation tests: the labelled rows are redrawn, and several statistics are compared.

Under MCAR every choice of n_l labelled rows is as likely as the observed one, so the share of
choices with a statistic at least as large is an exact p-value. Several statistics are put on a
common scale, and the largest of each choice is compared (Westfall and Young's maxT): the corrected
p-values are exact for any dependence between them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
PERMUTATIONS = 199


class MaxTest(NamedTuple):
    """Joint p-values of several statistics.

    Attributes:
        p_value: p-value of the largest statistic.
        corrected: (statistics,) p-values corrected for the number of statistics.
    """

    p_value: float
    corrected: Floats


def choices(
    labelled: NDArray[np.bool_],
    *,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
    strata: NDArray[np.int64] | None = None,
) -> NDArray[np.float32]:
    """Return the observed choice of labelled rows and random ones, (permutations + 1, n).

    Args:
        labelled: (n,) which rows are labelled: the first choice.
        permutations: Number of random choices.
        seed: Seed of the draws.
        strata: (n,) numbers; rows are exchanged only within a stratum.

    >>> drawn = choices(np.array([True, False, False]), permutations=4)
    >>> drawn.shape, drawn[0].tolist(), drawn.sum(1).tolist()
    ((5, 3), [1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0, 1.0])
    """
    generator = np.random.default_rng(seed)
    marks = labelled.astype(np.float32)
    found = np.repeat(marks[None], permutations + 1, 0)
    groups = [np.arange(len(marks))]
    if strata is not None:
        groups = [np.flatnonzero(strata == stratum) for stratum in np.unique(strata)]
    for rows in groups:
        found[1:, rows] = generator.permuted(found[1:, rows], axis=1)
    return found


def max_test(statistics: Floats) -> MaxTest:
    """Compare the first row of statistics with all others.

    Args:
        statistics: (permutations + 1, statistics), large if labelled rows differ; the first row is
            that of the data.

    >>> max_test(np.array([[3.0, 0.0], [1.0, 1.0], [0.0, -1.0], [-1.0, 0.0]])).p_value
    0.25
    """
    spread = statistics.std(0)
    scale = np.where(spread > 0, spread, 1.0)
    scaled = (statistics - statistics.mean(0)) / scale
    largest = scaled.max(1)
    # A tie counts against the data; rounding must not break one.
    corrected = (largest[1:, None] >= scaled[0] - 1e-9).sum(0) + 1
    corrected = corrected / len(statistics)
    return MaxTest(float(corrected.min()), corrected)
