"""Rows and their weights in one canonical form, so that weighting a row is repeating it.

Equal labelled rows are merged, and their weights added; rows of weight 0 are left out; labelled
rows are sorted. Each row is then repeated as often as its weight says: exactly, where the weights
are whole numbers or whole multiples of the least of them (up to 20 times the rows, or as many rows
as came), and else to the nearest of 10 copies a row in the mean, with and without a label apart:
the risk has a mean of each. So the result does not depend on the order of labelled rows.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dessl.data.row_keys import row_keys

MOST_COPIES = 20  # a row in the mean, of weights that are whole multiples
COPIES = 10  # a row in the mean, of weights that are not
ROUNDING = 1e-9
LARGEST_WHOLE = 2.0**53  # past it, floats leave whole numbers out


class WeightedRows(NamedTuple):
    """Rows to train on: x (m, ...), class numbers (m,), which rows are copies of one (m,), and ids.

    The labelled rows come first. The id of a row is its number among those that came, by which a
    surrogate such as ``Teacher`` knows it; copies beyond those that came have numbers after them.
    """

    x: NDArray[Any]
    codes: NDArray[np.int64]
    groups: NDArray[np.int64]
    ids: NDArray[np.int64]


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
    >>> rows.ids.tolist()
    [1, 4, 0, 2, 5, 3]
    """
    labelled = np.flatnonzero((codes >= 0) & (weights > 0))
    unlabelled = np.flatnonzero((codes < 0) & (weights > 0))
    if len(np.unique(codes[labelled])) < 2:
        raise ValueError(
            "labelled rows of at least 2 classes must have a sample_weight above 0; got "
            f"{len(np.unique(codes[labelled]))} class(es)."
        )
    keys = row_keys(x[labelled], codes[labelled])
    _, first, merged = np.unique(keys, return_index=True, return_inverse=True)
    totals = np.bincount(merged, weights[labelled]).astype(np.float64)
    rows = np.concatenate([labelled[first], unlabelled])
    came = np.concatenate([labelled[np.argsort(merged, kind="stable")], unlabelled])
    sizes = np.concatenate([np.bincount(merged), np.ones(len(unlabelled), np.int64)])
    counts = copies(totals, weights[unlabelled], came=len(came))
    groups = np.repeat(np.arange(len(rows)), counts)
    chosen = rows[groups]
    return WeightedRows(x[chosen], codes[chosen], groups, _ids(came, sizes, counts, len(codes)))


def _ids(
    came: NDArray[np.int64], sizes: NDArray[np.int64], counts: NDArray[np.int64], n: int
) -> NDArray[np.int64]:
    """The numbers of the rows that came, ``sizes`` of each, as far as ``counts`` copies need them.

    Copies beyond them are numbered from n.
    """
    turn = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    place = np.repeat(np.cumsum(sizes) - sizes, counts) + turn
    extra = turn >= np.repeat(sizes, counts)
    ids = came[np.where(extra, 0, place)]
    ids[extra] = n + np.arange(extra.sum())
    return ids


def copies(
    labelled: NDArray[np.float64], unlabelled: NDArray[np.float64], *, came: int
) -> NDArray[np.int64]:
    """Return how often each row is repeated, (n_l + n_u,), in proportion to positive weights.

    Args:
        labelled: Weights of the merged labelled rows, (n_l,).
        unlabelled: Weights of the unlabelled rows, (n_u,).
        came: How many rows there were before equal ones were merged.

    >>> none = np.empty(0)
    >>> copies(np.array([0.5, 1.5]), none, came=2).tolist()
    [1, 3]
    >>> copies(np.array([1.0, 1.6]), none, came=2).tolist()
    [8, 12]
    """
    weights = np.concatenate([labelled, unlabelled])
    with np.errstate(over="ignore"):  # far too many copies are too many
        multiples = weights / _unit(weights)
        whole = np.rint(multiples)
        small = whole.sum() <= max(MOST_COPIES * len(weights), came)
    if small and np.allclose(multiples, whole, rtol=0, atol=ROUNDING):
        exact: NDArray[np.int64] = whole.astype(np.int64)
        return exact
    return np.concatenate([_nearest(labelled), _nearest(unlabelled)])


def _unit(weights: NDArray[np.float64]) -> float:
    """The largest number that whole weights are multiples of; the least of other weights."""
    if weights.min() >= 1 and weights.max() < LARGEST_WHOLE and (weights == np.rint(weights)).all():
        return float(np.gcd.reduce(weights.astype(np.int64)))
    return float(weights.min())


def _nearest(weights: NDArray[np.float64]) -> NDArray[np.int64]:
    if not len(weights):
        return np.empty(0, np.int64)
    shares = weights / weights.max()
    wanted = shares * (COPIES * len(weights) / shares.sum())
    counts: NDArray[np.int64] = np.floor(wanted).astype(np.int64)
    left = COPIES * len(weights) - int(counts.sum())
    counts[np.argsort(counts - wanted, kind="stable")[:left]] += 1
    return counts
