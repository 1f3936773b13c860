"""Labels needed, and draws whose recorded probabilities keep means unbiased."""

import numpy as np
import pytest
import torch
from scipy import stats

from dessl.data import DataError, SemiData
from dessl.safety.planner import _needed, design, next_rows, plan_labels, systematic
from dessl.theory import risk_variance


def few_labels(n: int = 400, n_l: int = 60) -> SemiData:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, 3, generator=generator)
    y = (x[:, 0] + 0.5 * torch.randn(n, generator=generator) > 0).long()
    return SemiData(x, torch.where(torch.arange(n) < n_l, y, -1))


def test_the_number_of_labels_gives_the_variance_that_was_asked_for() -> None:
    n, rho, deviation, error = 5000, 0.6, 0.4, 0.02
    needed = _needed(deviation, rho, error, n)
    square = deviation**2
    lam = (n - needed) / n * rho  # for V(H) = V(L)
    variance = risk_variance(square, square, rho * square, needed, n - needed, lam)
    assert variance == pytest.approx(error**2, rel=0.01)
    assert _needed(deviation, 0.0, error, n) in (400, 401)


def test_a_plan_for_an_interval_and_for_a_difference() -> None:
    data = few_labels()
    plan = plan_labels(data, width=0.05)
    assert plan.needed == int(np.ceil((stats.norm.ppf(0.975) * plan.deviation / 0.05) ** 2))
    assert plan.needed_with_unlabelled <= plan.needed
    assert "more than now" in plan.sentence
    difference = plan_labels(data, difference=0.05)
    assert difference.needed > plan.needed
    assert "are enough" in plan_labels(data, width=0.4).sentence
    assert plan_labels(data, metric="cross_entropy", width=0.05).deviation > 0


def test_only_labels_that_are_held_out_count() -> None:
    data = few_labels()
    alone, fifth = (plan_labels(data, width=0.12, share=share) for share in (1.0, 0.2))
    assert alone.needed_with_unlabelled <= 60
    assert "The 60 labels are enough if no model is trained on them." in alone.sentence
    assert (fifth.held_out, fifth.needed) == (12, alone.needed)
    assert fifth.needed_in_total == int(np.ceil(fifth.needed_with_unlabelled / 0.2 - 1e-9))
    assert "dessl fit holds out 20 % of the labels for evaluation, 12 of 60" in fifth.sentence
    assert f"{fifth.needed_in_total} labels in total are needed" in fifth.sentence
    easy = plan_labels(data, width=0.4, share=0.2)
    assert "The 60 labels are enough: dessl fit holds out 20 % of them, 12, for" in easy.sentence
    with pytest.raises(ValueError, match="share must lie in"):
        plan_labels(data, width=0.1, share=0.0)


def test_each_row_is_drawn_as_often_as_its_probability_says() -> None:
    chances = design(np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 2.0, 0.1]), 3)
    assert chances.sum() == pytest.approx(3)
    assert (chances > 0).all()
    assert (chances <= 1).all()
    generator = np.random.default_rng(0)
    counts = np.zeros(8)
    for _ in range(4000):
        rows = systematic(chances, generator)
        assert len(rows) == 3
        counts[rows] += 1
    np.testing.assert_allclose(counts / 4000, chances, atol=0.035)


def test_means_over_rows_drawn_so_are_unbiased() -> None:
    data = few_labels()
    truth = torch.randn(400, generator=torch.Generator().manual_seed(1)).double() + data.x[:, 0]
    estimates = []
    for seed in range(20):
        drawn = next_rows(data, 80, seed=seed)
        known = torch.cat([data.labelled_rows, drawn.rows])
        estimates.append(float((truth[known] / drawn.propensity[known]).sum() / 400))
    test = stats.ttest_1samp(estimates, float(truth.mean()))
    assert abs(test.statistic) < 3.5
    assert set(drawn.rows.tolist()) <= set(data.unlabelled_rows.tolist())
    assert bool((drawn.propensity[data.labelled_rows] == 1).all())


def test_what_cannot_be_planned_is_refused() -> None:
    data = few_labels()
    with pytest.raises(ValueError, match="exactly one of width and difference"):
        plan_labels(data)
    with pytest.raises(DataError, match="at least 20 labels"):
        plan_labels(few_labels(n_l=5), width=0.1)
    with pytest.raises(ValueError, match=r"width must be below 1.* Write 0.05 for 5 points"):
        plan_labels(few_labels(), width=5)
    with pytest.raises(ValueError, match="width must lie in"):
        plan_labels(few_labels(), width=0.0)
    with pytest.raises(ValueError, match="n must"):
        next_rows(data, 1000)
