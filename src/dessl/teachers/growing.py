"""Growing extremely randomised trees, all nodes of a level of many trees at once.

A node of n rows looks at √d columns drawn at random, draws one threshold in each, uniform between
its rows' least and largest value, and takes the one with the purest children (Gini):

    argmax  Σ_c l_c² / l + Σ_c r_c² / r,     l, r ≥ the least rows of a leaf

which is the law of scikit-learn's ``ExtraTreesClassifier``. Of few rows, that spends most of its
time in Python, tree by tree, and its import takes as long as a hundred trees.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

VALUES_AT_ONCE = 400_000  # rows × columns looked at × trees: few enough to stay in the cache
FLAT = 1e-7  # a column with a smaller range is constant, as it is for scikit-learn

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Nodes(NamedTuple):
    """All nodes of some trees; the roots come first, and a leaf is its own child.

    Attributes:
        column: (nodes,) what a node looks at; 0 at a leaf.
        threshold: (nodes,) a row goes left where its value is at most that; 0 at a leaf.
        left: (nodes,) node numbers.
        right: (nodes,) node numbers.
        counts: (nodes, classes) rows of each class.
        depth: Longest way from a root to a leaf.
        trees: How many.
    """

    column: Ints
    threshold: Floats
    left: Ints
    right: Ints
    counts: Ints
    depth: int
    trees: int


class _Level(NamedTuple):
    """Nodes of one level that may split, and their rows, node after node."""

    numbers: Ints
    rows: Ints
    sizes: Ints
    counts: Ints


class _Splits(NamedTuple):
    """The best split of each node, whether there is one, and which rows go left."""

    column: Ints
    threshold: Floats
    found: NDArray[np.bool_]
    goes_left: NDArray[np.bool_]


def grown_nodes(
    x: NDArray[np.float32], y: Ints, trees: int, least_leaf: int, seed: int
) -> list[Nodes]:
    """Return the nodes of some trees, in blocks of trees.

    Args:
        x: (n, d).
        y: (n,) class numbers, each class from 0 on.
        trees: How many.
        least_leaf: Rows in a leaf at least.
        seed: Of the columns and thresholds.

    >>> x, y = np.arange(8, dtype=np.float32)[:, None], np.repeat([0, 1], 4)
    >>> nodes = grown_nodes(x, y, 3, 1, seed=0)[0]
    >>> nodes.counts[:3].tolist()
    [[4, 4], [4, 4], [4, 4]]
    """
    looks_at = max(1, int(np.sqrt(x.shape[1])))
    together = max(1, VALUES_AT_ONCE // (len(x) * looks_at))
    draws = np.random.default_rng(seed)
    sizes = [min(together, trees - first) for first in range(0, trees, together)]
    return [_block(x, y, size, looks_at, least_leaf, draws) for size in sizes]


def _block(
    x: NDArray[np.float32],
    y: Ints,
    trees: int,
    looks_at: int,
    least_leaf: int,
    draws: np.random.Generator,
) -> Nodes:
    n, classes = len(y), int(y.max()) + 1
    counts = np.tile(np.bincount(y, minlength=classes), (trees, 1))
    level = _Level(np.arange(trees), np.tile(np.arange(n), trees), np.full(trees, n), counts)
    every, splits = [counts], []
    known, depth = trees, 0
    while len((level := _splittable(level, least_leaf)).numbers):
        split = _best_splits(x, y, level, looks_at, least_leaf, draws)
        numbers = level.numbers[split.found]
        children = _children(y, level, split, known)
        if len(numbers):
            first = known + 2 * np.arange(len(numbers))
            column, threshold = split.column[split.found], split.threshold[split.found]
            splits.append((numbers, column, threshold, first))
            every.append(children.counts)
            known, depth = known + 2 * len(numbers), depth + 1
        level = children
    column, threshold = np.zeros(known, np.int64), np.zeros(known)
    left, right = np.arange(known), np.arange(known)
    for numbers, columns, thresholds, first in splits:
        column[numbers], threshold[numbers] = columns, thresholds
        left[numbers], right[numbers] = first, first + 1
    return Nodes(column, threshold, left, right, np.concatenate(every), depth, trees)


def _splittable(level: _Level, least_leaf: int) -> _Level:
    """The nodes that are neither pure nor too small."""
    enough = level.sizes >= max(2, 2 * least_leaf)
    open_ = enough & (level.counts.max(1, initial=0) < level.sizes)
    rows = level.rows[np.repeat(open_, level.sizes)]
    return _Level(level.numbers[open_], rows, level.sizes[open_], level.counts[open_])


def _best_splits(
    x: NDArray[np.float32],
    y: Ints,
    level: _Level,
    looks_at: int,
    least_leaf: int,
    draws: np.random.Generator,
) -> _Splits:
    nodes, columns, classes = len(level.numbers), x.shape[1], level.counts.shape[1]
    starts = np.cumsum(level.sizes) - level.sizes
    node = np.repeat(np.arange(nodes), level.sizes)
    drawn = _drawn_columns(nodes, columns, looks_at, draws)
    values = x.ravel()[level.rows * columns + np.repeat(drawn, level.sizes, axis=1)]
    low, high = (
        part.reduceat(values, starts, axis=1).astype(np.float64)
        for part in (np.minimum, np.maximum)
    )
    flat = high <= low + FLAT
    for one in np.flatnonzero(flat.all(0)):  # look on until a column is not constant
        own = slice(starts[one], starts[one] + level.sizes[one])
        rows = x[level.rows[own]]
        usable = np.flatnonzero(np.ptp(rows, 0) > FLAT)
        if len(usable):
            drawn[0, one] = draws.choice(usable)
            values[0, own] = rows[:, drawn[0, one]]
            low[0, one], high[0, one] = values[0, own].min(), values[0, own].max()
            flat[0, one] = False
    threshold = low + draws.random(low.shape) * (high - low)
    threshold = np.where(threshold < high, threshold, low)
    left = values <= np.repeat(threshold, level.sizes, axis=1)
    label = y[level.rows]
    lefts = np.stack(
        [
            np.add.reduceat(left & (label == one), starts, axis=1, dtype=np.int64)
            for one in range(classes)
        ]
    )
    rights = level.counts.T[:, None] - lefts
    n_left, n_right = lefts.sum(0), rights.sum(0)
    allowed = ~flat & (n_left >= least_leaf) & (n_right >= least_leaf)
    purity = (lefts**2).sum(0) / n_left.clip(1) + (rights**2).sum(0) / n_right.clip(1)
    best = np.where(allowed, purity, -np.inf).argmax(0)
    of_best = best, np.arange(nodes)
    goes_left = left[best[node], np.arange(len(node))]
    return _Splits(drawn[of_best], threshold[of_best], allowed[of_best], goes_left)


def _drawn_columns(nodes: int, columns: int, looks_at: int, draws: np.random.Generator) -> Ints:
    """(looks_at, nodes) columns of each node, all different: draws with equal ones are repeated."""
    drawn = draws.integers(columns, size=(looks_at, nodes))
    again = np.arange(nodes)
    while looks_at > 1 and len(again):
        ordered = np.sort(drawn[:, again], axis=0)
        again = again[(ordered[1:] == ordered[:-1]).any(0)]
        drawn[:, again] = draws.integers(columns, size=(looks_at, len(again)))
    return drawn


def _children(y: Ints, level: _Level, split: _Splits, known: int) -> _Level:
    """The next level: two children of each node that splits, left before right."""
    place = np.cumsum(split.found) - 1
    stays = np.repeat(split.found, level.sizes)
    child = 2 * np.repeat(place, level.sizes)[stays] + ~split.goes_left[stays]
    nodes, classes = 2 * int(split.found.sum()), level.counts.shape[1]
    order = np.argsort(child, kind="stable")
    rows = level.rows[stays][order]
    counts = np.bincount(child[order] * classes + y[rows], minlength=nodes * classes)
    counts = counts.reshape(nodes, classes)
    return _Level(known + np.arange(nodes), rows, counts.sum(1), counts)
