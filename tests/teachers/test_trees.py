from collections.abc import Callable
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor, RandomForestClassifier
from sklearn.tree import ExtraTreeClassifier

from dessl.teachers import Trees
from dessl.teachers import trees as trees_module
from dessl.teachers.trees import ROWS_AT_ONCE, TRIED, _fitted, as_arrays, grown, joined


@pytest.mark.parametrize("kind", [ExtraTreesClassifier, RandomForestClassifier])
def test_trees_as_arrays_are_those_of_scikit_learn(blobs: Callable, kind: type) -> None:
    rows = blobs(n_l=200)
    model = kind(50, min_samples_leaf=2, random_state=0)
    model.fit(rows.x_l.numpy(), rows.y_l.numpy())
    found = as_arrays([one.tree_ for one in model.estimators_]).mean_shares(rows.x_new)
    assert found.numpy() == pytest.approx(model.predict_proba(rows.x_new.numpy()), abs=1e-12)


def test_many_rows_are_predicted_like_each_alone(blobs: Callable) -> None:
    rows = blobs(n_l=60)
    trees = Trees(10, seed=3).fit(rows.x_l, rows.y_l, rows.x_u, 3)
    many = rows.x_new.repeat(ROWS_AT_ONCE // len(rows.x_new) + 2, 1)
    alone = torch.cat([trees.predict_log_proba(row[None]) for row in many[-5:]])
    assert len(many) > ROWS_AT_ONCE
    assert trees.predict_log_proba(many)[-5:].equal(alone)


def test_rows_with_too_few_columns_are_refused(blobs: Callable) -> None:
    rows = blobs(n_l=60)
    trees = Trees(10, seed=3).fit(rows.x_l, rows.y_l, rows.x_u, 3)
    with pytest.raises(ValueError, match=rf"split on column {rows.x_l.shape[1]}; got 1 columns"):
        trees.predict_log_proba(rows.x_new[:, :1])


@pytest.mark.parametrize("part", ["roots", "column", "left", "right"])
def test_saved_trees_with_a_number_out_of_range_are_damaged(blobs: Callable, part: str) -> None:
    rows = blobs(n_l=60)
    state = Trees(5).fit(rows.x_l, rows.y_l, rows.x_u, 3).state()
    state.tensors[f"forest.{part}"][0] = -1
    with pytest.raises(ValueError, match="saved trees are damaged"):
        Trees.from_state(state)


def test_one_more_tree_votes_for_the_shares(blobs: Callable) -> None:
    rows = blobs()  # the trees themselves are those that scikit-learn's forest grows
    trees = Trees(20, seed=3).fit(rows.x_l, rows.y_l, rows.x_u, 4)
    model = ExtraTreesClassifier(20, min_samples_leaf=2, random_state=3)
    votes = model.fit(rows.x_l.numpy(), rows.y_l.numpy()).predict_proba(rows.x_new.numpy())
    votes = torch.cat([torch.from_numpy(votes), torch.zeros(len(votes), 1)], 1)
    prior = (rows.y_l.bincount(minlength=4) + 1) / 44
    expected = (20 * votes + prior) / 21
    assert trees.predict_log_proba(rows.x_new).exp().numpy() == pytest.approx(
        expected.numpy(), abs=1e-7
    )


def test_the_columns_tried_are_those_of_scikit_learn(blobs: Callable) -> None:
    rows = blobs(n_l=60)
    for tried, columns in ((1, 1), (64, rows.x_l.shape[1])):  # no more than there are
        trees = Trees(20, tried=tried, seed=3).fit(rows.x_l, rows.y_l, rows.x_u, 3)
        model = ExtraTreesClassifier(20, min_samples_leaf=2, max_features=columns, random_state=3)
        votes = model.fit(rows.x_l.numpy(), rows.y_l.numpy()).predict_proba(rows.x_new.numpy())
        prior = (rows.y_l.bincount(minlength=3) + 1) / 63
        found = trees.predict_log_proba(rows.x_new).exp()
        assert found.numpy() == pytest.approx(((20 * votes + prior.numpy()) / 21), abs=1e-7)
        again = Trees.from_state(trees.state())
        assert again.name == trees.name == f"trees m={tried}"
        assert again.predict_log_proba(rows.x_new).equal(trees.predict_log_proba(rows.x_new))


@pytest.mark.parametrize("weighted", [False, True])
def test_every_tree_is_the_one_that_scikit_learn_grows(blobs: Callable, *, weighted: bool) -> None:
    rows = blobs(n_l=80)
    x, y = rows.x_l.float().numpy(), 2 * rows.y_l.numpy()  # class numbers with gaps
    weights = np.random.default_rng(0).uniform(0.5, 2, len(y)) if weighted else None
    forest = ExtraTreesClassifier(10, min_samples_leaf=3, random_state=5).fit(x, y, weights)
    expected = [one.tree_ for one in forest.estimators_]
    parts = (x, y, weights, 3, int(np.sqrt(x.shape[1])))
    fast = grown(x, y, 10, 3, seed=5, weights=weights)
    seeds = [one.random_state for one in forest.estimators_]
    public = _fitted(ExtraTreeClassifier, *parts, seeds)
    for trees in (fast, public):
        for found, tree in zip(trees, expected, strict=True):
            for name in ("feature", "threshold", "children_left", "children_right", "value"):
                assert (getattr(found, name) == getattr(tree, name)).all()


@pytest.mark.parametrize("error", [ImportError, AttributeError, TypeError])
def test_trees_grow_if_scikit_learn_changes_its_private_parts(
    blobs: Callable, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    rows = blobs(n_l=40)
    before = Trees(5, seed=3).fit(rows.x_l, rows.y_l, rows.x_u, 3).predict_log_proba(rows.x_new)
    monkeypatch.setattr(trees_module, "_built", Mock(side_effect=error("changed")))
    after = Trees(5, seed=3).fit(rows.x_l, rows.y_l, rows.x_u, 3).predict_log_proba(rows.x_new)
    assert after.equal(before)


def test_trees_that_try_many_columns_find_two_that_interact() -> None:
    x = torch.randn(1200, 30, generator=torch.Generator().manual_seed(0))
    y = (x[:, 3].sign() + 3 * (x[:, 7] > 0.5) > 1).long()  # the other columns say nothing
    shown, new = slice(0, 200), slice(200, None)
    loss = {
        tried: -Trees(tried=tried, seed=0)
        .fit(x[shown], y[shown], x[:0], 2)
        .predict_log_proba(x[new])
        .gather(1, y[new, None])
        .mean()
        for tried in TRIED
    }
    assert loss[64] < loss[None] - 0.1


def test_one_class_alone(blobs: Callable) -> None:
    rows = blobs()
    trees = Trees(5).fit(rows.x_l, torch.ones_like(rows.y_l), rows.x_u, 2)
    assert (trees.predict_log_proba(rows.x_new).argmax(1) == 1).all()


def test_trees_of_probabilities_are_those_of_scikit_learn(blobs: Callable) -> None:
    rows, g = blobs(n_l=200), torch.Generator().manual_seed(0)
    targets = torch.rand(200, 3, generator=g).softmax(1)
    weights = 1 + torch.rand(200, generator=g)
    trees = Trees(20, 5, tried=64, seed=3).fit_targets(rows.x_l, targets, weights)
    model = ExtraTreesRegressor(20, min_samples_leaf=5, max_features=1.0, random_state=3)
    model.fit(rows.x_l.numpy(), targets.double().numpy(), weights.double().numpy())
    votes = torch.from_numpy(model.predict(rows.x_new.numpy()))
    prior = (weights.double() @ targets.double() + 1) / (weights.double().sum() + 3)
    expected = (20 * votes + prior) / 21
    assert trees.predict_log_proba(rows.x_new).exp().numpy() == pytest.approx(
        expected.numpy(), abs=1e-7
    )


def test_joined_trees_have_the_mean_of_all(blobs: Callable) -> None:
    rows = blobs(n_l=60)
    parts = [Trees(10, seed=seed).fit(rows.x_l, rows.y_l, rows.x_u, 3) for seed in range(3)]
    whole = joined(parts)
    mean = torch.stack([one.predict_log_proba(rows.x_new).exp() for one in parts]).mean(0)
    torch.testing.assert_close(whole.predict_log_proba(rows.x_new).exp(), mean)
    again = Trees.from_state(whole.state())
    assert torch.equal(again.predict_log_proba(rows.x_new), whole.predict_log_proba(rows.x_new))
    with pytest.raises(RuntimeError, match="has not been fitted"):
        joined([*parts, Trees()])
