"""Weights as repetitions: rows and their weights in one canonical form.

Equal labelled rows are merged and their weights added; rows of weight 0 are dropped; labelled rows
are sorted, so that their order does not matter. Each row is then repeated in proportion to its
weight: exactly, if the weights are whole numbers or whole multiples of the smallest (up to 20 times
the number of rows given). Otherwise weights are rounded to 10 copies per row on average (or to the
number of labelled rows given, if merging removed more), separately with and without a label, since
the risk has a mean of each. The copies are distributed over the classes first, then within each: a
class gets its share of the copies to within one, and at least one. A row whose weight is less than
a tenth of the mean may get no copy; the other rows of its class take its share.

All copies of a row are held out together and count as one held-out label when λ is chosen: a weight
makes a label more important, not more certain.
"""

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dessl.data.row_keys import row_keys

MOST_COPIES = 20  # for each row given, on average, where weights are whole multiples
COPIES = 10  # for each row, on average, where they are not
ROUNDING = 1e-9
LARGEST_WHOLE = 2.0**53  # above it, floats skip whole numbers
FAR_OFF = 0.25  # of a class's copies: more than that gives a warning
MOST_NAMES = 5  # of classes in a warning


class WeightedRows(NamedTuple):
    """Rows to train on, the labelled ones first.

    Attributes:
        x: (m, ...).
        codes: (m,) class numbers, -1 for unlabelled.
        groups: (m,) numbers, the same for copies of one row, or for rows of one given group.
        ids: (m,) numbers of the original rows, by which a surrogate such as ``Teacher`` looks them
            up; additional copies have numbers after them.
        copies: The average number of copies per original row: 1 if weights are exact.
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
    given: NDArray[np.int64] | None = None,
) -> WeightedRows:
    """Return the canonical rows.

    Warns if weights are too unequal to be represented by copies.

    Args:
        x: (n, ...).
        codes: (n,), -1 for unlabelled.
        weights: (n,), none negative.
        classes: Names of the classes for a warning; their numbers if not given.
        given: (n,) groups of rows that belong together. Equal rows with the same label are merged,
            and belong to the group of the first.

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
    originals = np.concatenate([labelled[np.argsort(merged, kind="stable")], unlabelled])
    sizes = np.concatenate([np.bincount(merged), np.ones(len(unlabelled), np.int64)])
    own = codes[labelled[first]]
    counts, per_row = copies(totals, weights[unlabelled], codes=own, n_rows=len(originals))
    names = np.arange(codes.max() + 1) if classes is None else classes
    warn_of_rounding(counts[: len(own)], totals, own, names)
    groups = np.repeat(np.arange(len(rows)), counts)
    chosen, ids = rows[groups], _ids(originals, sizes, counts, len(codes))
    together = groups if given is None else given[chosen]
    return WeightedRows(x[chosen], codes[chosen], together, ids, per_row)


def _ids(
    originals: NDArray[np.int64], sizes: NDArray[np.int64], counts: NDArray[np.int64], n: int
) -> NDArray[np.int64]:
    """The numbers of the original rows, ``sizes`` of each, as many as ``counts`` copies need.

    Additional copies are numbered from n.
    """
    turn = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    place = np.repeat(np.cumsum(sizes) - sizes, counts) + turn
    extra = turn >= np.repeat(sizes, counts)
    ids = originals[np.where(extra, 0, place)]
    ids[extra] = n + np.arange(extra.sum())
    return ids


class Copies(NamedTuple):
    """How often each row is repeated, (n_l + n_u,), and the number of copies per row."""

    counts: NDArray[np.int64]
    per_row: int


