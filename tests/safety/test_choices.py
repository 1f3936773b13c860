"""Choices of labelled rows: what is exchanged, and the size and power of tests of whole groups."""

import numpy as np
import pytest
import torch

from dessl.safety.answers import fold_answers
from dessl.safety.choices import choices, group_folds
from dessl.safety.two_samples import classifier_test, column_tests, output_tests

TABLES = 200


def test_choices_within_strata_keep_each_stratum_s_number_of_labels() -> None:
    labelled, strata = np.array([1, 1, 0, 0, 0, 1], bool), np.array([0, 0, 0, 1, 1, 1])
    drawn = choices(labelled, permutations=50, strata=strata)
    assert (drawn[:, :3].sum(1) == 2).all()
    assert (drawn[:, 3:].sum(1) == 1).all()
    assert len(np.unique(drawn[1:], axis=0)) == 9  # 3 × 3 choices, all of them drawn


def test_whole_groups_are_exchanged_if_labels_are_of_whole_groups() -> None:
    groups = np.repeat(np.arange(5), [1, 2, 3, 4, 5])
    drawn = choices(groups < 2, permutations=200, groups=groups)
    assert drawn[0].tolist() == [1.0] * 3 + [0.0] * 12
    shares = np.stack([drawn[:, groups == group].mean(1) for group in range(5)], 1)
    assert set(np.unique(shares)) == {0.0, 1.0}
    assert (shares.sum(1) == 2).all()
    assert len(np.unique(drawn, axis=0)) == 10  # 5 over 2, all of them drawn


def test_groups_take_over_each_other_s_number_of_labels_and_draw_the_rows_again() -> None:
    groups = np.repeat(np.arange(4), 3)
    labelled = np.array([1, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1], bool)  # 1, 2, 0 and 3 of 3
    drawn = choices(labelled, permutations=2000, groups=groups)
    counts = drawn.reshape(len(drawn), 4, 3).sum(2)
    assert (np.sort(counts, 1) == [0, 1, 2, 3]).all()
    np.testing.assert_allclose(drawn[1:].mean(0), 0.5, atol=0.05)


def test_strata_of_whole_groups_keep_their_labels() -> None:
    groups, strata = np.array([0, 0, 1, 1, 2, 2, 3, 3]), np.array([0, 0, 0, 0, 1, 1, 1, 1])
    drawn = choices(groups < 1, permutations=50, strata=strata, groups=groups)
    assert (drawn[:, :4].sum(1) == 2).all()
    assert not drawn[:, 4:].any()


def test_a_model_predicts_only_groups_without_a_label_in_its_training() -> None:
    generator = np.random.default_rng(0)
    groups = generator.integers(0, 12, 120)
    labelled = generator.random(120) < 0.4
    x = torch.from_numpy(generator.normal(size=(120, 2))).float()
    y = torch.from_numpy(generator.integers(0, 2, int(labelled.sum())))
    found = fold_answers(x, y, labelled, 2, groups=groups)
    assert all(len(set(found.folds[groups == group])) == 1 for group in range(12))
    assert len(set(group_folds(groups, 5, generator))) == 5


def grouped(
    seed: int, how: str, *, n_groups: int = 24, shift: float = 0.0
) -> tuple[torch.Tensor, np.ndarray, np.ndarray, torch.Tensor]:
    """Rows of patients who differ, labelled at random or, with a shift, by their first column."""
    generator = np.random.default_rng(seed)
    sizes = np.full(n_groups, 4) if how != "unequal" else generator.integers(1, 9, n_groups)
    groups = np.repeat(np.arange(n_groups), sizes)
    means = generator.normal(size=(n_groups, 3))
    x = means[groups] + 0.3 * generator.normal(size=(len(groups), 3))
    if how in ("whole", "unequal"):
        order = np.argsort(generator.gumbel(size=n_groups) - shift * means[:, 0])
        labelled = np.isin(groups, order[: n_groups // 2])
    else:
        order = np.argsort(generator.gumbel(size=len(groups)) - shift * x[:, 0])
        labelled = np.isin(np.arange(len(groups)), order[: len(groups) // 3])
        if how == "some":  # rows of half of the groups
            labelled = (generator.random(len(groups)) < 0.5) & (groups % 2 == 0)
    y = torch.from_numpy((means[:, 1] > 0).astype(np.int64)[groups][labelled])
    return torch.from_numpy(x).float(), labelled, groups, y


def rejections(
    how: str, *, tables: int = TABLES, n_groups: int = 24, shift: float = 0.0
) -> list[int]:
    """How often each test has p ≤ 0.05."""
    found = []
    for seed in range(tables):
        x, labelled, groups, y = grouped(seed, how, n_groups=n_groups, shift=shift)
        few = {"groups": groups, "permutations": 79, "seed": seed}
        shifts = column_tests(x.numpy(), labelled, ("a", "b", "c"), **few)
        p = [classifier_test(x, labelled, **few).p_value, min(one.p_value for one in shifts)]
        if how in ("whole", "rows"):
            answers = fold_answers(x, y, labelled, 2, groups=groups, seed=seed)
            outputs = output_tests(
                answers.log_p, labelled, answers.folds, ("a", "b"), groups=groups, seed=seed
            )
            p.append(min(one.p_value for one in outputs))
        found.append(p)
    return (np.array(found) <= 0.05).sum(0).tolist()


@pytest.mark.parametrize("how", ["whole", "unequal", "rows", "some"])
def test_at_random_each_test_rejects_one_table_in_twenty(how: str) -> None:
    # Of 200 tables, an exact test rejects 10 on average, and more than 20 in one case of 1,000.
    assert max(rejections(how)) <= 20


def test_few_groups_give_no_false_alarms() -> None:
    assert max(rejections("whole", n_groups=6)) <= 20
    x, labelled, groups, _ = grouped(0, "whole", n_groups=4)
    assert classifier_test(x, labelled, groups=groups).p_value > 0.1  # 6 choices of 2 groups
    one = np.zeros(len(x), np.int64)
    assert classifier_test(x, labelled, groups=one).p_value > 0


@pytest.mark.parametrize("how", ["whole", "rows"])
def test_labels_that_depend_on_a_column_are_found(how: str) -> None:
    found = rejections(how, tables=20, n_groups=40, shift=2.0)
    assert min(found[:2]) >= 15
