"""Gold-only networks without one or two folds, and corrections for an unbiased evaluation.

Student k is evaluated on fold k, so nothing it uses may come from fold k; and the answer to a gold
row of fold j may not come from fold j either. With cc_jk the network without folds j and k, its
step selected on fold j,

    w_jk = correction fitted on gold rows of folds i other than j and k, by cc_ik,
    q̃_k[fold j] = w_jk(cc_jk, answers),

and an unlabelled row has q̃_k from w_jk and cc_jk of one j ≠ k drawn for it: the distribution of a
gold row. A gold row of fold j is predicted at the step that the other rows of its fold select.
"""

from collections.abc import Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import permutations
from pathlib import Path

import torch
from torch import Tensor

from dessl.teachers.answers import Answers, calibrated_confusion
from dessl.teachers.correction import Correction, centred_log, fitted_correction
from dessl.teachers.crossfit import FOLDS, stratified_folds
from dessl.teachers.fold_networks import (
    Lesson,
    NetworkSetting,
    Trained,
    network_log_p,
    trained_networks,
)


@dataclass(frozen=True)
class GoldRows:
    """Standardised gold rows x (n, features), their classes, and the teachers' answers to them."""

    x: Tensor
    y: Tensor
    answers: tuple[Answers, ...]
    n_classes: int
    folds: Tensor

    def inside(self, *folds: int) -> Tensor:
        """Row numbers in some of the folds."""
        return torch.isin(self.folds, torch.tensor(folds, dtype=torch.int64)).nonzero().flatten()

    def outside(self, *folds: int) -> Tensor:
        """Row numbers in none of the folds."""
        wanted = torch.tensor(folds, dtype=torch.int64)
        return (~torch.isin(self.folds, wanted)).nonzero().flatten()

    def confusion(self, teacher: int, without: Set[int]) -> Tensor | None:
        """A teacher's calibrated confusion, from rows outside some folds; None for soft answers."""
        rows = self.outside(*without)
        return calibrated_confusion(self.answers[teacher].taken(rows), self.y[rows])

    def log_answers(self, without: Set[int]) -> Tensor:
        """Centred log-answers (teachers, n, classes), each made without its own fold and others."""
        found = torch.zeros(len(self.answers), len(self.y), self.n_classes, dtype=torch.float64)
        for fold in range(FOLDS):
            rows = self.inside(fold)
            found[:, rows] = self.log_answers_to(
                tuple(one.taken(rows) for one in self.answers), len(rows), {*without, fold}
            )
        return found

    def log_answers_to(self, answers: tuple[Answers, ...], rows: int, without: Set[int]) -> Tensor:
        """Centred log-answers to other rows (teachers, rows, classes)."""
        found = torch.zeros(len(answers), rows, self.n_classes, dtype=torch.float64)
        for number, one in enumerate(answers):
            found[number] = centred_log(one.calibrated(self.confusion(number, without)))
        return found


@dataclass(frozen=True)
class CompleteCase:
    """The gold-only networks: cc_k in ``singles``, cc_jk in ``pairs`` by (j, k)."""

    gold: GoldRows
    singles: tuple[Trained, ...]
    pairs: dict[tuple[int, int], Trained]

    def without_answers(self) -> "CompleteCase":
        """The same without any teacher's answers."""
        return replace(self, gold=replace(self.gold, answers=()))

    @cached_property
    def out_of_fold(self) -> Tensor:
        """Log-probabilities of gold rows from the network without their fold, (n, classes)."""
        found = torch.zeros(len(self.gold.y), self.gold.n_classes, dtype=torch.float64)
        for fold, trained in enumerate(self.singles):
            found[self.gold.inside(fold)] = trained.held_out
        return found

    def out_of_fold_without(self, fold: int) -> Tensor:
        """The same from networks that have not seen another fold; that fold's rows are zero."""
        found = torch.zeros_like(self.out_of_fold)
        for other in range(FOLDS):
            if other != fold:
                found[self.gold.inside(other)] = self.pairs[other, fold].held_out
        return found


