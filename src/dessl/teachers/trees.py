"""Trees: extremely randomised trees, grown by scikit-learn and kept as plain arrays.

p = (T · mean over the T trees of p_tree + π) / (T + 1): one more tree, which votes for the class
shares π, so that no class has probability 0. It is fitted on labelled rows only.

A split is the best of one random threshold in each of several columns. Trees that try the root of
the number of columns average out best if many columns tell of the class; trees that try up to 64 of
them find the few that do, and the interactions of these.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dessl.teachers.base import (
    Classes,
    State,
    checked_columns,
    checked_rows,
    not_fitted,
    taken_from,
    under,
)

TREES = 100
LEAST_LEAF = 2
TRIED = (None, 64)  # columns tried at a split; None for the root of their number
ROWS_AT_ONCE = 1024


class Forest(NamedTuple):
    """Decision trees as arrays over all nodes of all trees; a leaf is its own child.

    Attributes:
        roots: (trees,) node numbers.
        column: (nodes,) column that a node splits on; 0 at a leaf.
        threshold: (nodes,) float64; a row goes left if its value is at most this.
        left: (nodes,) node numbers.
        right: (nodes,) node numbers.
        shares: (nodes, p) class shares, float64.
        depth: () length of the longest path from a root to a leaf.
    """

    roots: Tensor
    column: Tensor
    threshold: Tensor
    left: Tensor
    right: Tensor
    shares: Tensor
    depth: Tensor

    def mean_shares(self, x: Tensor) -> Tensor:
        """Return the trees' mean class shares (n, p), float64, of rows (n, d)."""
        used = self.column.max() if len(self.column) else -1
        if int(used) >= x.shape[1]:
            raise ValueError(
                f"the trees split on column {int(used) + 1}; got {x.shape[1]} columns."
            )
        blocks = torch.split(x.float(), ROWS_AT_ONCE)
        return torch.cat([self.shares[self._leaves(block)].mean(1) for block in blocks])

    def _leaves(self, x: Tensor) -> Tensor:
        """The leaf of each row in each tree, (n, trees): paths go on until they end in one.

        NumPy takes entries by their numbers in half of PyTorch's time or less.
        """
        column, threshold = self.column.numpy(), self.threshold.numpy()
        children = torch.stack([self.left, self.right], 1).flatten().numpy()
        is_leaf = children[::2] == np.arange(len(column))
        values = x.double().flatten().numpy()  # exact: thresholds lie between float32 values
        node = self.roots.repeat(len(x)).numpy()
        first = np.repeat(np.arange(len(x)) * x.shape[1], len(self.roots))
        paths = np.arange(len(node))
        for _ in range(int(self.depth)):
            here = node.take(paths)
            goes_left = values.take(first + column.take(here)) <= threshold.take(here)
            here = children.take(2 * here + ~goes_left)
            node[paths] = here
            on = np.flatnonzero(~is_leaf.take(here))
            paths, first = paths.take(on), first.take(on)
        return torch.from_numpy(node).view(len(x), -1)


