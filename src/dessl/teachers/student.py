"""Learn from an untrusted teacher: correct, distil and pool its answers; gold rows decide.

    S_k: mean_L CE(y) + mean_U CE(q̃_k), stopped on fold k       T: mean_U CE(q), no gold row
    and a debiased student, mean_L CE(y) + λ (mean_U CE(q̃_k) − mean_L CE(q̃_k)), λ by relative
    slope
    S⁰: like S, without a teacher: q̃ are the gold-only networks' predictions, recalibrated
    pool: softmax Σ_m w_m log p_m of cc, S⁰, S, T (or cc, S⁰, S, q̃: teacher at prediction time)
    gate: keep the pool if its cross-fitted out-of-fold CE is below that of the best without answers
          (cc, or cc and S⁰ pooled) by one standard error

Nothing that learns from a gold label is evaluated on it, and no network's step is selected by a
label it is evaluated on (:mod:`dessl.teachers.crossfit`). So a teacher that shuffles, inverts or
exaggerates is detected and dropped, and no teacher gets credit for what students gain without one.
"""

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dessl import _checks
from dessl.data import SemiData
from dessl.data.labels import MISSING
from dessl.evaluation import ShiftWarning, estimate_metric
from dessl.evaluation.debiased.proxies import METRICS, sampled
from dessl.evaluation.debiased.shift import LEVEL, shift_test
from dessl.evaluation.metrics import debiased_ece
from dessl.evaluation.verdict import shown_p
from dessl.teachers.answers import Answers, answered_by_any
from dessl.teachers.cross_corrected import fold_corrections
from dessl.teachers.crossfit import FOLDS
from dessl.teachers.debiased_student import debiased_lessons
from dessl.teachers.fold_networks import NetworkSetting, Trained
from dessl.teachers.pool import least_cross_entropy, losses
from dessl.teachers.school import Parts, School
from dessl.teachers.taught import Evaluated, Listening, Taught
from dessl.teachers.taught_report import Choice, Interval, TaughtReport, TeacherQuality, passes
from dessl.training.progress import doing
from dessl.training.threads import one_thread

TOTAL, OTHERS = (
    3.0,
    0.5,
)  # penalties of the pool: on Σw − 1, and on all weights but the complete case's
NEEDED = 1.0  # standard errors by which the pool must be better
WITHOUT = 2  # first members of the pool, which use no teacher


def learn_from_answers(
    data: SemiData,
    answers: Any = None,
    *,
    at_prediction: bool = False,
    seed: int = 0,
    setting: NetworkSetting | None = None,
    out: str | Path | None = None,
) -> Taught:
    """Train a student from few gold labels and one or several teachers' answers to all rows.

    The student needs no teacher. With ``at_prediction=True`` there is a second predictor, which
    takes the teachers' answers to new rows as input: ``predict_log_proba(x, answers)``. Neither is
    knowingly worse than the gold labels alone, which are used if gold rows show no gain.

    Args:
        data: A table with gold labels.
        answers: :class:`~dessl.teachers.answers.Answers`, or a list of them for several teachers;
            or one column of classes or table of probabilities as accepted by :meth:`Answers.of`.
            They cover all rows of ``data``, in its order. Default: ``data.teachers``.
        at_prediction: Whether the teachers will also answer at prediction time.
        seed: Seed of folds, weights and draws.
        setting: Size and length of the networks.
        out: Folder for checkpoints, used to resume training; None to keep nothing.

    >>> g = torch.Generator().manual_seed(0)
    >>> x = torch.randn(400, 2, generator=g)
    >>> truth = (x[:, 0] > 0).long()
    >>> data = SemiData(x, torch.where(torch.arange(400) < 40, truth, -1))
    >>> noisy = torch.where(torch.rand(400, generator=g) < 0.2, 1 - truth, truth)
    >>> taught = learn_from_answers(data, noisy, setting=NetworkSetting(steps=40, student_steps=40))
    >>> taught.predict_log_proba(x).shape, taught.report.student.kept
    (torch.Size([400, 2]), True)
    """
    if answers is None:
        answers = _answers_of(data)
    place = None if out is None else Path(out)
    at_prediction = _checks.true_or_false("at_prediction", at_prediction)
    with one_thread():
        school = School.of(data, answers, setting or NetworkSetting(), seed, place)
        return taught_by(school, at_prediction=at_prediction)


