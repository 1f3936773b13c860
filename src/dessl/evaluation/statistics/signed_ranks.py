"""Wilcoxon's signed-rank test: an outlier-robust alternative to the paired t-test.

Under the null hypothesis each difference has either sign with equal probability, so the sum W₊ of
the ranks of positive differences is uniform over all 2ⁿ sign assignments.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dessl import _checks
from dessl._checks import ArrayLike
from dessl.evaluation.statistics.student import ALTERNATIVES, Alternative, paired

EXACT_UP_TO = 200  # pairs; beyond that the normal approximation is good to at least five digits


@dataclass(frozen=True)
class WilcoxonTest:
    """A signed-rank test of a against b.

    ``difference`` is the Hodges–Lehmann estimate, the median of the means of all pairs of
    differences; ``statistic`` is W₊; ``effect_size`` the rank-biserial correlation
    (W₊ − W₋)/(W₊ + W₋), in [−1, 1]; ``n`` counts the pairs that differ, ``zeros`` the
    others, which are left out.
    """

    difference: float
    statistic: float
    p_value: float
    effect_size: float
    n: int
    zeros: int
    alternative: Alternative
    exact: bool


def wilcoxon_test(
    a: ArrayLike, b: ArrayLike, *, alternative: Alternative = "two-sided"
) -> WilcoxonTest:
    """Test whether a − b is symmetric about zero.

    Zero differences are dropped (Wilcoxon's method), ties share their mean rank, and the p-value is
    exact given those ranks up to 200 pairs; beyond that it is a normal approximation with tie and
    continuity corrections. Differences that agree up to rounding count as ties. If every pair is
    equal, p = 1. With n pairs the smallest possible p-value is 2⁻ⁿ (twice that two-sided): five
    folds cannot give less than 0.0625 two-sided.

    Args:
        a: (n,), n ≥ 2.
        b: (n,), paired with a.
        alternative: "two-sided", "greater" (a above b) or "less" (a below b).

    >>> test = wilcoxon_test([1.1, 2.2, 3.3, 4.4, 5.5], [1, 2, 3, 4, 5], alternative="greater")
    >>> test.statistic, test.p_value
    (15.0, 0.03125)
    """
    _checks.one_of("alternative", alternative, ALTERNATIVES)
    differences, rounding = paired(a, b)
    differences[np.abs(differences) <= rounding] = 0.0
    differ = differences != 0
    kept = differences[differ]
    n = kept.shape[0]
    ranks = _ranks(np.abs(kept), rounding[differ])
    positive, total = float(ranks[kept > 0].sum()), n * (n + 1) / 2
    exact = n <= EXACT_UP_TO
    tail = _exact_tail if exact else _normal_tail
    above, below = tail(ranks, positive), tail(ranks, total - positive)
    p_values = {"greater": above, "less": below, "two-sided": min(1.0, 2 * min(above, below))}
    return WilcoxonTest(
        difference=_hodges_lehmann(differences),
        statistic=positive,
        p_value=p_values[alternative],
        effect_size=2 * positive / total - 1 if n else 0.0,
        n=n,
        zeros=differences.shape[0] - n,
        alternative=alternative,
        exact=exact,
    )


def _ranks(sizes: NDArray[np.float64], rounding: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 1, averaged over ties up to rounding: 0.3 − 0.2 ties with 0.2 − 0.1."""
    order = np.argsort(sizes)
    groups = np.zeros(len(sizes), dtype=np.int64)
    between = np.maximum(rounding[order[1:]], rounding[order[:-1]])
    groups[order[1:]] = np.cumsum(np.diff(sizes[order]) > between)
    return average_ranks(groups)


def average_ranks(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return ranks from 1 in each column of (n,) or (n, d); ties share their mean rank.

    >>> average_ranks(np.array([3.0, 1.0, 3.0])).tolist()
    [2.5, 1.0, 2.5]
    """
    columns = values[:, None] if values.ndim == 1 else values
    ranks = np.empty(columns.shape)
    for number, column in enumerate(columns.T):
        _, place, counts = np.unique(column, return_inverse=True, return_counts=True)
        ranks[:, number] = (np.cumsum(counts) - (counts - 1) / 2)[place]
    return ranks.reshape(values.shape)


def _exact_tail(ranks: NDArray[np.float64], statistic: float) -> float:
    """P(W₊ ≥ statistic) over all sign assignments, rank by rank; doubled ranks are integers."""
    doubled = np.rint(2 * ranks).astype(np.int64)
    chance = np.zeros(int(doubled.sum()) + 1)
    chance[0] = 1.0
    for rank in doubled:
        chance[rank:] = chance[rank:] + chance[: chance.shape[0] - rank]
        chance *= 0.5
    return min(1.0, float(chance[round(2 * statistic) :].sum()))


def _normal_tail(ranks: NDArray[np.float64], statistic: float) -> float:
    """P(W₊ ≥ statistic) by the normal approximation, with variance Σr²/4."""
    deviation = math.sqrt(float(np.square(ranks).sum())) / 2
    z = (statistic - 0.5 - float(ranks.sum()) / 2) / deviation
    return 0.5 * math.erfc(z / math.sqrt(2))


def _hodges_lehmann(differences: NDArray[np.float64]) -> float:
    ordered = np.sort(differences)
    pairs = len(ordered) * (len(ordered) + 1) // 2
    return (_walsh_average(ordered, (pairs + 1) // 2) + _walsh_average(ordered, pairs // 2 + 1)) / 2


def _walsh_average(ordered: NDArray[np.float64], rank: int) -> float:
    """The rank-th smallest (dᵢ + dⱼ)/2 with i ≤ j, by bisection: all n² would not fit in memory."""
    low, high = float(ordered[0]), float(ordered[-1])
    for _ in range(64):
        middle = (low + high) / 2
        partners = np.searchsorted(ordered, 2 * middle - ordered, side="right").sum()
        reached = partners + np.searchsorted(ordered, middle, side="right")  # each pair twice
        low, high = (low, middle) if reached >= 2 * rank else (middle, high)
    beside = np.searchsorted(ordered, 2 * high - ordered).clip(1, len(ordered) - 1)
    nearby = np.stack([ordered + ordered[beside - 1], ordered + ordered[beside]]) / 2
    return float(nearby.flat[np.abs(nearby - high).argmin()])