class Trees:
    """Extremely randomised trees on the unscaled columns.

    Args:
        trees: Number of trees.
        least_leaf: Minimum number of labelled rows in a leaf.
        tried: Most columns tried at a split; None for the root of their number.
        seed: Seed of the random splits.

    >>> x = torch.arange(8.0)[:, None]
    >>> trees = Trees(seed=0).fit(x, (x[:, 0] > 3).long(), x[:0], 2)
    >>> trees.predict_log_proba(torch.tensor([[0.0], [7.0]])).argmax(1).tolist()
    [0, 1]
    """

    uses_unlabelled = False
    ignores_x_u = True

    def __init__(
        self,
        trees: int = TREES,
        least_leaf: int = LEAST_LEAF,
        *,
        tried: int | None = None,
        seed: int = 0,
    ) -> None:
        self.trees = trees
        self.least_leaf = least_leaf
        self.tried = tried
        self.seed = seed
        self.name = "trees" if tried is None else f"trees m={tried}"
        self._forest: Forest | None = None

    def fit(
        self, x_l: Tensor, y_l: Tensor, x_u: Tensor, n_classes: int, weights: Tensor | None = None
    ) -> Self:
        """Grow the trees on labelled rows."""
        rows = checked_rows(x_l, y_l, x_u, n_classes, weights)
        x, y = rows.x_l.float().contiguous().numpy(), rows.y_l.numpy()
        counts = None if rows.weights is None else rows.weights.numpy()
        shape = (self.trees, self.least_leaf, self.tried)
        self._forest = as_arrays(grown(x, y, *shape, seed=self.seed, weights=counts))
        self._classes = Classes.of(rows.y_l, n_classes, rows.weights)
        return self

    def fit_targets(self, x: Tensor, targets: Tensor, weights: Tensor) -> Self:
        """Grow the trees on probabilities instead of labels: a leaf has the mean of its rows.

        Args:
            x: (n, d) rows.
            targets: (n, n_classes) probabilities.
            weights: (n,) how much each row counts.

        >>> x, q = torch.arange(8.0)[:, None], torch.tensor([[0.9, 0.1], [0.2, 0.8]])
        >>> trees = Trees(seed=0).fit_targets(x, q.repeat_interleave(4, 0), torch.ones(8))
        >>> trees.predict_log_proba(torch.tensor([[0.0], [7.0]])).argmax(1).tolist()
        [0, 1]
        """
        columns = checked_columns("x", x).float().contiguous().numpy()
        q, counts = targets.double(), weights.double()
        shape = (self.trees, self.least_leaf, self.tried)
        self._forest = as_arrays(
            grown_on_targets(columns, q.numpy(), counts.numpy(), *shape, seed=self.seed)
        )
        prior = (counts @ q + 1) / (counts.sum() + q.shape[1])
        self._classes = Classes(torch.arange(q.shape[1]), prior)
        return self

    def predict_log_proba(self, x: Tensor) -> Tensor:
        """Return log-probabilities (n, n_classes)."""
        if self._forest is None:
            raise not_fitted(self)
        votes = torch.zeros(len(x), len(self._classes.prior), dtype=torch.float64)
        votes[:, self._classes.present] = self._forest.mean_shares(checked_columns("x", x))
        return ((self.trees * votes + self._classes.prior) / (self.trees + 1)).log()

    def state(self) -> State:
        """Return the trees' arrays."""
        if self._forest is None:
            raise not_fitted(self)
        own = {"trees": self.trees, "least_leaf": self.least_leaf, "seed": self.seed}
        own |= {} if self.tried is None else {"tried": self.tried}
        return State(under("forest", self._forest) | under("classes", self._classes), own)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild fitted trees."""
        own = {name: int(state.settings[name]) for name in ("trees", "least_leaf", "seed")}
        tried = state.settings.get("tried")  # left out if it is None
        tried = None if tried is None else int(tried)
        new = cls(own["trees"], own["least_leaf"], tried=tried, seed=own["seed"])
        new._forest = _checked_forest(taken_from(state.tensors, "forest", Forest))
        new._classes = taken_from(state.tensors, "classes", Classes)
        return new


def joined(forests: Sequence[Trees]) -> Trees:
    """Return one forest of all trees of several fitted ones of the same setting.

    Its probabilities are the mean of theirs.
    """
    first = forests[0]
    new = Trees(first.trees, first.least_leaf, tried=first.tried, seed=first.seed)
    parts = [one._forest for one in forests if one._forest is not None]
    if len(parts) < len(forests):
        raise not_fitted(first)
    sizes = torch.tensor([len(one.column) for one in parts])
    starts = (sizes.cumsum(0) - sizes).tolist()
    numbered = [
        one._replace(roots=one.roots + start, left=one.left + start, right=one.right + start)
        for one, start in zip(parts, starts, strict=True)
    ]
    *arrays, depths = zip(*numbered, strict=True)
    new._forest = Forest._make([*map(torch.cat, arrays), torch.stack(depths).amax()])
    prior = torch.stack([one._classes.prior for one in forests]).mean(0)
    new._classes = Classes(first._classes.present, prior)
    return new


def _checked_forest(forest: Forest) -> Forest:
    """Reject saved trees whose arrays do not form trees."""
    n = len(forest.shares)
    lengths = {len(part) for part in (forest.column, forest.threshold, forest.left, forest.right)}
    inside = all(
        bool(((part >= 0) & (part < n)).all()) for part in (forest.roots, forest.left, forest.right)
    )
    inside = inside and not bool((forest.column < 0).any())
    if lengths != {n} or not inside or not 0 <= int(forest.depth) <= n:
        raise ValueError("the saved trees are damaged: their arrays are inconsistent.")
    return forest


def grown(
    x: NDArray[np.float32],
    y: NDArray[np.int64],
    trees: int,
    least_leaf: int,
    tried: int | None = None,
    *,
    seed: int,
    weights: NDArray[np.float64] | None = None,
) -> list[Any]:
    """Return the trees of scikit-learn's ``ExtraTreesClassifier``, grown one by one.

    The trees are the same, in less than half the time: with few rows, the forest spends most of its
    time copying and checking parameters.

    Args:
        x: (n, d).
        y: (n,) class numbers.
        trees: Number of trees.
        least_leaf: Minimum number of rows in a leaf.
        tried: Most columns tried at a split; None for the root of their number.
        seed: Seed of the forest.
        weights: (n,) how much each row counts.
    """
    seeds = _seeds(trees, seed)
    parts = (x, y, weights, least_leaf, _columns_tried(x, tried))
    try:
        return _built(*parts, seeds)
    except (ImportError, AttributeError, TypeError):  # these parts of scikit-learn are not public
        from sklearn.tree import ExtraTreeClassifier

        return _fitted(ExtraTreeClassifier, *parts, seeds)


def _columns_tried(x: NDArray[np.float32], tried: int | None) -> int:
    return max(1, int(np.sqrt(x.shape[1])) if tried is None else min(tried, x.shape[1]))


def _seeds(trees: int, seed: int) -> list[int]:
    draws = np.random.RandomState(seed)  # the forest draws its trees' seeds from it
    return [draws.randint(np.iinfo(np.int32).max) for _ in range(trees)]


def grown_on_targets(
    x: NDArray[np.float32],
    targets: NDArray[np.float64],
    weights: NDArray[np.float64],
    trees: int,
    least_leaf: int,
    tried: int | None = None,
    *,
    seed: int,
) -> list[Any]:
    """Return the trees of scikit-learn's ``ExtraTreesRegressor`` on probabilities.

    Args:
        x: (n, d).
        targets: (n, classes) probabilities.
        weights: (n,) how much each row counts.
        trees: Number of trees.
        least_leaf: Minimum number of rows in a leaf.
        tried: Most columns tried at a split; None for the root of their number.
        seed: Seed of the forest.
    """
    from sklearn.tree import ExtraTreeRegressor

    parts = (x, np.ascontiguousarray(targets), weights, least_leaf, _columns_tried(x, tried))
    return _fitted(ExtraTreeRegressor, *parts, _seeds(trees, seed))


def _built(
    x: NDArray[np.float32],
    y: NDArray[np.int64],
    weights: NDArray[np.float64] | None,
    least_leaf: int,
    columns: int,
    seeds: Sequence[int],
) -> list[Any]:
    """Trees grown as ``ExtraTreeClassifier`` grows them, without checking each tree's arguments."""
    from sklearn.tree._criterion import Gini
    from sklearn.tree._splitter import RandomSplitter
    from sklearn.tree._tree import DepthFirstTreeBuilder, Tree

    classes, numbers = np.unique(y, return_inverse=True)
    target = numbers.reshape(-1, 1).astype(np.float64)
    counts = np.array([len(classes)], np.intp)
    found = []
    for seed in seeds:
        random, least_weight = np.random.RandomState(seed), 0.0
        leaf = (least_leaf, least_weight)
        splitter = RandomSplitter(Gini(1, counts), columns, *leaf, random, None)
        tree = Tree(x.shape[1], counts, 1)
        deepest = np.iinfo(np.int32).max
        builder = DepthFirstTreeBuilder(splitter, max(2, 2 * least_leaf), *leaf, deepest, 0.0)
        builder.build(tree, x, target, weights)
        found.append(tree)
    return found