def _answers_of(data: SemiData) -> list[Answers]:
    if not data.teachers:
        raise ValueError(
            "no answers given. Pass answers=, or teachers= to SemiData: one answer for each row."
        )
    return [
        one if isinstance(one, Answers) else Answers.of(one, data.class_names, name=name)
        for name, one in data.teachers.items()
    ]


def taught_by(school: School, *, at_prediction: bool) -> Taught:
    """Train students and imitators, pool, and decide.

    Args:
        school: The rows and the gold-only networks.
        at_prediction: Whether the teachers will also answer at prediction time.
    """
    with doing("students"):
        students = students_of(school)
    with doing("imitations of the teachers"):
        imitators = school.imitators()
    kinds = tuple(students.values())
    names = (*students, *(f"imitation of {one.name}" for one in school.answers))
    student, rows = evaluated(school, Parts(kinds, imitators, (), names))
    _warn_of_shift(rows)
    full, plain = (fold_corrections(school.networks, matrix=matrix) for matrix in (True, False))
    listening, with_answers = None, None
    if at_prediction:
        names = (*students, "corrected answers", "corrected answers, one number")
        alone = rows.taught if student.kept else rows.without
        with_answers, with_rows = evaluated(school, Parts(kinds, (), (full, plain), names), alone)
        rows = rows._replace(with_answers=with_rows.taught)
        listening = Listening(full, plain, school.confusions())
    trust = torch.stack([correction.trust for correction in plain]).mean(0).tolist()
    qualities = tuple(map(_quality, school.answers, [school] * len(trust), trust))
    report = TaughtReport(len(school.gold_y), school.n_unlabelled, qualities, student, with_answers)
    networks = {
        "complete_case": tuple(one.network for one in school.networks.singles),
        "students": tuple(one.network for kind in kinds for one in kind),
        "imitators": tuple(network for pair in imitators for network in pair),
    }
    parts = (school.class_names, school.space, school.setting, networks, listening, report)
    return Taught(*parts, rows)


def _warn_of_shift(rows: Evaluated) -> None:
    """Warn once, for all estimates of a report, if gold rows do not look like the other rows."""
    gold, p = rows.y != MISSING, rows.taught.exp()
    sample = sampled(METRICS["accuracy"], (p[gold],), rows.y[gold], (p[~gold],))
    test = shift_test(sample.labelled, sample.unlabelled)
    if test.p_value < LEVEL:
        warnings.warn(
            "the rows without a gold label do not look like the gold rows "
            f"({shown_p(test.p_value)}), so all estimates and intervals may be wrong: they "
            "assume that gold rows were drawn at random from all rows. Draw gold rows at random, "
            "or rely on the results only for rows like the gold rows.",
            ShiftWarning,
            stacklevel=2,
        )


def students_of(school: School) -> dict[str, list[Trained]]:
    """The students of each fold by kind, those without a teacher first."""
    corrected = school.lessons()
    names, lessons = ["self-taught student", "student"], [*school.lessons(answers=False)]
    lessons += corrected
    if school.setting.debiased:
        fair, lam = debiased_lessons(school, corrected=corrected)
        if bool((lam > 0).any()):  # otherwise it would be another gold-only network
            names, lessons = [*names, "debiased student"], [*lessons, *fair]
    networks = school.students(lessons)
    return {name: networks[i * FOLDS : (i + 1) * FOLDS] for i, name in enumerate(names)}


def evaluated(
    school: School, parts: Parts, alone: Tensor | None = None
) -> tuple[Choice, Evaluated]:
    """Pool the members with and without the answers; return what gold rows decide, and why.

    Args:
        school: The rows and the gold-only networks.
        parts: The members of the pool.
        alone: Log-probabilities of the student, (gold and other rows, classes), for a pool that
            takes answers as input: the student predicts rows without an answer.
    """
    gold, logs = school.networks.gold, school.out_of_fold(parts)
    n, answered = len(gold.y), _answered(school)
    if alone is None:
        answered = torch.ones_like(answered)
    answered_gold = answered[:n]
    predicted = _predicted(school, parts, logs, answered_gold)
    if alone is not None:
        predicted[2] = torch.where(answered[:, None], predicted[2], alone)
    found = [losses(log_p[:n], gold.y) for log_p in predicted]
    base = 1 if float(found[1].mean()) < float(found[0].mean()) else 0
    fall = found[base] - found[2]
    error = float(fall.std()) / math.sqrt(n)
    kept = predicted[2 if passes(float(fall.mean()), error, NEEDED) else base].exp()
    accuracy = estimate_metric("accuracy", kept[:n], gold.y, kept[n:], check_shift=False)
    choice = Choice(
        members=("gold only", *parts.names),
        weights=tuple(_weights(logs[:, answered_gold], gold.y[answered_gold], len(logs)).tolist()),
        weights_without=tuple(_weights(logs, gold.y, WITHOUT if base else 1).tolist()),
        gold_only_loss=float(found[0].mean()),
        without_loss=float(found[base].mean()),
        pooled_loss=float(found[2].mean()),
        standard_error=error,
        n=n,
        needed=NEEDED,
        accuracy=Interval(accuracy.value, accuracy.low, accuracy.high),
        accuracy_gold_rows=Interval(*accuracy.labelled_only),
    )
    y = torch.cat([gold.y, gold.y.new_full((len(kept) - n,), MISSING)])
    return choice, Evaluated(y, predicted[base], predicted[2])


