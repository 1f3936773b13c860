"""Rows and their weights in one canonical form, so that weighting a row is repeating it.

Equal labelled rows are merged, and their weights added; rows of weight 0 are left out; labelled
rows are sorted. Each row is then repeated as often as its weight says, or nearly so: see
:mod:`dessl.estimator.copies`. So the result does not depend on the order of labelled rows. All
copies of a row are held out together, and are one held-out label when λ is chosen and judged: a
weight makes a label heavier, not surer.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dessl.data.row_keys import row_keys
from dessl.estimator.copies import copies, warn_of_rounding


class WeightedRows(NamedTuple):
    """Rows to train on, the labelled ones first.

    Attributes:
        x: (m, ...).
        codes: (m,) class numbers, -1 for unlabelled.
        groups: (m,) numbers, the same for copies of one row.
        ids: (m,) numbers of the rows among those that came, by which a surrogate such as
            ``Teacher`` knows them; copies beyond those that came have numbers after them.
        copies: How many rows stand for one that came, in the mean: 1 where weights are exact.
    """

    x: NDArray[Any]
    codes: NDArray[np.int64]
    groups: NDArray[np.int64]
    ids: NDArray[np.int64]
    copies: int


def weighted_rows(
    x: NDArray[Any],
    codes: NDArray[np.int64],
    weights: NDArray[np.float64],
    classes: NDArray[Any] | None = None,
) -> WeightedRows:
    """Return the canonical rows.

    Warns where weights are so unequal that copies cannot show them.

    Args:
        x: (n, ...).
        codes: (n,), -1 for unlabelled.
        weights: (n,), none negative.
        classes: What the classes are called in a warning; by their numbers if not given.

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
    own = codes[labelled[first]]
    counts, a_row = copies(totals, weights[unlabelled], codes=own, came=len(came))
    names = np.arange(codes.max() + 1) if classes is None else classes
    warn_of_rounding(counts[: len(own)], totals, own, names)
    groups = np.repeat(np.arange(len(rows)), counts)
    chosen, ids = rows[groups], _ids(came, sizes, counts, len(codes))
    return WeightedRows(x[chosen], codes[chosen], groups, ids, a_row)


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