def complete_case(
    x: Tensor,
    y: Tensor,
    answers: tuple[Answers, ...],
    setting: NetworkSetting,
    *,
    n_classes: int,
    seed: int,
    out: Path | None = None,
) -> CompleteCase:
    """Train the networks without one fold and without two, each stopped on a left-out fold.

    Args:
        x: Standardised gold rows, (n, features).
        y: Gold labels, (n,).
        answers: Answers of each teacher to the gold rows.
        setting: Setting of the networks.
        n_classes: Number of classes.
        seed: Seed of folds, weights and draws.
        out: Folder for checkpoints.
    """
    gold = GoldRows(x, y, answers, n_classes, stratified_folds(y, seed=seed))
    pairs = list(permutations(range(FOLDS), 2))
    missed: list[tuple[int, ...]] = [*((fold,) for fold in range(FOLDS)), *pairs]
    lessons = [Lesson(gold.outside(*folds), gold.inside(folds[0])) for folds in missed]
    networks = trained_networks(x, y, lessons, setting, n_classes=n_classes, seed=seed, out=out)
    by_pair = dict(zip(pairs, networks[FOLDS:], strict=True))
    return CompleteCase(gold, tuple(networks[:FOLDS]), by_pair)


@dataclass(frozen=True)
class StudentTargets:
    """Corrected answers for one student: probabilities on gold and on unlabelled rows."""

    gold: Tensor  # (n_l, classes); rows of the student's own fold are not used
    unlabelled: Tensor  # (n_u, classes)


def student_targets(
    networks: CompleteCase,
    fold: int,
    x_unlabelled: Tensor,
    answers: tuple[Answers, ...],
    generator: torch.Generator,
) -> StudentTargets:
    """Return q̃ for the student that is evaluated on one fold.

    Args:
        networks: The complete case.
        fold: The fold k.
        x_unlabelled: Standardised unlabelled rows, (n_u, features).
        answers: Answers of each teacher to these rows; none for
            :meth:`CompleteCase.without_answers`.
        generator: Source of the fold j of each unlabelled row.
    """
    gold = networks.gold
    log_p, said = networks.out_of_fold_without(fold), gold.log_answers({fold})
    on_gold = torch.full_like(log_p, 1 / gold.n_classes)
    on_rest = torch.zeros(len(x_unlabelled), gold.n_classes, dtype=torch.float64)
    others = [other for other in range(FOLDS) if other != fold]
    drawn = torch.randint(len(others), (len(x_unlabelled),), generator=generator)
    for place, other in enumerate(others):
        correction = pair_correction(networks, log_p, fold, other)
        rows = gold.inside(other)
        on_gold[rows] = correction(log_p[rows], said[:, rows]).exp()
        rows = (drawn == place).nonzero().flatten()
        believed = network_log_p(networks.pairs[other, fold].network, x_unlabelled[rows])
        taken = tuple(one.taken(rows) for one in answers)
        teacher_answers = gold.log_answers_to(taken, len(rows), {fold, other})
        on_rest[rows] = correction(believed, teacher_answers).exp()
    return StudentTargets(on_gold.float(), on_rest.float())


def pair_correction(networks: CompleteCase, log_p: Tensor, fold: int, other: int) -> Correction:
    """The correction fitted outside two folds; ``log_p`` uses neither a row's fold nor k."""
    rows = networks.gold.outside(fold, other)
    said = networks.gold.log_answers({fold, other})
    return fitted_correction(log_p[rows], said[:, rows], networks.gold.y[rows])


def fold_corrections(networks: CompleteCase, *, matrix: bool) -> tuple[Correction, ...]:
    """Return the correction fitted without each fold, for that fold and its network cc_k.

    Args:
        networks: The complete case.
        matrix: Whether D is fitted.
    """
    gold, corrections = networks.gold, []
    for fold in range(FOLDS):
        rows = gold.outside(fold)
        log_p, teacher_answers = networks.out_of_fold_without(fold), gold.log_answers({fold})
        corrections.append(
            fitted_correction(log_p[rows], teacher_answers[:, rows], gold.y[rows], matrix=matrix)
        )
    return tuple(corrections)
