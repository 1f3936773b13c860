"""The debiased student: λ from gold rows, and an unbiased risk for any teacher."""

import pytest
import torch
from tests.teachers.three_clouds import NAMES, SHORT, answers, data, loss, rows, school

from dessl.teachers import Answers, debiased_student
from dessl.teachers.crossfit import FOLDS
from dessl.teachers.debiased_student import debiased_lessons
from dessl.teachers.fold_networks import Lesson
from dessl.teachers.relative_slope import relative_slope


def test_the_debiased_student_ignores_a_teacher_that_gold_rows_do_not_vouch_for() -> None:
    good, bad = (
        debiased_student(data(), Answers.of(answers(kind)[:600], NAMES), setting=SHORT)
        for kind in ("good", "shuffled")
    )
    assert float(good.lam.mean()) > 0.3
    assert float(bad.lam.max()) < 0.15
    assert bool((good.lam <= 1).all())
    x = rows()[0][600:]
    assert loss(good.predict_log_proba(x)) < loss(bad.predict_log_proba(x))


def test_lambda_is_the_relative_slope_without_the_fold() -> None:
    one = school("good")
    gold = one.networks.gold
    lessons, lam = debiased_lessons(one)
    assert lam.shape == (FOLDS, 1)
    said = gold.answers[0].probabilities[None]
    for fold, lesson in enumerate(lessons):
        others = gold.outside(fold)
        p = one.networks.out_of_fold_without(fold)[others].exp()
        expected = relative_slope(p, said[:, others], gold.y[others], n_unlabelled=486).lam
        torch.testing.assert_close(lam[fold], expected)
        assert lesson.lam == pytest.approx(float(lam[fold].sum()))
        assert lesson.risk == "debiased"
        assert torch.equal(lesson.labelled, others)


def test_a_lambda_of_the_user_s_own_is_used_as_it_is() -> None:
    lessons, lam = debiased_lessons(school("good"), lam=0.5)
    assert lam.tolist() == [[0.5]] * FOLDS
    assert [lesson.lam for lesson in lessons] == [0.5] * FOLDS
    with pytest.raises(ValueError, match=r"lam must lie in \[0, inf\]; got -1"):
        debiased_lessons(school("good"), lam=-1.0)


def test_corrected_lessons_must_have_targets() -> None:
    bare = [Lesson(torch.arange(3), torch.arange(2))] * FOLDS
    with pytest.raises(ValueError, match="must have answers to gold and to unlabelled rows"):
        debiased_lessons(school("good"), corrected=bare)
