"""Rows split by their use, and the networks that learn from them.

Gold rows are used for training and evaluation, in five folds. Of the unlabelled rows, students
learn from as many as the steps draw, and some are kept apart: accuracy is estimated on rows that no
network has seen.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dessl import _checks
from dessl.data import SemiData
from dessl.teachers.answers import Answers, as_answers
from dessl.teachers.base import Teacher
from dessl.teachers.correction import Correction
from dessl.teachers.cross_corrected import CompleteCase, complete_case, student_targets
from dessl.teachers.crossfit import FOLDS
from dessl.teachers.families import default_teachers
from dessl.teachers.fold_networks import (
    Lesson,
    NetworkSetting,
    Trained,
    ensemble_log_p,
    network_log_p,
    trained_networks,
)
from dessl.teachers.other_models import OtherModels
from dessl.teachers.refused import refused_groups, refused_propensity
from dessl.teachers.rows import as_columns
from dessl.teachers.space import Space
from dessl.training.identity import sha256_of
from dessl.training.progress import doing

FEWEST_GOLD = 10
FEWEST_UNLABELLED = 10
EVALUATED_SHARE = 0.1  # share of unlabelled rows kept out of training, for an unbiased accuracy
MOST_EVALUATED = 20_000
IMITATORS = 2  # networks that imitate one teacher
IMITATION = 3.0  # weight of soft answers against drawn ones: a row counts the same in both streams


class Parts(NamedTuple):
    """What is pooled with the gold-only networks: kinds of students, one per fold each."""

    students: Sequence[Sequence[Trained]]
    imitators: Sequence[Sequence[nn.Module]]
    corrections: Sequence[Sequence[Correction]]
    names: tuple[str, ...]
    trees: Sequence[Teacher] = ()  # those of each fold that learnt from the answers


@dataclass(frozen=True)
class School:
    """The rows, split by their use, and the gold-only networks."""

    x: Tensor  # all rows of the data
    answers: tuple[Answers, ...]  # to these rows
    gold_rows: Tensor
    gold_y: Tensor
    x_pool: Tensor  # standardised unlabelled rows for students
    pool_rows: Tensor
    x_evaluation: Tensor  # those kept out of training
    evaluation_rows: Tensor
    space: Space
    setting: NetworkSetting
    seed: int
    class_names: tuple[str, ...]
    n_unlabelled: int
    networks: CompleteCase
    others: OtherModels | None  # other models without answers, in the pool of the networks
    out: Path | None = None  # folder for checkpoints

    @classmethod
    def of(
        cls,
        data: SemiData,
        answers: Any,
        setting: NetworkSetting,
        seed: int,
        out: Path | None = None,
        *,
        models: Sequence[object] | None = None,
    ) -> "School":
        """Split the rows, scale them, and train the gold-only networks and the other models.

        Args:
            data: A table with gold labels.
            answers: Same as in :func:`dessl.teachers.learn_from_answers`.
            setting: Setting of the networks.
            seed: Seed of folds, weights and draws.
            out: Folder for checkpoints, used to resume training; None to keep nothing.
            models: Other models of gold labels and unlabelled rows to pool with the networks; None
                for those of the default pool.
        """
        _check(data)
        _checks.whole_number("seed", seed)
        data = data.to("cpu")  # networks of this size are too small for a GPU
        read = as_answers(answers, data.class_names, len(data))
        gold, y = data.labelled_rows, data.y[data.labelled_rows]
        _check_answered(read, gold)
        space = Space.of(data.x)
        generator = torch.Generator().manual_seed(seed)
        order = data.unlabelled_rows[torch.randperm(len(data.unlabelled_rows), generator=generator)]
        evaluated = max(1, min(MOST_EVALUATED, round(EVALUATED_SHARE * len(order))))
        pool = order[evaluated : evaluated + setting.most_rows(data.x.shape[1])]
        with doing("gold-only networks"):
            networks = complete_case(
                space(data.x[gold]),
                y,
                tuple(one.taken(gold) for one in read),
                setting,
                n_classes=data.n_classes,
                seed=seed,
                out=None if out is None else out / "gold-only",
            )
            others = None
            models = default_teachers(data.x) if models is None else models
            if models:
                folds = networks.gold.folds
                others = OtherModels.of(data, pool, folds, space, models=models, seed=seed)
        rest, seen = (space(data.x[rows]) for rows in (pool, order[:evaluated]))
        parts = (data.x, read, gold, y, rest, pool, seen, order[:evaluated], space)
        counts = (data.class_names, data.n_unlabelled)
        return cls(*parts, setting, seed, *counts, networks, others, out)

    @property
    def has_trees(self) -> bool:
        """Whether trees are among the other models; then trees also learn from the answers."""
        return self.others is not None and "trees" in self.others.families

    def answers_for(self, rows: Tensor) -> tuple[Answers, ...]:
        """All teachers' answers to some rows of the data."""
        return tuple(one.taken(rows) for one in self.answers)

    def lessons(self, *, answers: bool = True) -> list[Lesson]:
        """What the student of each fold learns from: corrected answers.

        Args:
            answers: Whether to use the teachers. If not, students learn from the gold-only
                networks' predictions of unlabelled rows: what can be gained without any teacher.
        """
        networks = self.networks if answers else self.networks.without_answers()
        gold, generator = networks.gold, torch.Generator().manual_seed(self.seed + 1)
        teacher_answers = self.answers_for(self.pool_rows) if answers else ()
        found = []
        for fold in range(FOLDS):
            targets = student_targets(networks, fold, self.x_pool, teacher_answers, generator)
            rows = (gold.outside(fold), gold.inside(fold))
            found.append(Lesson(*rows, targets.unlabelled, targets.gold, risk="ssl"))
        return found

    def students(self, lessons: Sequence[Lesson]) -> list[Trained]:
        """Train one student for each lesson, all at once."""
        gold = self.networks.gold
        return trained_networks(
            gold.x,
            gold.y,
            lessons,
            self.setting,
            n_classes=gold.n_classes,
            x_unlabelled=self.x_pool,
            seed=self.seed + 100,
            source=sha256_of(*(one.values for one in self.answers)),
            out=None if self.out is None else self.out / "students",
        )

    def imitators(self) -> list[list[nn.Module]]:
        """Two networks for each teacher, trained on its uncorrected answers."""
        return [
            imitating_networks(
                self.x_pool,
                one,
                self.setting,
                seed=self.seed + 200 + IMITATORS * number,
                out=None if self.out is None else self.out / f"imitators-{number}",
            )
            for number, one in enumerate(self.answers_for(self.pool_rows))
        ]

    def members(self, fold: int, parts: Parts, rows: Tensor | None = None) -> Tensor:
        """Log-probabilities (members, n, classes) from members that have not seen one fold.

        Args:
            fold: Number of the fold.
            parts: The members of the pool.
            rows: Positions (n,) among the unlabelled rows kept out of training; by default
                the gold rows of the fold, each at the step that the others select.
        """
        gold = self.networks.gold
        trained = [self.networks.singles[fold], *(kind[fold] for kind in parts.students)]
        if rows is None:
            its = gold.inside(fold)
            numbers, x = self.gold_rows[its], gold.x[its]
            teacher_answers = tuple(one.taken(its) for one in gold.answers)
            found = [one.held_out for one in trained]
        else:
            numbers, x = self.evaluation_rows[rows], self.x_evaluation[rows]
            teacher_answers = self.answers_for(numbers)
            found = [network_log_p(one.network, x) for one in trained]
        cc = found[0]
        found += [ensemble_log_p(pair, x) for pair in parts.imitators]
        if parts.corrections:
            said = gold.log_answers_to(teacher_answers, len(x), {fold})
            found += [kind[fold](cc, said) for kind in parts.corrections]
        if parts.trees:
            columns = as_columns(self.x[numbers])
            grown = parts.trees[fold].predict_log_proba(columns) if len(columns) else cc
            found.append(grown)
        return torch.stack(found)

    def out_of_fold(self, parts: Parts) -> Tensor:
        """Log-probabilities (members, n_gold, classes) of gold rows, each out of fold."""
        rows = [self.networks.gold.inside(fold) for fold in range(FOLDS)]
        found = [self.members(fold, parts) for fold in range(FOLDS)]
        return torch.cat(found, dim=1)[:, torch.cat(rows).argsort()]

    def drawn(self, parts: Parts) -> tuple[Tensor, Tensor]:
        """The same for unlabelled rows, each from a fold drawn for it, and the drawn folds.

        A mean of five networks would be more confident than the network that predicts a gold row.
        """
        folds = self.drawn_folds
        rows = [(folds == fold).nonzero().flatten() for fold in range(FOLDS)]
        found = [self.members(fold, parts, its) for fold, its in enumerate(rows)]
        return torch.cat(found, dim=1)[:, torch.cat(rows).argsort()], folds

    @property
    def drawn_folds(self) -> Tensor:
        """The fold drawn for each unlabelled row that is kept out of training."""
        generator = torch.Generator().manual_seed(self.seed + 2)
        return torch.randint(FOLDS, (len(self.evaluation_rows),), generator=generator)

    def others_out_of_fold(self, fold: int | None = None) -> tuple[tuple[str, ...], Tensor]:
        """The other models' names and log-probabilities (models, n_gold, classes) of gold rows.

        Args:
            fold: A fold whose labels do not choose the settings; None if all labels do.
        """
        if self.others is None:
            gold = self.networks.gold
            return (), torch.zeros(0, len(gold.y), gold.n_classes, dtype=torch.float64)
        rows = None if fold is None else self.networks.gold.outside(fold)
        names = self.others.best(rows)
        return names, self.others.out_of_fold(names)

    def others_fitted(self, names: Iterable[str]) -> dict[str, Teacher]:
        """The other models among some members of a pool, fitted to all gold rows."""
        if self.others is None:
            return {}
        return self.others.fitted(set(self.others_out_of_fold()[0]) & set(names))

    @cached_property
    def others_drawn(self) -> Tensor:
        """The same for unlabelled rows, each from the fold drawn for it."""
        n, folds = len(self.evaluation_rows), self.drawn_folds
        models = 0 if self.others is None else len(self.others)
        found = torch.zeros(models, n, self.networks.gold.n_classes, dtype=torch.float64)
        for fold in range(FOLDS):
            rows = (folds == fold).nonzero().flatten()
            if self.others is not None:
                names, _ = self.others_out_of_fold(fold)
                found[:, rows] = self.others.without_fold(names, fold, self.evaluation_rows[rows])
        return found

    def confusions(self) -> tuple[Tensor | None, ...]:
        """Each teacher's calibrated confusion without each fold, (folds, classes, classes)."""
        gold = self.networks.gold
        tables = []
        for number, one in enumerate(self.answers):
            parts = [gold.confusion(number, {fold}) for fold in range(FOLDS)] * one.is_hard
            tables.append(torch.stack([p for p in parts if p is not None]) if parts else None)
        return tuple(tables)


