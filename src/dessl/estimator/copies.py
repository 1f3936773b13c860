"""How often each row is repeated, so that weights are repetitions.

Exactly as often as its weight says, where the weights are whole numbers or whole multiples of the
least of them (up to 20 times the rows that came). Otherwise to the nearest of 10 copies a row in
the mean (or as many labelled rows as came, if equal ones were so many), with and without a label
apart: the risk has a mean of each. The copies then go to the classes first, and within each to its
rows: a class has its share of the copies to less than one, and always one at least. A row that
weighs less than a tenth of the mean may be without a copy; others of its class have its share.
A copy for each such row would make a class of many light rows several times too heavy.
"""

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST_COPIES = 20  # a row that came in the mean, of weights that are whole multiples
COPIES = 10  # a row in the mean, of weights that are not
ROUNDING = 1e-9
LARGEST_WHOLE = 2.0**53  # past it, floats leave whole numbers out
FAR_OFF = 0.25  # of a class's copies: more than that is told
MOST_NAMES = 5  # of classes in a warning


class Copies(NamedTuple):
    """How often each row is repeated, (n_l + n_u,), and how many copies stand for one row."""

    counts: NDArray[np.int64]
    a_row: int


def copies(
    labelled: NDArray[np.float64],
    unlabelled: NDArray[np.float64],
    *,
    codes: NDArray[np.int64],
    came: int,
) -> Copies:
    """Return how often each row is repeated, in proportion to positive weights.

    Where that is exact, each copy stands for one row: a row of weight 2 is a row twice.

    Args:
        labelled: Weights of the merged labelled rows, (n_l,).
        unlabelled: Weights of the unlabelled rows, (n_u,).
        codes: Class numbers of the merged labelled rows, (n_l,).
        came: How many rows there were before equal ones were merged.

    >>> none, codes = np.empty(0), np.array([0, 1])
    >>> copies(np.array([0.5, 1.5]), none, codes=codes, came=2)
    Copies(counts=array([1, 3]), a_row=1)
    >>> copies(np.array([1.0, 1.6]), none, codes=codes, came=2)
    Copies(counts=array([ 8, 12]), a_row=10)
    """
    weights = np.concatenate([labelled, unlabelled])
    with np.errstate(over="ignore"):  # far too many copies are too many
        multiples = weights / _unit(weights)
        whole = np.rint(multiples)
        small = whole.sum() <= MOST_COPIES * came
    if small and np.allclose(multiples, whole, rtol=0, atol=ROUNDING):
        return Copies(whole.astype(np.int64), 1)
    wanted_l = _wanted(labelled, at_least=came - len(unlabelled))
    wanted_u = _wanted(unlabelled)
    counts = [_by_class(wanted_l, codes), _rounded(wanted_u, COPIES * len(unlabelled))]
    return Copies(np.concatenate(counts), COPIES)


def warn_of_rounding(
    counts: NDArray[np.int64],
    weights: NDArray[np.float64],
    codes: NDArray[np.int64],
    classes: NDArray[Any],
) -> None:
    """Tell of labelled rows left out, and of classes whose share is far from that asked for.

    Args:
        counts: Copies of each labelled row, (n,).
        weights: Of the same rows, (n,).
        codes: Their class numbers, (n,).
        classes: What the classes are called.
    """
    asked = np.bincount(codes, weights / weights.max())
    asked, given = asked / asked.sum(), np.bincount(codes, counts) / counts.sum()
    told = []
    if not counts.all():
        told.append(
            f"{(counts == 0).sum()} of {len(counts)} labelled rows are dropped, and others of "
            "their class count more instead"
        )
    far = np.flatnonzero(np.abs(given - asked) > FAR_OFF * asked)
    told += [
        f"the class {classes[code]} has {given[code]:.2g} of the labelled weight instead of "
        f"{asked[code]:.2g}"
        for code in far[:MOST_NAMES]
    ]
    if len(far) > MOST_NAMES:
        told.append(f"{len(far) - MOST_NAMES} more classes are affected")
    if told:
        warnings.warn(
            f"sample_weight is rounded to an average of {COPIES} copies per labelled row, too few "
            f"for such unequal weights: {'; '.join(told)}. Pass less unequal weights.",
            UserWarning,
            stacklevel=4,  # at the call of fit
        )


def _unit(weights: NDArray[np.float64]) -> float:
    """The largest number that whole weights are multiples of; the least of other weights."""
    if weights.min() >= 1 and weights.max() < LARGEST_WHOLE and (weights == np.rint(weights)).all():
        return float(np.gcd.reduce(weights.astype(np.int64)))
    return float(weights.min())


def _wanted(weights: NDArray[np.float64], at_least: int = 0) -> NDArray[np.float64]:
    """The copies of each row before they are rounded."""
    if not len(weights):
        return np.empty(0)
    shares = weights / weights.max()
    wanted: NDArray[np.float64] = shares * (max(COPIES * len(weights), at_least) / shares.sum())
    return wanted


def _by_class(wanted: NDArray[np.float64], codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Round to whole copies, each row's and each class's by less than one, none without."""
    _, number = np.unique(codes, return_inverse=True)
    in_class = np.bincount(number, wanted).astype(np.float64)
    totals = np.maximum(_rounded(in_class, round(wanted.sum())), 1)
    counts = np.empty(len(wanted), np.int64)
    for code, total in enumerate(totals):
        counts[number == code] = _rounded(wanted[number == code], int(total))
    return counts


def _rounded(wanted: NDArray[np.float64], total: int) -> NDArray[np.int64]:
    """Round so that the sum is a total, the largest remainders up."""
    counts: NDArray[np.int64] = np.floor(wanted).astype(np.int64)
    left = max(0, total - int(counts.sum()))
    counts[np.argsort(counts - wanted, kind="stable")[:left]] += 1
    return counts