def _fitted(
    kind: Any,
    x: NDArray[np.float32],
    y: NDArray[Any],
    weights: NDArray[np.float64] | None,
    least_leaf: int,
    columns: int,
    seeds: Sequence[int],
) -> list[Any]:
    """Trees grown by a public class of scikit-learn; a classifier takes up to twice the time."""
    from sklearn import config_context

    with config_context(skip_parameter_validation=True):
        return [
            kind(min_samples_leaf=least_leaf, max_features=columns, random_state=seed)
            .fit(x, y, weights, check_input=False)
            .tree_
            for seed in seeds
        ]


def as_arrays(trees: Sequence[Any]) -> Forest:
    """Return fitted trees of scikit-learn as arrays."""
    roots = np.cumsum([0, *(tree.node_count for tree in trees)])[:-1]
    own = np.arange(sum(tree.node_count for tree in trees))
    left, right = (
        np.concatenate(
            [getattr(tree, side) + root for tree, root in zip(trees, roots, strict=True)]
        )
        for side in ("children_left", "children_right")
    )
    leaf = np.concatenate([tree.children_left < 0 for tree in trees])
    # A classifier's values are (nodes, 1, classes), a regression's (nodes, classes, 1).
    shares = np.concatenate([tree.value.reshape(tree.node_count, -1) for tree in trees])
    arrays = (
        roots,
        np.where(leaf, 0, np.concatenate([tree.feature for tree in trees])),
        np.concatenate([tree.threshold for tree in trees]).astype(np.float64),
        np.where(leaf, own, left),
        np.where(leaf, own, right),
        shares / shares.sum(1, keepdims=True),
        np.array(max(tree.max_depth for tree in trees)),
    )
    return Forest(*(torch.from_numpy(np.ascontiguousarray(part)) for part in arrays))
