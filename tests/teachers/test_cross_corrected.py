"""Corrections that are judged by labels they have not seen."""

import dataclasses
from itertools import permutations

import torch
from tests.teachers.three_clouds import school

from dessl.teachers.correction import centred_log
from dessl.teachers.cross_corrected import CompleteCase, fold_corrections, student_targets
from dessl.teachers.crossfit import FOLDS


def with_other_labels(networks: CompleteCase, fold: int) -> CompleteCase:
    gold = networks.gold
    y = torch.where(gold.folds == fold, (gold.y + 1) % 3, gold.y)
    return CompleteCase(dataclasses.replace(gold, y=y), networks.singles, networks.pairs)


def test_no_label_of_a_fold_enters_what_the_fold_judges() -> None:
    """With the networks held fixed: calibration and corrections are of other folds."""
    one = school("good")
    teacher_answers = one.answers_for(one.pool_rows)
    for fold in range(FOLDS):
        other = with_other_labels(one.networks, fold)
        found = [
            student_targets(n, fold, one.x_pool, teacher_answers, torch.Generator().manual_seed(0))
            for n in (one.networks, other)
        ]
        assert torch.equal(found[0].unlabelled, found[1].unlabelled)
        outside = one.networks.gold.outside(fold)
        assert torch.equal(found[0].gold[outside], found[1].gold[outside])
        pair = [fold_corrections(n, matrix=True)[fold] for n in (one.networks, other)]
        assert torch.equal(pair[0].matrix, pair[1].matrix)


def test_a_gold_rows_own_label_does_not_enter_its_target() -> None:
    one = school("good")
    teacher_answers, generator = one.answers_for(one.pool_rows), torch.Generator()
    other = with_other_labels(one.networks, 1)
    rows_of_one = one.networks.gold.inside(1)
    first, second = (
        student_targets(n, 0, one.x_pool, teacher_answers, generator).gold[rows_of_one]
        for n in (one.networks, other)
    )
    assert torch.equal(first, second)


def test_rows_are_inside_some_folds_or_outside_them() -> None:
    gold = school("good").networks.gold
    for folds in ((), (2,), (0, 3)):
        inside, outside = gold.inside(*folds).tolist(), gold.outside(*folds).tolist()
        assert inside == [row for row, fold in enumerate(gold.folds.tolist()) if fold in folds]
        assert sorted(inside + outside) == list(range(60))


def test_predictions_out_of_fold_are_the_networks_own() -> None:
    networks = school("good").networks
    gold = networks.gold
    assert set(networks.pairs) == set(permutations(range(FOLDS), 2))
    for fold in range(FOLDS):
        rows = gold.inside(fold)
        assert torch.equal(networks.out_of_fold[rows], networks.singles[fold].held_out)
        found = networks.out_of_fold_without(fold)
        assert not found[rows].any()
        for other in set(range(FOLDS)) - {fold}:
            its = networks.pairs[other, fold].held_out
            assert torch.equal(found[gold.inside(other)], its)


def test_a_hard_teacher_s_answers_are_its_confusion_without_the_row_s_fold() -> None:
    gold = school("good").networks.gold
    found = gold.log_answers({0})
    assert found.shape == (1, 60, 3)
    torch.testing.assert_close(found.sum(-1), torch.zeros(1, 60, dtype=torch.float64))
    said = gold.answers[0].probabilities.argmax(1)
    for fold in range(FOLDS):
        table = gold.confusion(0, {0, fold})
        assert table is not None
        rows = gold.inside(fold)
        torch.testing.assert_close(found[0, rows], centred_log(table.float())[said[rows]])


def test_targets_are_probabilities_with_and_without_a_teacher() -> None:
    one = school("good")
    for networks, teacher_answers in (
        (one.networks, one.answers_for(one.pool_rows)),
        (one.networks.without_answers(), ()),
    ):
        found = student_targets(
            networks, 2, one.x_pool, teacher_answers, torch.Generator().manual_seed(0)
        )
        assert found.unlabelled.shape == (len(one.x_pool), 3)
        for part in (found.gold, found.unlabelled):
            torch.testing.assert_close(part.sum(1), torch.ones(len(part)))
        own = networks.gold.inside(2)
        torch.testing.assert_close(found.gold[own], torch.full((len(own), 3), 1 / 3))
