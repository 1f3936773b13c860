"""Learn from an untrusted teacher: correct its answers, distil them, pool, and let gold rows judge.

    S_k: mean_L CE(y) + mean_U CE(q̃_k), stopped on fold k       T: mean_U CE(q), no gold row
    pool: softmax Σ_m w_m log p_m of cc, S and T (or cc, S and q̃: teacher at prediction time)
    gate: keep the pool if its cross-fitted out-of-fold CE is below cc's by z standard errors

Nothing that learns from a gold label is judged by it, so a teacher that shuffles, inverts or
boasts is found out and left aside.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dessl import _checks
from dessl.data import SemiData
from dessl.evaluation import estimate_metric
from dessl.evaluation.metrics import debiased_ece
from dessl.teachers.answers import Answers, as_answers
from dessl.teachers.correction import Correction
from dessl.teachers.cross_corrected import (
    CompleteCase,
    complete_case,
    fold_corrections,
    student_targets,
)
from dessl.teachers.fold_networks import (
    FOLDS,
    Lesson,
    NetworkSetting,
    ensemble_log_p,
    network_log_p,
    trained_networks,
)
from dessl.teachers.taught import (
    Choice,
    Interval,
    Listening,
    Taught,
    TaughtReport,
    TeacherQuality,
)

FEWEST_GOLD = 10
FEWEST_UNLABELLED = 10
JUDGED_SHARE = 0.1  # of unlabelled rows that no network trains on, for an honest accuracy
MOST_JUDGED = 20_000
IMITATORS = 2  # networks that imitate one teacher
IMITATION = 3.0  # weight of whole answers beside drawn ones: one row counts as much in both streams
TOTAL, OTHERS = 3.0, 0.5  # penalties of the pool: on Σw − 1, and on all but the complete case
LEAST_DEVIATION = 1e-6  # of a column's largest entry: less is rounding
NEEDED = {False: 0.0, True: 1.0}  # standard errors, without and with the teacher at prediction time


def learn_from_answers(
    data: SemiData,
    answers: Any,
    *,
    at_prediction: bool = False,
    seed: int = 0,
    setting: NetworkSetting | None = None,
) -> Taught:
    """Train a student from few gold labels and one or several teachers' answers to all rows.

    The student needs no teacher. With ``at_prediction=True`` there is a second predictor, which
    takes the teachers' answers to new rows as input: ``predict_log_proba(x, answers)``. Neither is
    knowingly worse than the gold labels alone, which are used where gold rows show no gain.

    Args:
        data: A table, with its gold labels.
        answers: :class:`~dessl.teachers.answers.Answers`, or a list of them for several teachers;
            or one column of classes or table of probabilities as :meth:`Answers.of` takes. They
            cover all rows of ``data``, in its order.
        at_prediction: Whether the teachers will answer at prediction time too.
        seed: Of folds, weights and draws.
        setting: Size and length of the networks.

    >>> g = torch.Generator().manual_seed(0)
    >>> x = torch.randn(400, 2, generator=g)
    >>> truth = (x[:, 0] > 0).long()
    >>> data = SemiData(x, torch.where(torch.arange(400) < 40, truth, -1))
    >>> noisy = torch.where(torch.rand(400, generator=g) < 0.2, 1 - truth, truth)
    >>> taught = learn_from_answers(data, noisy, setting=NetworkSetting(steps=40, student_steps=40))
    >>> taught.predict_log_proba(x).shape, taught.report.student.members
    (torch.Size([400, 2]), ('gold only', 'student', 'imitation of teacher'))
    """
    school = _School.of(data, answers, setting or NetworkSetting(), seed)
    students, imitators = school.students(), school.imitators()
    names = tuple(f"imitation of {one.name}" for one in school.answers)
    student = school.choice(_Parts(students, imitators, (), names))
    full, plain = (fold_corrections(school.networks, matrix=matrix) for matrix in (True, False))
    listening, with_answers = None, None
    if at_prediction:
        names = ("corrected answers", "corrected answers, one number")
        with_answers = school.choice(_Parts(students, (), (full, plain), names))
        listening = Listening(full, plain, school.confusions())
    trust = torch.stack([correction.trust for correction in plain]).mean(0).tolist()
    qualities = tuple(map(_quality, school.answers, [school] * len(trust), trust))
    report = TaughtReport(data.n_labelled, data.n_unlabelled, qualities, student, with_answers)
    networks = {
        "complete_case": school.networks.singles,
        "students": tuple(students),
        "imitators": tuple(network for pair in imitators for network in pair),
    }
    scaling = (school.mean, school.std)
    return Taught(data.class_names, *scaling, school.setting, networks, listening, report)


@dataclass(frozen=True)
class _School:
    """The rows, split by their use, and the gold-only networks."""

    answers: tuple[Answers, ...]  # to all rows of the data
    gold_rows: Tensor
    gold_y: Tensor
    x_pool: Tensor  # standardised unlabelled rows that students learn from
    pool_rows: Tensor
    x_judged: Tensor  # those that no network sees in training
    judged_rows: Tensor
    mean: Tensor
    std: Tensor
    setting: NetworkSetting
    seed: int
    networks: CompleteCase

    @classmethod
    def of(cls, data: SemiData, answers: Any, setting: NetworkSetting, seed: int) -> "_School":
        _check(data)
        _checks.whole_number("seed", seed)
        read = as_answers(answers, data.class_names, len(data))
        gold, y = data.labelled_rows, data.y[data.labelled_rows]
        mean, std = column_scaling(data.x)
        generator = torch.Generator().manual_seed(seed)
        order = data.unlabelled_rows[torch.randperm(data.n_unlabelled, generator=generator)]
        judged = max(1, min(MOST_JUDGED, round(JUDGED_SHARE * len(order))))
        pool = order[judged : judged + setting.most_rows(data.x.shape[1])]
        networks = complete_case(
            (data.x[gold] - mean) / std,
            y,
            tuple(one.taken(gold) for one in read),
            setting,
            n_classes=data.n_classes,
            seed=seed,
        )
        rest, seen = ((data.x[rows] - mean) / std for rows in (pool, order[:judged]))
        parts = (read, gold, y, rest, pool, seen, order[:judged], mean, std)
        return cls(*parts, setting, seed, networks)

    def heard(self, rows: Tensor) -> tuple[Answers, ...]:
        """All teachers' answers to some rows of the data."""
        return tuple(one.taken(rows) for one in self.answers)

    def students(self) -> list[nn.Module]:
        """One student for each fold, taught by corrected answers and stopped on the fold."""
        gold, lessons = self.networks.gold, []
        generator = torch.Generator().manual_seed(self.seed + 1)
        for fold in range(FOLDS):
            targets = student_targets(
                self.networks, fold, self.x_pool, self.heard(self.pool_rows), generator
            )
            lessons.append(Lesson(gold.outside(fold), gold.inside(fold), targets.unlabelled))
        return trained_networks(
            gold.x,
            gold.y,
            lessons,
            self.setting,
            n_classes=gold.n_classes,
            x_unlabelled=self.x_pool,
            risk="ssl",
            seed=self.seed + 100,
        )

    def imitators(self) -> list[list[nn.Module]]:
        """Two networks for each teacher, taught by its answers as they are."""
        return [
            imitating_networks(
                self.x_pool, one, self.setting, seed=self.seed + 200 + IMITATORS * number
            )
            for number, one in enumerate(self.heard(self.pool_rows))
        ]

    def members(self, fold: int, x: Tensor, heard: tuple[Answers, ...], parts: "_Parts") -> Tensor:
        """Log-probabilities (members, n, classes) by what has not seen one fold."""
        cc = network_log_p(self.networks.singles[fold], x)
        found = [cc, network_log_p(parts.students[fold], x)]
        found += [ensemble_log_p(pair, x) for pair in parts.imitators]
        if parts.corrections:
            said = self.networks.gold.log_answers_to(heard, {fold})
            found += [kind[fold](cc, said) for kind in parts.corrections]
        return torch.stack(found)

    def out_of_fold(self, parts: "_Parts") -> Tensor:
        """Log-probabilities (members, n_gold, classes) of gold rows, each out of fold."""
        gold, found = self.networks.gold, []
        rows = [gold.inside(fold) for fold in range(FOLDS)]
        for fold, its in enumerate(rows):
            heard = tuple(one.taken(its) for one in gold.answers)
            found.append(self.members(fold, gold.x[its], heard, parts))
        return torch.cat(found, dim=1)[:, torch.cat(rows).argsort()]

    def drawn(self, parts: "_Parts") -> tuple[Tensor, Tensor]:
        """The same of unlabelled rows, each by a fold drawn for it, and the drawn folds.

        The mean of five networks is another, surer function than the one that judged a gold row.
        """
        generator = torch.Generator().manual_seed(self.seed + 2)
        folds = torch.randint(FOLDS, (len(self.judged_rows),), generator=generator)
        rows = [(folds == fold).nonzero().flatten() for fold in range(FOLDS)]
        found = [
            self.members(fold, self.x_judged[its], self.heard(self.judged_rows[its]), parts)
            for fold, its in enumerate(rows)
        ]
        return torch.cat(found, dim=1)[:, torch.cat(rows).argsort()], folds

    def choice(self, parts: "_Parts") -> Choice:
        """Pool the members, and let gold rows decide."""
        gold, logs = self.networks.gold, self.out_of_fold(parts)
        by_fold = torch.stack(
            [pool_weights(logs[:, r], gold.y[r]) for r in map(gold.outside, range(FOLDS))]
        )
        pooled = pooled_log_p(by_fold[gold.folds], logs)
        losses = torch.stack([_losses(logs[0], gold.y), _losses(pooled, gold.y)])
        needed = NEEDED[bool(parts.corrections)]
        error = float((losses[1] - losses[0]).std()) / math.sqrt(len(gold.y))
        kept = bool(losses[0].mean() - losses[1].mean() > needed * error)
        drawn, folds = self.drawn(parts)
        accuracy = estimate_metric(
            "accuracy",
            (pooled if kept else logs[0]).exp(),
            gold.y,
            (pooled_log_p(by_fold[folds], drawn) if kept else drawn[0]).exp(),
        )
        return Choice(
            members=("gold only", "student", *parts.names),
            weights=tuple(pool_weights(logs, gold.y).tolist()),
            gold_only_loss=float(losses[0].mean()),
            pooled_loss=float(losses[1].mean()),
            standard_error=error,
            needed=needed,
            accuracy=Interval(accuracy.value, accuracy.low, accuracy.high),
        )

    def confusions(self) -> tuple[Tensor | None, ...]:
        """Each teacher's calibrated confusion without each fold, (folds, classes, classes)."""
        gold = self.networks.gold
        tables = []
        for number, one in enumerate(self.answers):
            parts = [gold.confusion(number, {fold}) for fold in range(FOLDS)] * one.is_hard
            tables.append(torch.stack([p for p in parts if p is not None]) if parts else None)
        return tuple(tables)


