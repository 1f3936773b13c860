"""Tests of MCAR: exact p-values, and what they find."""

import numpy as np
import pytest
import torch
from scipy import stats

from dessl.safety.answers import fold_answers
from dessl.safety.two_samples import (
    auc,
    classifier_test,
    column_tests,
    max_test,
    output_tests,
)
from dessl.teachers import Linear


def rows(n: int = 300, n_l: int = 80, seed: int = 0) -> tuple[torch.Tensor, np.ndarray]:
    generator = np.random.default_rng(seed)
    x = torch.from_numpy(generator.normal(size=(n, 3))).float()
    return x, np.arange(n) < n_l


def test_the_largest_statistic_is_compared_with_the_largest() -> None:
    generator = np.random.default_rng(0)
    statistics = generator.normal(size=(400, 5))
    test = max_test(statistics)
    scaled = (statistics - statistics.mean(0)) / statistics.std(0)
    for k in range(5):
        above = sum(1 for row in scaled[1:] if max(row) >= scaled[0, k])
        assert test.corrected[k] == pytest.approx((above + 1) / 400)
    assert test.p_value == test.corrected.min()


def test_auc_is_that_of_mann_and_whitney() -> None:
    generator = np.random.default_rng(1)
    a, b = generator.integers(0, 5, 30).astype(float), generator.integers(1, 6, 20).astype(float)
    assert auc(a, b) == pytest.approx(stats.mannwhitneyu(a, b).statistic / 600)


def test_one_column_has_the_p_value_of_the_rank_sum_test() -> None:
    x, labelled = rows(60, 20, seed=3)
    values = x.numpy()[:, :1]
    (found,) = column_tests(values, labelled, ("a",), permutations=4999)
    two = stats.mannwhitneyu(values[labelled, 0], values[~labelled, 0], method="asymptotic")
    spread = stats.ansari(values[labelled, 0], values[~labelled, 0])
    # Two statistics of one column: the corrected p-value is at most twice the smaller one.
    smaller = min(two.pvalue, spread.pvalue)
    assert 0.7 * smaller < found.p_value < 2.6 * smaller


@pytest.mark.parametrize("way", ["linear", "kernel", "neighbours"])
def test_each_statistic_finds_its_kind_of_difference(way: str) -> None:
    x, labelled = rows()
    marks = torch.from_numpy(labelled)
    if way == "linear":
        x[marks] += 0.7
    elif way == "kernel":
        x[marks] = x[marks] / x[marks].norm(dim=1, keepdim=True) * 2.5
    else:  # each labelled row has a copy that is labelled too
        x[:40] = x[40:80] + 0.001
    found = classifier_test(x, labelled)
    assert found.p_value < 0.02
    assert found.by == way or way != "neighbours"


def test_a_difference_in_spread_is_named() -> None:
    x, labelled = rows()
    x[torch.from_numpy(labelled), 1] *= 3
    first, second, third = column_tests(x.numpy(), labelled, ("a", "b", "c"))
    assert second.p_value < 0.01
    assert second.spread
    assert min(first.p_value, third.p_value) > 0.05


def test_small_p_values_are_as_rare_as_they_should_be() -> None:
    """A few of the 500 simulations of benchmarks/audit.py."""
    found = []
    for seed in range(20):
        x, labelled = rows(80, 30, seed=seed)
        y = (x[labelled, 0] > 0).long()
        answers = fold_answers(x, y, labelled, 2, seed=seed)
        shifts = output_tests(answers.log_p, labelled, answers.folds, ("a", "b"), seed=seed)
        found.append(
            (
                classifier_test(x, labelled, permutations=99, seed=seed).p_value,
                min(shift.p_value for shift in shifts),
            )
        )
    share = (np.array(found) <= 0.2).mean(0)
    assert (np.abs(share - 0.2) < 0.27).all()  # three standard errors


def test_a_model_that_saw_the_labels_would_fail_and_a_cross_fitted_one_does_not() -> None:
    generator = np.random.default_rng(5)
    x = torch.from_numpy(generator.normal(size=(300, 30))).float()
    y, labelled = torch.from_numpy(generator.integers(0, 2, 60)), np.arange(300) < 60
    answers = fold_answers(x, y, labelled, 2)
    names = ("a", "b")
    honest = output_tests(answers.log_p, labelled, answers.folds, names)
    assert min(shift.p_value for shift in honest) > 0.05
    seen = Linear(100.0).fit(x[:60], y, x[:0], 2).predict_log_proba(x)
    flattered = output_tests(seen, labelled, np.zeros(300, np.int64), names)
    assert min(shift.p_value for shift in flattered) < 0.02