def imitating_networks(
    x: Tensor, answers: Answers, setting: NetworkSetting, *, seed: int, out: Path | None = None
) -> list[nn.Module]:
    """Train two networks on a teacher's uncorrected answers, without gold labels.

    A population has a labelled stream: its labels are drawn from the answers, so that the mean of
    both streams is the cross-entropy to the answers.

    Args:
        x: Standardised unlabelled rows, (n, features).
        answers: Answers to these rows; rows without one are skipped.
        setting: Setting of the networks.
        seed: Seed of the first network and of the drawn labels.
        out: Folder for checkpoints.
    """
    there = answers.answered
    q = answers.probabilities[there]
    if not len(q):
        raise ValueError(
            f"{answers.name} answered none of the {len(x):,} unlabelled rows that students learn "
            "from. Its answers to gold rows alone are not enough: omit this teacher."
        )
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.multinomial(q, 1, generator=generator).flatten()
    every, none = torch.arange(len(q)), torch.empty(0, dtype=torch.int64)
    lessons = [Lesson(every, none, q, lam=IMITATION, risk="ssl")] * IMITATORS
    trained = trained_networks(
        x[there],
        drawn,
        lessons,
        setting,
        n_classes=answers.n_classes,
        x_unlabelled=x[there],
        seed=seed,
        source=sha256_of(answers.values),
        out=out,
    )
    return [one.network for one in trained]


