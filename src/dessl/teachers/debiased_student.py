"""A debiased student: unbiased for any teacher, and more precise with a reliable one.

    mean_L CE(y) + λ ( mean_U CE(q) − mean_L CE(q) ),   λ by the relative slope

in its non-negative form, since L − λH of soft answers has no lower bound. Several teachers have a λ
each; the cross-entropy is linear in q, so that they are one teacher Σ_m λ_m q_m / Σ_m λ_m.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dessl import _checks
from dessl._checks import ArrayLike
from dessl.data import SemiData
from dessl.teachers.base import checked_columns
from dessl.teachers.crossfit import FOLDS
from dessl.teachers.fold_networks import Lesson, NetworkSetting, ensemble_log_p
from dessl.teachers.relative_slope import relative_slope
from dessl.teachers.school import School
from dessl.teachers.space import Space


class DebiasedStudent(NamedTuple):
    """Five students, each stopped on a different fold of the gold rows.

    Attributes:
        networks: One network for each fold.
        lam: λ of each teacher, fold by fold, (folds, teachers).
        space: Transform of rows to network inputs.
    """

    networks: Sequence[nn.Module]
    lam: Tensor
    space: Space

    def predict_log_proba(self, x: ArrayLike) -> Tensor:
        """Return log-probabilities (n, classes), float64, of rows (n, features)."""
        return ensemble_log_p(self.networks, self.space(checked_columns("x", x)))


def debiased_student(
    data: SemiData,
    answers: Any,
    *,
    lam: float | None = None,
    seed: int = 0,
    setting: NetworkSetting | None = None,
) -> DebiasedStudent:
    """Train students on the debiased risk of a teacher's uncorrected answers.

    Args:
        data: A table with gold labels.
        answers: Same as in :func:`dessl.teachers.learn_from_answers`.
        lam: λ of the mean of all teachers; by default from the relative slope of each.
        seed: Seed of folds, weights and draws.
        setting: Size and length of the networks.
    """
    school = School.of(data, answers, setting or NetworkSetting(), seed, models=())
    lessons, lams = debiased_lessons(school, lam=lam)
    networks = [one.network for one in school.students(lessons)]
    return DebiasedStudent(networks, lams, school.space)


def debiased_lessons(
    school: School, *, lam: float | None = None, corrected: Sequence[Lesson] | None = None
) -> tuple[list[Lesson], Tensor]:
    """Return each fold's lesson and λ (folds, teachers), made without the fold's own labels.

    Args:
        school: The rows and the gold-only networks.
        lam: λ; by default from the relative slope.
        corrected: Lessons of corrected answers, used instead of the original answers. They count as
            one teacher, whose answer to an unlabelled row comes from a fold drawn for it: it has
            the distribution of its answers to gold rows, which keeps the risk unbiased.
    """
    gold, lessons, lams = school.networks.gold, [], []
    said = torch.stack([one.probabilities for one in gold.answers])
    teacher_answers = torch.stack(
        [one.probabilities for one in school.answers_for(school.pool_rows)]
    )
    for fold in range(FOLDS):
        rows = gold.outside(fold)
        if corrected is not None:
            lesson = corrected[fold]
            teacher_answers, said = (
                _table(lesson.targets)[None],
                _table(lesson.targets_labelled)[None],
            )
        p = school.networks.out_of_fold_without(fold)[rows].exp()
        if lam is None:
            n_unlabelled = len(school.x_pool)
            its = relative_slope(p, said[:, rows], gold.y[rows], n_unlabelled=n_unlabelled).lam
        else:
            its = torch.full((len(said),), _checks.number("lam", lam, low=0) / len(said)).double()
        share = (its / its.sum() if its.sum() > 0 else torch.full_like(its, 1 / len(its))).float()
        on_rest, on_gold = (
            torch.einsum("m,mnc->nc", share, part) for part in (teacher_answers, said)
        )
        lam_of_all = float(its.sum())
        held_out = gold.inside(fold)
        lessons.append(Lesson(rows, held_out, on_rest, on_gold, lam_of_all, "debiased"))
        lams.append(its)
    return lessons, torch.stack(lams)


def _table(targets: Tensor | None) -> Tensor:
    if targets is None:
        raise ValueError("corrected lessons must have answers to gold and to unlabelled rows.")
    return targets
