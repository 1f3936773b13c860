"""Rows and their weights in one canonical form, so that weighting a row is repeating it.

Equal labelled rows are merged, and their weights added; rows of weight 0 are left out; labelled
rows are sorted. Each row is then repeated as often as its weight says: exactly, where the weights
are whole multiples of the least of them (up to 20 times the rows), and else to the nearest of
10 copies a row in the mean. So the result does not depend on the order of labelled rows.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST_COPIES = 20  # a row in the mean, of weights that are whole multiples
COPIES = 10  # a row in the mean, of weights that are not
ROUNDING = 1e-9


class WeightedRows(NamedTuple):
    """Rows to train on: x (m, ...), class numbers (m,), and which original row each copies (m,).

    The labelled rows come first.
    """

    x: NDArray[Any]
    codes: NDArray[np.int64]
    groups: NDArray[np.int64]


def weighted_rows(
    x: NDArray[Any], codes: NDArray[np.int64], weights: NDArray[np.float64]
) -> WeightedRows:
    """Return the canonical rows.

    Args:
        x: (n, ...).
        codes: (n,), -1 for unlabelled.
        weights: (n,), none negative.

    >>> x = np.array([[2.0], [1.0], [2.0], [5.0]])
    >>> rows = weighted_rows(x, np.array([0, 1, 0, -1]), np.array([1.0, 2.0, 2.0, 1.0]))
    >>> rows.x.ravel().tolist(), rows.codes.tolist(), rows.groups.tolist()
    ([1.0, 1.0, 2.0, 2.0, 2.0, 5.0], [1, 1, 0, 0, 0, -1], [0, 0, 1, 1, 1, 2])
    """
    labelled = np.flatnonzero((codes >= 0) & (weights > 0))
    unlabelled = np.flatnonzero((codes < 0) & (weights > 0))
    if len(np.unique(codes[labelled])) < 2:
        raise ValueError(
            "labelled rows of at least 2 classes must have a sample_weight above 0; got "
            f"{len(np.unique(codes[labelled]))} class(es)."
        )
    keys = np.column_stack([x[labelled].reshape(len(labelled), -1), codes[labelled]])
    _, first, merged = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    totals = np.bincount(merged.ravel(), weights[labelled])
    rows = np.concatenate([labelled[first], unlabelled])
    counts = copies(np.concatenate([totals, weights[unlabelled]]))
    groups = np.repeat(np.arange(len(rows)), counts)
    chosen = rows[groups]
    return WeightedRows(x[chosen], codes[chosen], groups)


def copies(weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return how often each row is repeated, (n,), in proportion to positive weights.

    >>> copies(np.array([0.5, 1.5])).tolist(), copies(np.array([1.0, 1.6])).tolist()
    ([1, 3], [8, 12])
    """
    multiples = weights / weights.min()
    whole = np.rint(multiples)
    small = whole.sum() <= MOST_COPIES * len(weights)
    if small and np.allclose(multiples, whole, rtol=0, atol=ROUNDING):
        exact: NDArray[np.int64] = whole.astype(np.int64)
        return exact
    wanted = weights * (COPIES * len(weights) / weights.sum())
    counts: NDArray[np.int64] = np.floor(wanted).astype(np.int64)
    left = COPIES * len(weights) - int(counts.sum())
    counts[np.argsort(counts - wanted, kind="stable")[:left]] += 1
    return counts