def _answered(school: School) -> Tensor:
    """Which gold rows, then which rows kept out of training, a teacher answered."""
    rows = torch.cat([school.gold_rows, school.evaluation_rows])
    return answered_by_any(school.answers)[rows]


def _predicted(school: School, parts: Parts, logs: Tensor, answered: Tensor) -> list[Tensor]:
    """Log-probabilities of gold rows, then of rows kept out of training: pools of three sizes.

    They are those of the gold-only networks, of the members without answers, and of all members.
    The weights are fitted without a row's fold, those of all members on gold rows in ``answered``.
    """
    gold, (drawn, folds) = school.networks.gold, school.drawn(parts)
    every, found = torch.ones_like(answered), []
    for first, fitted_on in ((1, every), (WITHOUT, every), (len(logs), answered)):
        own = [rows[fitted_on[rows]] for rows in gold.others]
        w = torch.stack([_weights(logs[:, rows], gold.y[rows], first) for rows in own])
        found.append(torch.cat([pooled_log_p(w[gold.folds], logs), pooled_log_p(w[folds], drawn)]))
    return found


def _weights(logs: Tensor, y: Tensor, first: int) -> Tensor:
    """The weights (members,) of a pool of the first members: 0 for others, 1 for a single one.

    Without rows to fit them on, the first member alone has a weight.
    """
    found = torch.zeros(len(logs), dtype=torch.float64)
    found[0] = 1.0
    if first > 1 and len(y):
        found[:first] = pool_weights(logs[:first], y)
    return found


def _quality(answers: Answers, school: School, trust: float) -> TeacherQuality:
    """How good a teacher is: accuracy on the gold rows it answered, and its calibration."""
    there = answers.answered
    gold = school.gold_rows[there[school.gold_rows]]
    y = school.gold_y[there[school.gold_rows]]
    rest = school.evaluation_rows[there[school.evaluation_rows]]
    said, teacher_answers = (answers.taken(rows).probabilities.double() for rows in (gold, rest))
    accuracy = None
    if len(gold) >= 3:
        others = teacher_answers if len(rest) else None
        found = estimate_metric("accuracy", said, y, others, check_shift=False)
        accuracy = Interval(found.value, found.low, found.high)
    soft = not answers.is_hard and len(gold) >= 3
    return TeacherQuality(
        answers.name,
        float(there.double().mean()),
        accuracy,
        debiased_ece(said, y) if soft else None,
        float(said.amax(1).mean()) if soft else None,
        trust,
    )


def pooled_log_p(weights: Tensor, logs: Tensor) -> Tensor:
    """Return log softmax Σ_m w_m log p_m, (n, classes).

    Args:
        weights: (members,), or (n, members) for separate weights per row.
        logs: (members, n, classes).
    """
    own = weights.expand(logs.shape[1], -1)
    return torch.einsum("nm,mnc->nc", own, logs).log_softmax(-1)


def pool_weights(logs: Tensor, y: Tensor) -> Tensor:
    """Return the pool's weights, (members,), float64; the first member is the complete case.

    w ≥ 0 minimises  mean CE(softmax Σ w_m log p_m) + 3/n (Σ w − 1)² + 0.5/n Σ_{m>0} w_m².

    Args:
        logs: Out-of-fold log-probabilities, (members, n, classes).
        y: Gold labels, (n,).
    """
    n, start = len(y), np.eye(len(logs))[0]
    ridge = OTHERS / n * (1 - start)
    found = least_cross_entropy(logs.double().numpy(), y.numpy(), TOTAL / n, ridge, start)
    return torch.from_numpy(found)
