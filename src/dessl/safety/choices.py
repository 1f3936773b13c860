"""Which rows might have been labelled instead: the random choices behind permutation p-values.

Without groups, every choice of n_l rows is as likely as the observed one. With groups, such as a
patient's rows, labels may have been given to whole groups. Then only the groups are exchangeable:
each one takes over the labelled share of another, and which of its rows are labelled is drawn
again. That is exact if whole groups were labelled at random, whatever their sizes. It is also
exact if rows were labelled at random within groups of one size; for groups of unequal sizes, shares
of small groups vary more than those of large ones, which makes p-values somewhat too large.
"""

import numpy as np
from numpy.typing import NDArray

PERMUTATIONS = 199

Codes = NDArray[np.int64]


def choices(
    labelled: NDArray[np.bool_],
    *,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
    strata: Codes | None = None,
    groups: Codes | None = None,
) -> NDArray[np.float32]:
    """Return the observed choice of labelled rows and random ones, (permutations + 1, n).

    Args:
        labelled: (n,) which rows are labelled: the first choice.
        permutations: Number of random choices.
        seed: Seed of the draws.
        strata: (n,) stratum of each row; rows are exchanged only within a stratum.
        groups: (n,) group of each row, each within one stratum; whole groups are exchanged.

    >>> drawn = choices(np.array([True, False, False]), permutations=4)
    >>> drawn.shape, drawn[0].tolist(), drawn.sum(1).tolist()
    ((5, 3), [1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0, 1.0])
    >>> drawn = choices(np.array([True, True, False, False]), groups=np.array([0, 0, 1, 1]))
    >>> np.unique(drawn, axis=0).tolist()
    [[0.0, 0.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0]]
    """
    generator = np.random.default_rng(seed)
    marks = labelled.astype(np.float32)
    found = np.repeat(marks[None], permutations + 1, 0)
    parts = [np.arange(len(marks))]
    if strata is not None:
        parts = [np.flatnonzero(strata == stratum) for stratum in np.unique(strata)]
    for rows in parts:
        if groups is None:
            found[1:, rows] = generator.permuted(found[1:, rows], axis=1)
        else:
            found[1:, rows] = _of_groups(labelled[rows], groups[rows], permutations, generator)
    return found


def _of_groups(
    labelled: NDArray[np.bool_],
    groups: Codes,
    permutations: int,
    generator: np.random.Generator,
) -> NDArray[np.float32]:
    """Random choices (permutations, n) in which groups take over each other's labelled shares."""
    _, number = np.unique(groups, return_inverse=True)
    sizes = np.bincount(number)
    known = np.bincount(number, labelled, minlength=len(sizes)).astype(np.int64)
    other = generator.permuted(np.tile(np.arange(len(sizes)), (permutations, 1)), axis=1)
    if ((known == 0) | (known == sizes)).all():
        found: NDArray[np.float32] = (known > 0)[other][:, number].astype(np.float32)
        return found
    # A smaller group takes some of the other's rows; a larger one needs more rows like these.
    taken = np.minimum(sizes, sizes[other])
    counts = generator.hypergeometric(known[other], (sizes - known)[other], taken)
    counts += generator.binomial(sizes - taken, (known / sizes)[other])
    ordered = np.sort(number)
    place = np.arange(len(number)) - (np.cumsum(sizes) - sizes)[ordered]
    shuffled = (number + generator.random((permutations, len(number)))).argsort(1)  # in groups
    chosen = np.empty((permutations, len(number)), np.float32)
    np.put_along_axis(chosen, shuffled, (place < counts[:, ordered]).astype(np.float32), 1)
    return chosen


def group_folds(groups: Codes, folds: int, generator: np.random.Generator) -> Codes:
    """Return a fold for each row, (n,), the same for all rows of a group.

    >>> found = group_folds(np.array([7, 7, 3, 9]), 3, np.random.default_rng(0))
    >>> bool(found[0] == found[1]), len(set(found.tolist()))
    (True, 3)
    """
    present, number = np.unique(groups, return_inverse=True)
    found: Codes = (generator.permutation(len(present)) % folds)[number]
    return found