def _check(data: SemiData) -> None:
    if data.groups is not None:
        raise ValueError(refused_groups())
    if data.propensity is not None:
        raise ValueError(refused_propensity())
    if data.x.ndim != 2:
        raise ValueError(
            f"learning from answers needs a table (n, features); got rows of shape "
            f"{tuple(data.x.shape[1:])}. For images, pass a network's features."
        )
    if data.n_labelled < FEWEST_GOLD:
        raise ValueError(
            f"evaluating a teacher needs at least {FEWEST_GOLD} gold labels; got "
            f"{data.n_labelled}. Label more rows, drawn at random."
        )
    if len(data.unlabelled_rows) < FEWEST_UNLABELLED:
        raise ValueError(
            f"a student needs at least {FEWEST_UNLABELLED} rows without a gold label; got "
            f"{data.n_unlabelled}. Add unlabelled rows, or use the gold labels alone."
        )


def _check_answered(answers: Sequence[Answers], gold: Tensor) -> None:
    """Refuse answers that are all missing or all equal, or that no gold rows could judge."""
    for one in answers:
        given = one.values[one.answered]
        if not len(given):
            raise ValueError(
                f"the answers of {one.name} are all missing; got {len(one)} rows. Omit this "
                "teacher, or check that its answers were read."
            )
        if bool((given == given[0]).all()):
            raise ValueError(
                f"{one.name} gave the same answer to all {len(given):,} rows that it answered, "
                "which says nothing about a row. Omit this teacher, or check that its answers were "
                "read."
            )
    most = max(int(one.answered[gold].sum()) for one in answers)
    if most < FEWEST_GOLD:
        raise ValueError(
            f"a teacher is evaluated on the gold rows that it answered, at least {FEWEST_GOLD}; "
            f"it answered {most} of {len(gold)}. Add its answers to more gold rows."
        )
