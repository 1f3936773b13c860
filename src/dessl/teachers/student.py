"""Learn from an untrusted teacher: correct, distil and pool its answers; gold rows decide.

    S_k: mean_L CE(y) + mean_U CE(q̃_k), stopped on fold k       T: mean_U CE(q), no gold row
    and a debiased student, mean_L CE(y) + λ (mean_U CE(q̃_k) − mean_L CE(q̃_k)), λ by relative
    slope
    S⁰: like S, without a teacher: q̃ are the gold-only networks' predictions, recalibrated
    F_k: trees that learn from what S_k learns from (:mod:`dessl.teachers.tree_student`)
    M: other models without answers, as in the default pool (:mod:`dessl.teachers.other_models`)
    pool: softmax Σ_m w_m log p_m of cc, S⁰, S, T, F, M (with the teacher at prediction time q̃
          instead of T)
    gate: keep the pool if its cross-fitted out-of-fold CE is below that of the model without
          answers (cc, S⁰ and M pooled, or cc where it is better) by one standard error; a teacher
          at prediction time must also be better than what was kept without it, by half of one, and
          is mixed with it: (1 − ε) p + ε p_alone, ε = 1/(n + 2)

Nothing that learns from a gold label is evaluated on it, and no network's step is selected by a
label it is evaluated on (:mod:`dessl.teachers.crossfit`). So a teacher that shuffles, inverts or
exaggerates is detected and dropped, and no teacher gets credit for what is gained without one.
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dessl import _checks
from dessl.data import SemiData
from dessl.data.labels import MISSING
from dessl.evaluation import ShiftWarning, estimate_ece, estimate_metric
from dessl.evaluation.debiased.proxies import METRICS, sampled
from dessl.evaluation.debiased.shift import LEVEL, shift_test
from dessl.evaluation.verdict import shown_p
from dessl.teachers.answers import Answers, named_answers
from dessl.teachers.choice import Interval
from dessl.teachers.cross_corrected import fold_corrections
from dessl.teachers.crossfit import FOLDS
from dessl.teachers.debiased_student import debiased_lessons
from dessl.teachers.fold_networks import Lesson, NetworkSetting, Trained
from dessl.teachers.school import Parts, School
from dessl.teachers.student_pool import evaluated
from dessl.teachers.taught import Evaluated, Listening, Taught
from dessl.teachers.taught_report import CORRECTED, TaughtReport, TeacherQuality
from dessl.teachers.tree_student import NAME, tree_students
from dessl.teachers.trees import Trees, joined
from dessl.training.progress import doing
from dessl.training.threads import one_thread

AVERAGED_ROWS = 5_000  # unlabelled rows on which single networks are compared with their mean


def learn_from_answers(
    data: SemiData,
    answers: Any = None,
    *,
    at_prediction: bool = False,
    seed: int = 0,
    setting: NetworkSetting | None = None,
    out: str | Path | None = None,
    models: Sequence[object] | None = None,
) -> Taught:
    """Train a student from few gold labels and one or several teachers' answers to all rows.

    The student needs no teacher. With ``at_prediction=True`` there is a second predictor, which
    takes the teachers' answers to new rows as input: ``predict_log_proba(x, answers)``. Neither is
    knowingly worse than the gold labels alone, which are used if gold rows show no gain.

    Args:
        data: A table with gold labels.
        answers: :class:`~dessl.teachers.answers.Answers`, or one column of classes or table of
            probabilities as accepted by :meth:`Answers.of`; for several teachers, a dict of them by
            name, or a list. They cover all rows of ``data``, in its order. Default:
            ``data.teachers``.
        at_prediction: Whether the teachers will also answer at prediction time.
        seed: Seed of folds, weights and draws.
        setting: Size and length of the networks.
        out: Folder for checkpoints, used to resume training; None to keep nothing.
        models: Other models of gold labels and unlabelled rows to pool with the networks: names in
            ``dessl.teachers.KINDS``, teachers or scikit-learn classifiers; () for networks alone,
            None for those of the default pool. With ``"trees"``, trees also learn from the answers.

    >>> g = torch.Generator().manual_seed(0)
    >>> x = torch.randn(400, 2, generator=g)
    >>> truth = (x[:, 0] > 0).long()
    >>> data = SemiData(x, torch.where(torch.arange(400) < 40, truth, -1))
    >>> noisy = torch.where(torch.rand(400, generator=g) < 0.2, 1 - truth, truth)
    >>> taught = learn_from_answers(data, noisy, setting=NetworkSetting(steps=40, student_steps=40))
    >>> taught.predict_log_proba(x).shape, taught.report.n_gold
    (torch.Size([400, 2]), 40)
    """
    for name, given, kind in (("data", data, SemiData), ("setting", setting, NetworkSetting)):
        if not isinstance(given, kind) and (name, given) != ("setting", None):
            raise TypeError(f"{name} must be a {kind.__name__}; got {type(given).__name__}.")
    if answers is None:
        answers = _answers_of(data)
    place = None if out is None else Path(out)
    at_prediction = _checks.true_or_false("at_prediction", at_prediction)
    with one_thread():
        how = setting or NetworkSetting()
        school = School.of(data, answers, how, seed, place, models=models)
        return taught_by(school, at_prediction=at_prediction)


def _answers_of(data: SemiData) -> list[Answers]:
    if not data.teachers:
        raise ValueError(
            "no answers given. Pass answers=, or teachers= to SemiData: one answer for each row."
        )
    return named_answers(data.teachers, data.class_names)


def taught_by(school: School, *, at_prediction: bool) -> Taught:
    """Train students and imitators, pool, and decide.

    Args:
        school: The rows, the gold-only networks and the other models.
        at_prediction: Whether the teachers will also answer at prediction time.
    """
    with doing("students"):
        lessons = school.lessons()
        students = students_of(school, lessons)
        trees = tree_students(school, lessons) if school.has_trees else ()
    with doing("imitations of the teachers"):
        imitators = school.imitators()
    return decided(school, students, imitators, trees, at_prediction=at_prediction)


def decided(
    school: School,
    students: dict[str, list[Trained]],
    imitators: Sequence[Sequence[nn.Module]],
    trees: Sequence[Trees] = (),
    *,
    at_prediction: bool,
) -> Taught:
    """Pool trained students with the other members, and decide by gold rows.

    Args:
        school: The rows, the gold-only networks and the other models.
        students: Result of :func:`students_of`.
        imitators: Networks that imitate each teacher.
        trees: Result of :func:`dessl.teachers.tree_student.tree_students`; () for networks alone.
        at_prediction: Whether the teachers will also answer at prediction time.
    """
    kinds, grown = tuple(students.values()), (NAME,) * bool(trees)
    names = (*students, *(f"imitation of {one.name}" for one in school.answers), *grown)
    student, rows = evaluated(school, Parts(kinds, imitators, (), names, trees))
    _warn_of_shift(rows)
    full, plain = (fold_corrections(school.networks, matrix=matrix) for matrix in (True, False))
    listening, with_answers = None, None
    if at_prediction:
        names = (*students, *CORRECTED, *grown)
        alone = rows.taught if student.kept else rows.without
        parts = Parts(kinds, (), (full, plain), names, trees)
        with_answers, with_rows = evaluated(school, parts, alone)
        rows = rows._replace(with_answers=with_rows.taught)
        listening = Listening(full, plain, school.confusions())
    trust = torch.stack([correction.trust for correction in plain]).mean(0).tolist()
    qualities = tuple(
        _quality(one, school, its) for one, its in zip(school.answers, trust, strict=True)
    )
    report = TaughtReport(len(school.gold_y), school.n_unlabelled, qualities, student, with_answers)
    networks = {
        "complete_case": tuple(one.network for one in school.networks.singles),
        "students": tuple(one.network for kind in kinds for one in kind),
        "imitators": tuple(network for pair in imitators for network in pair),
    }
    others = school.others_fitted(report.used_members)
    if NAME in report.used_members:
        others = {NAME: joined(trees), **others}
    found = (school.class_names, school.space, school.setting, networks, listening, report)
    return _with_averaging(Taught(*found, rows, others), school)


def _with_averaging(taught: Taught, school: School) -> Taught:
    """The same, with the accuracies of the means over the folds instead of single networks.

    Each gold row is predicted by one network of a kind, new rows by the mean over the folds. Where
    both predict the same class, nothing changes; elsewhere the mean is right more often, by its own
    probabilities of the two classes. Unlabelled rows show how often that is.
    """
    report, rows = taught.report, taught.evaluated
    if rows is None:
        raise TypeError("a student just trained has evaluation rows.")
    n, some = len(school.gold_y), school.evaluation_rows[:AVERAGED_ROWS]
    x, answers = school.x[some], school.answers_for(some)
    alone = rows.taught if report.student.kept else rows.without
    gain = _averaging_gain(taught.predict_log_proba(x), alone[n:][: len(some)])
    report = replace(report, student=report.student.averaged(gain))
    if report.with_answers is not None and rows.with_answers is not None:
        single = rows.with_answers if report.with_answers.kept else alone
        together = taught.predict_log_proba(x, answers)
        gain = _averaging_gain(together, single[n:][: len(some)])
        report = replace(report, with_answers=report.with_answers.averaged(gain))
    return replace(taught, report=report)


def _averaging_gain(together: Tensor, single: Tensor) -> float:
    """The gain in accuracy expected from a mean over folds, by its own probabilities."""
    p = together.exp()
    return float((p.amax(1) - p.gather(1, single.argmax(1)[:, None])[:, 0]).mean())


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


def students_of(school: School, corrected: Sequence[Lesson]) -> dict[str, list[Trained]]:
    """The networks that learn from each fold's lessons by kind, those without a teacher first.

    Args:
        school: The rows and the gold-only networks.
        corrected: Result of :meth:`School.lessons`.
    """
    names, lessons = ["self-taught student", "student"], [*school.lessons(answers=False)]
    lessons += corrected
    if school.setting.debiased:
        fair, lam = debiased_lessons(school, corrected=corrected)
        if bool((lam > 0).any()):  # otherwise it would be another gold-only network
            names, lessons = [*names, "debiased student"], [*lessons, *fair]
    networks = school.students(lessons)
    return {name: networks[i * FOLDS : (i + 1) * FOLDS] for i, name in enumerate(names)}


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
    soft, calibration = not answers.is_hard and len(gold) >= 3, None
    if soft:
        ece = estimate_ece(said, y, teacher_answers if len(rest) else None)
        calibration = Interval(ece.value, ece.low, ece.high)
    return TeacherQuality(
        answers.name,
        float(there.double().mean()),
        accuracy,
        calibration,
        float(said.amax(1).mean()) if soft else None,
        trust,
    )