class _Parts(NamedTuple):
    """What is pooled with the gold-only networks."""

    students: Sequence[nn.Module]
    imitators: Sequence[Sequence[nn.Module]]
    corrections: Sequence[Sequence[Correction]]
    names: tuple[str, ...]


def _quality(answers: Answers, school: _School, trust: float) -> TeacherQuality:
    """How good a teacher is: accuracy on the gold rows it answered, and its calibration."""
    there = answers.answered
    gold = school.gold_rows[there[school.gold_rows]]
    y = school.gold_y[there[school.gold_rows]]
    rest = school.judged_rows[there[school.judged_rows]]
    said = answers.probabilities.double()
    accuracy = Interval(float("nan"), 0.0, 1.0)
    if len(gold) >= 3:
        found = estimate_metric("accuracy", said[gold], y, said[rest] if len(rest) else None)
        accuracy = Interval(found.value, found.low, found.high)
    soft = not answers.is_hard and len(gold) >= 3
    return TeacherQuality(
        answers.name,
        float(there.double().mean()),
        accuracy,
        debiased_ece(said[gold], y) if soft else None,
        float(said[gold].amax(1).mean()) if soft else None,
        trust,
    )


def imitating_networks(
    x: Tensor, answers: Answers, setting: NetworkSetting, *, seed: int
) -> list[nn.Module]:
    """Train two networks on a teacher's answers as they are, without any gold label.

    A population has a labelled stream: its labels are drawn from the answers, so that both streams
    have the cross-entropy to the answers as their mean.

    Args:
        x: Standardised unlabelled rows, (n, features).
        answers: To these rows; those without an answer are left out.
        setting: Of the networks.
        seed: Of the first network and of the drawn labels.
    """
    there = answers.answered
    q = answers.probabilities[there]
    if not len(q):
        raise ValueError(
            f"{answers.name} answered none of the {len(x)} unlabelled rows that students learn "
            "from. Its answers to gold rows alone teach nothing: leave this teacher out."
        )
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.multinomial(q, 1, generator=generator).flatten()
    every, none = torch.arange(len(q)), torch.empty(0, dtype=torch.int64)
    lessons = [Lesson(every, none, q, lam=IMITATION)] * IMITATORS
    return trained_networks(
        x[there],
        drawn,
        lessons,
        setting,
        n_classes=answers.n_classes,
        x_unlabelled=x[there],
        risk="ssl",
        seed=seed,
    )