def copies(
    labelled: NDArray[np.float64],
    unlabelled: NDArray[np.float64],
    *,
    codes: NDArray[np.int64],
    n_rows: int,
) -> Copies:
    """Return how often each row is repeated, in proportion to positive weights.

    If that is exact, each copy represents one row: a row of weight 2 occurs twice.

    Args:
        labelled: Weights of the merged labelled rows, (n_l,).
        unlabelled: Weights of the unlabelled rows, (n_u,).
        codes: Class numbers of the merged labelled rows, (n_l,).
        n_rows: How many rows there were before equal ones were merged.

    >>> none, codes = np.empty(0), np.array([0, 1])
    >>> copies(np.array([0.5, 1.5]), none, codes=codes, n_rows=2)
    Copies(counts=array([1, 3]), per_row=1)
    >>> copies(np.array([1.0, 1.6]), none, codes=codes, n_rows=2)
    Copies(counts=array([ 8, 12]), per_row=10)
    """
    weights = np.concatenate([labelled, unlabelled])
    with np.errstate(over="ignore"):  # far too many copies are too many
        multiples = weights / _unit(weights)
        whole = np.rint(multiples)
        small = whole.sum() <= MOST_COPIES * n_rows
    if small and np.allclose(multiples, whole, rtol=0, atol=ROUNDING):
        return Copies(whole.astype(np.int64), 1)
    exact_l = _exact_copies(labelled, at_least=n_rows - len(unlabelled))
    exact_u = _exact_copies(unlabelled)
    counts = [_by_class(exact_l, codes), _rounded(exact_u, COPIES * len(unlabelled))]
    return Copies(np.concatenate(counts), COPIES)


def warn_of_rounding(
    counts: NDArray[np.int64],
    weights: NDArray[np.float64],
    codes: NDArray[np.int64],
    classes: NDArray[Any],
) -> None:
    """Warn about dropped labelled rows, and about classes whose share differs much from its weight.

    Args:
        counts: Copies of each labelled row, (n,).
        weights: Of the same rows, (n,).
        codes: Their class numbers, (n,).
        classes: What the classes are called.
    """
    expected = np.bincount(codes, weights / weights.max())
    expected, actual = expected / expected.sum(), np.bincount(codes, counts) / counts.sum()
    effects = []
    if not counts.all():
        effects.append(
            f"{(counts == 0).sum()} of {len(counts)} labelled rows are dropped, and others of "
            "their class count more instead"
        )
    far = np.flatnonzero(np.abs(actual - expected) > FAR_OFF * expected)
    effects += [
        f"the class {classes[code]} has {actual[code]:.2g} of the labelled weight instead of "
        f"{expected[code]:.2g}"
        for code in far[:MOST_NAMES]
    ]
    if len(far) > MOST_NAMES:
        effects.append(f"{len(far) - MOST_NAMES} more classes are affected")
    if effects:
        warnings.warn(
            f"sample_weight is rounded to an average of {COPIES} copies per labelled row, too few "
            f"for such unequal weights: {'; '.join(effects)}. Pass less unequal weights.",
            UserWarning,
            stacklevel=4,  # at the call of fit
        )


def _unit(weights: NDArray[np.float64]) -> float:
    """The greatest common divisor of whole weights; the smallest of other weights."""
    if weights.min() >= 1 and weights.max() < LARGEST_WHOLE and (weights == np.rint(weights)).all():
        return float(np.gcd.reduce(weights.astype(np.int64)))
    return float(weights.min())


def _exact_copies(weights: NDArray[np.float64], at_least: int = 0) -> NDArray[np.float64]:
    """The copies of each row before they are rounded."""
    if not len(weights):
        return np.empty(0)
    shares = weights / weights.max()
    exact: NDArray[np.float64] = shares * (max(COPIES * len(weights), at_least) / shares.sum())
    return exact


def _by_class(exact: NDArray[np.float64], codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Round to whole copies, each row and class by less than one, at least one per class."""
    _, number = np.unique(codes, return_inverse=True)
    in_class = np.bincount(number, exact).astype(np.float64)
    totals = np.maximum(_rounded(in_class, round(exact.sum())), 1)
    counts = np.empty(len(exact), np.int64)
    for code, total in enumerate(totals):
        counts[number == code] = _rounded(exact[number == code], int(total))
    return counts


def _rounded(exact: NDArray[np.float64], total: int) -> NDArray[np.int64]:
    """Round so that the sum is ``total``, rounding up the largest remainders."""
    counts: NDArray[np.int64] = np.floor(exact).astype(np.int64)
    left = max(0, total - int(counts.sum()))
    counts[np.argsort(counts - exact, kind="stable")[:left]] += 1
    return counts
