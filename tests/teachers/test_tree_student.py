"""Trees that learn from corrected answers: their targets, that nothing leaks, where they join."""

import dataclasses
import json
from functools import cache

import pytest
import torch
from tests.teachers.three_clouds import SHORT, data, rows, school
from torch import Tensor

from dessl.data import SemiData
from dessl.teachers import DEFAULT, Taught, Trees, learn_from_answers
from dessl.teachers import tree_student as module
from dessl.teachers.base import State
from dessl.teachers.crossfit import FOLDS
from dessl.teachers.school import Parts, School
from dessl.teachers.tree_student import GOLD_WEIGHT, LEAST_LEAF, NAME, TREES, TRIED, tree_students


@cache
def squares() -> tuple[Tensor, Tensor]:
    """A law of rules that 100 labels do not show to a network: the squares of a coloured board."""
    g = torch.Generator().manual_seed(0)
    x = torch.rand(2400, 3, generator=g) * 4
    return x, (x[:, 0].floor() + x[:, 1].floor()).long() % 3


@cache
def taught(kind: str, models: tuple[str, ...] = DEFAULT) -> Taught:
    """A student of a teacher that is right on 85 % of the rows, or of its answers to others."""
    x, y = squares()
    g = torch.Generator().manual_seed(1)
    said = torch.where(torch.rand(2400, generator=g) < 0.15, (y + 1) % 3, y)
    if kind == "shuffled":
        said = said[torch.randperm(2400, generator=g)]
    some = SemiData(x[:2000], torch.where(torch.arange(2000) < 100, y[:2000], -1))
    return learn_from_answers(some, said[:2000], setting=SHORT, models=models)


def accuracy(found: Taught) -> float:
    x, y = squares()
    return float((found.predict_log_proba(x[2000:]).argmax(1) == y[2000:]).double().mean())


def test_trees_learn_rules_from_answers() -> None:
    with_trees, without = taught("good"), taught("good", ("graph", "linear"))
    assert with_trees.report.student.kept
    assert NAME in with_trees.others
    assert accuracy(with_trees) > 0.9 > 0.75 > accuracy(without)


def test_shuffled_answers_are_not_learnt() -> None:
    found = taught("shuffled")
    assert not found.report.student.kept
    assert NAME in found.report.student.members
    assert NAME not in found.others


def test_a_fold_may_have_no_unlabelled_row_to_predict() -> None:
    """Of 12 unlabelled rows, one is kept out of training: four of five folds predict none."""
    x, y = squares()
    few = SemiData(x[:72], torch.where(torch.arange(72) < 60, y[:72], -1))
    found = learn_from_answers(few, y[:72], setting=SHORT, models=("trees",))
    assert NAME in found.report.student.members
    assert found.evaluated is not None
    assert bool(torch.isfinite(found.evaluated.taught).all())


def test_trees_of_a_fold_grow_on_its_lesson() -> None:
    """Against a forest grown on the rows, targets and weights that the docstring names."""
    one = school("good", "trees")
    lessons = one.lessons()
    fold, x = 2, data().x
    own = one.networks.gold.outside(fold)
    targets = lessons[fold].targets
    assert targets is not None
    expected = Trees(TREES, LEAST_LEAF, tried=TRIED, seed=one.seed + 300 + fold).fit_targets(
        torch.cat([x[one.pool_rows], x[one.gold_rows[own]]]),
        torch.cat([targets, torch.eye(3)[one.gold_y[own]]]),
        torch.tensor([1.0] * len(one.pool_rows) + [GOLD_WEIGHT] * len(own)),
    )
    new = rows()[0][600:]
    found = tree_students(one, lessons)[fold].predict_log_proba(new)
    assert torch.equal(found, expected.predict_log_proba(new))


def test_no_label_of_a_fold_reaches_the_trees_that_predict_it() -> None:
    one, fold = school("good", "trees"), 1
    gold = one.networks.gold
    y = gold.y.clone()
    y[gold.inside(fold)] = (y[gold.inside(fold)] + 1) % 3
    networks = dataclasses.replace(one.networks, gold=dataclasses.replace(gold, y=y))
    other = dataclasses.replace(one, networks=networks, gold_y=y)
    before, after = (tree_students(its, its.lessons()) for its in (one, other))
    new = rows()[0][600:]
    same = [
        torch.equal(a.predict_log_proba(new), b.predict_log_proba(new))
        for a, b in zip(before, after, strict=True)
    ]
    assert same == [number == fold for number in range(FOLDS)]


def test_gold_and_other_rows_are_predicted_by_the_trees_without_their_fold() -> None:
    one = school("good", "trees")
    trees = tree_students(one, one.lessons())
    parts = Parts((), (), (), ("gold only", NAME), trees)
    found, (drawn, folds) = one.out_of_fold(parts)[1], one.drawn(parts)
    for fold in range(FOLDS):
        its = one.networks.gold.inside(fold)
        expected = trees[fold].predict_log_proba(one.x[one.gold_rows[its]])
        assert torch.equal(found[its], expected)
        unlabelled = one.evaluation_rows[folds == fold]
        expected = trees[fold].predict_log_proba(one.x[unlabelled])
        assert torch.equal(drawn[1, folds == fold], expected)


@pytest.mark.parametrize(("models", "expected"), [((), False), (("linear",), False),
                                                  (("linear", "trees"), True)])  # fmt: skip
def test_trees_learn_from_answers_where_trees_are_asked_for(
    models: tuple[str, ...], *, expected: bool
) -> None:
    assert school("good", *models).has_trees is expected


def test_many_rows_are_cut_to_the_first_drawn_and_leaves_grow_with_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[int, int]] = []

    def noted(self: Trees, x: Tensor, targets: Tensor, weights: Tensor) -> Trees:
        assert len(x) == len(targets) == len(weights)
        seen.append((len(x), self.least_leaf))
        return self

    one: School = school("good", "trees")
    monkeypatch.setattr(Trees, "fit_targets", noted)
    monkeypatch.setattr(module, "MOST_ROWS", 100)
    monkeypatch.setattr(module, "MOST_LEAVES", 10)
    tree_students(one, one.lessons())
    assert seen == [(148, 10)] * FOLDS  # 100 unlabelled rows, and 48 gold rows of the other folds


def test_trees_are_saved_and_loaded_with_the_student() -> None:
    found = taught("good")
    tensors, settings = found.state()
    again = Taught.from_state(State(tensors, json.loads(json.dumps(settings))))
    x = squares()[0][2000:]
    assert isinstance(again.others[NAME], Trees)
    assert torch.equal(again.predict_log_proba(x), found.predict_log_proba(x))
    assert len(tensors["others.0.forest.roots"]) == FOLDS * TREES
