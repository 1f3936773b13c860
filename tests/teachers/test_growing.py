from collections.abc import Callable

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier

from dessl.teachers import growing
from dessl.teachers.growing import Nodes, grown_nodes
from dessl.teachers.trees import as_arrays


def split_nodes(nodes: Nodes) -> np.ndarray:
    return np.flatnonzero(nodes.left != np.arange(len(nodes.left)))


@pytest.mark.parametrize("least_leaf", [1, 2, 5])
def test_children_share_the_rows_of_their_parent(blobs: Callable, least_leaf: int) -> None:
    rows = blobs(n_l=90)
    x, y = rows.x_l.float().numpy(), rows.y_l.numpy()
    (nodes,) = grown_nodes(x, y, 20, least_leaf, seed=0)
    inner = split_nodes(nodes)
    children = nodes.counts[nodes.left[inner]] + nodes.counts[nodes.right[inner]]
    assert np.array_equal(children, nodes.counts[inner])
    assert np.array_equal(nodes.counts[:20], np.tile(np.bincount(y), (20, 1)))
    assert nodes.counts.sum(1).min() >= least_leaf
    leaves = np.setdiff1d(np.arange(len(nodes.left)), inner)
    assert (nodes.counts[leaves].max(1) == nodes.counts[leaves].sum(1)).mean() >= 0.3
    reached = as_arrays([nodes]).mean_shares(rows.x_l)
    assert float((reached.argmax(1) == rows.y_l).float().mean()) > 0.9


def test_the_law_is_that_of_scikit_learn(blobs: Callable) -> None:
    rows = blobs(n_l=60)
    x, y = rows.x_l.float().numpy(), rows.y_l.numpy()
    blocks = grown_nodes(x, y, 300, 2, seed=0)
    ours = as_arrays(blocks)
    model = ExtraTreesClassifier(100, min_samples_leaf=2, random_state=0).fit(x, y)
    theirs = model.predict_proba(rows.x_new.float().numpy())
    assert ours.mean_shares(rows.x_new).numpy() == pytest.approx(theirs, abs=0.2)
    assert np.abs(ours.mean_shares(rows.x_new).numpy() - theirs).mean() < 0.03
    nodes = np.mean([one.tree_.node_count for one in model.estimators_])
    assert len(ours.column) / 300 == pytest.approx(nodes, rel=0.2)  # two standard errors: 13 %


def test_a_node_looks_on_until_a_column_is_not_constant() -> None:
    x = np.zeros((40, 100), np.float32)
    x[:, 7] = np.arange(40)
    y = (np.arange(40) >= 20).astype(np.int64)
    (nodes,) = grown_nodes(x, y, 10, 1, seed=0)
    assert set(nodes.column[split_nodes(nodes)].tolist()) == {7}
    assert (nodes.counts[np.setdiff1d(np.arange(len(nodes.left)), split_nodes(nodes))] > 0).sum(
        1
    ).max() == 1


def test_equal_rows_of_two_classes_stay_a_leaf() -> None:
    x, y = np.ones((10, 3), np.float32), np.arange(10) % 2
    (nodes,) = grown_nodes(x, y, 4, 1, seed=0)
    assert nodes.depth == 0
    assert nodes.counts.tolist() == [[5, 5]] * 4


def test_blocks_of_trees_make_one_forest(blobs: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = blobs(n_l=50)
    x, y = rows.x_l.float().numpy(), rows.y_l.numpy()
    monkeypatch.setattr(growing, "VALUES_AT_ONCE", 200)
    blocks = grown_nodes(x, y, 7, 2, seed=1)
    assert sum(block.trees for block in blocks) == 7
    assert len(blocks) > 1
    forest = as_arrays(blocks)
    each = [as_arrays([block]).mean_shares(rows.x_new) * block.trees / 7 for block in blocks]
    assert forest.mean_shares(rows.x_new).numpy() == pytest.approx(sum(each).numpy())


def test_columns_of_a_node_are_all_different() -> None:
    drawn = growing._drawn_columns(500, 9, 3, np.random.default_rng(0))
    assert all(len(set(column)) == 3 for column in drawn.T.tolist())
    assert np.bincount(drawn.ravel(), minlength=9).min() > 120