def pooled_log_p(weights: Tensor, logs: Tensor) -> Tensor:
    """Return log softmax Σ_m w_m log p_m, (n, classes).

    Args:
        weights: (members,), or (n, members) for weights of each row's own.
        logs: (members, n, classes).
    """
    own = weights.expand(logs.shape[1], -1)
    return torch.einsum("nm,mnc->nc", own, logs).log_softmax(-1)


def pool_weights(logs: Tensor, y: Tensor) -> Tensor:
    """Return the pool's weights, (members,), float64; the first member is the complete case.

    w ≥ 0 minimises  mean CE(softmax Σ w_m log p_m) + 3/n (Σ w − 1)² + 0.5/n Σ_{m>0} w_m²,  from
    (1, 0, …).

    Args:
        logs: Out-of-fold log-probabilities, (members, n, classes).
        y: Gold labels, (n,).
    """
    import numpy as np
    from scipy.optimize import minimize

    array, labels, n = logs.numpy(), y.numpy(), len(y)
    rows, start = np.arange(n), np.eye(len(logs))[0]

    def value(w: Any) -> tuple[float, Any]:
        z = np.tensordot(w, array, 1)
        z -= z.max(1, keepdims=True)
        log_q = z - np.log(np.exp(z).sum(1, keepdims=True))
        slope = np.exp(log_q)
        slope[rows, labels] -= 1
        others = w * (1 - start)
        total = w.sum() - 1
        loss = -log_q[rows, labels].mean() + (TOTAL * total**2 + OTHERS * others @ others) / n
        gradient = np.tensordot(array, slope, ((1, 2), (0, 1))) + 2 * TOTAL * total
        return float(loss), (gradient + 2 * OTHERS * others) / n

    bounds = [(0.0, None)] * len(logs)
    found = minimize(
        value,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"ftol": 1e-14, "gtol": 1e-9},
    )
    return torch.from_numpy(found.x)


def column_scaling(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return each column's mean and deviation, (features,); 1 for one without variation."""
    mean, std = x.double().mean(0), x.double().std(0, correction=0)
    varies = std > LEAST_DEVIATION * x.abs().amax(0)
    return mean.float(), torch.where(varies, std, 1.0).float()


def _losses(log_p: Tensor, y: Tensor) -> Tensor:
    return -log_p.gather(1, y.unsqueeze(1)).squeeze(1)


def _check(data: SemiData) -> None:
    if data.x.ndim != 2:
        raise ValueError(
            f"learning from answers takes tables (n, features); got rows of shape "
            f"{tuple(data.x.shape[1:])}. Pass features of a network in place of images."
        )
    if data.n_labelled < FEWEST_GOLD:
        raise ValueError(
            f"a teacher is judged by gold labels, of which {FEWEST_GOLD} are the least; got "
            f"{data.n_labelled}. Label more rows, drawn at random."
        )
    if data.n_unlabelled < FEWEST_UNLABELLED:
        raise ValueError(
            f"a student learns from rows without a gold label, of which {FEWEST_UNLABELLED} are "
            f"the least; got {data.n_unlabelled}. Hold fewer labels, or use the gold labels alone."
        )
