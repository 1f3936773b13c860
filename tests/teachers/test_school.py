"""Rows split by their use: none is used twice."""

import dataclasses

import pytest
import torch
from tests.teachers.three_clouds import NAMES, SHORT, answers, data, school

from dessl.data import SemiData
from dessl.teachers import Answers
from dessl.teachers.crossfit import FOLDS
from dessl.teachers.school import Parts, School, imitating_networks


def test_networks_never_train_on_what_they_leave_out() -> None:
    gold = school("good").networks.gold
    counts = gold.folds.bincount()
    assert int(counts.max() - counts.min()) <= 1
    for fold in range(FOLDS):
        assert set(gold.inside(fold).tolist()).isdisjoint(gold.outside(fold).tolist())
    one = school("good")
    assert set(one.pool_rows.tolist()).isdisjoint(one.evaluation_rows.tolist())
    assert len(one.networks.pairs) == 20


def test_a_tenth_of_the_unlabelled_rows_is_kept_out_of_training() -> None:
    one, every = school("good"), data()
    assert one.gold_rows.tolist() == list(range(60))
    assert torch.equal(one.gold_y, every.y[:60])
    assert (len(one.evaluation_rows), len(one.pool_rows), one.n_unlabelled) == (54, 486, 540)
    assert sorted([*one.evaluation_rows.tolist(), *one.pool_rows.tolist()]) == list(range(60, 600))
    torch.testing.assert_close(one.x_pool, one.space(every.x[one.pool_rows]))
    torch.testing.assert_close(one.x_evaluation, one.space(every.x[one.evaluation_rows]))
    (teacher_answers,) = one.answers_for(one.evaluation_rows)
    expected = answers("good")[one.evaluation_rows].argmax(1)
    assert torch.equal(teacher_answers.probabilities.argmax(1), expected)


def test_members_are_in_the_order_of_the_rows() -> None:
    one = school("good")
    alone = Parts(students=(), imitators=(), corrections=(), names=("gold only",))
    assert torch.equal(one.out_of_fold(alone), one.networks.out_of_fold[None])
    found, folds = one.drawn(alone)
    assert found.shape == (1, 54, 3)
    assert set(folds.tolist()) == set(range(FOLDS))
    for fold in range(FOLDS):
        rows = (folds == fold).nonzero().flatten()
        assert torch.equal(found[:, rows], one.members(fold, alone, rows))


def test_lessons_leave_their_fold_out() -> None:
    one = school("good")
    for fold, lesson in enumerate(one.lessons(answers=False)):
        assert torch.equal(lesson.labelled, one.networks.gold.outside(fold))
        assert torch.equal(lesson.held_out, one.networks.gold.inside(fold))
        assert lesson.targets is not None
        assert lesson.targets.shape == (486, 3)


def test_only_hard_teachers_have_a_confusion() -> None:
    one = school("good")
    (table,) = one.confusions()
    assert table is not None
    assert table.shape == (FOLDS, 3, 3)
    torch.testing.assert_close(table.sum(-1), torch.ones(FOLDS, 3, dtype=torch.float64))
    soft = dataclasses.replace(one, answers=(Answers.of(answers("good")[:600], NAMES),))
    assert soft.confusions() == (None,)


def test_rows_that_belong_together_are_refused() -> None:
    """Folds of rows would evaluate a group by networks that learnt from it."""
    rows = data()
    grouped = SemiData(rows.x, rows.y, class_names=NAMES, groups=torch.arange(600) // 2)
    with pytest.raises(ValueError, match="too high for new groups, also if you omit groups"):
        School.of(grouped, answers("good")[:600], SHORT, 0, models=())


def test_labelling_probabilities_are_refused() -> None:
    rows = data()
    propensity = torch.full((600,), 0.1)
    weighted = SemiData(rows.x, rows.y, class_names=NAMES, propensity=propensity)
    with pytest.raises(ValueError, match="gold labels drawn at random from all rows"):
        School.of(weighted, answers("good")[:600], SHORT, 0, models=())


def test_a_teacher_without_answers_to_imitate_is_named() -> None:
    silent = Answers.of([*[None] * 5, "a"], NAMES, name="silent").taken(torch.arange(5))
    with pytest.raises(ValueError, match="silent answered none of the 5 unlabelled rows"):
        imitating_networks(torch.zeros(5, 4), silent, SHORT, seed=0)
