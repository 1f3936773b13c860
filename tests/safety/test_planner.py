"""Labels needed, and draws whose recorded probabilities keep means unbiased."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from dessl.data import DataError, SemiData
from dessl.safety.planner import _needed, design_effect, next_rows, plan_labels
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


def test_means_over_first_labels_and_rows_drawn_so_are_unbiased() -> None:
    """And more precise than if the first labels stood for themselves alone."""
    x = torch.randn(400, 2, generator=torch.Generator().manual_seed(0))
    classes = (x[:, 0] > 0).long()
    truth = (torch.randn(400, generator=torch.Generator().manual_seed(1)) + x[:, 0]).double()
    found: dict[str, list[float]] = {"both": [], "apart": []}
    for seed in range(60):
        generator = torch.Generator().manual_seed(100 + seed)
        labelled = torch.randperm(400, generator=generator)[:40]
        y = torch.full((400,), -1)
        y[labelled] = classes[labelled]
        data = SemiData(x, y)
        drawn = next_rows(data, 60, seed=seed)
        known = torch.cat([data.labelled_rows, drawn.rows])
        chances = drawn.propensity[known]
        now = (chances - 0.1) / 0.9
        now[:40] = 1.0
        for name, one in (("both", chances), ("apart", now)):
            found[name].append(float((truth[known] / one).sum() / (1 / one).sum()))
    test = stats.ttest_1samp(found["both"], float(truth.mean()))
    assert abs(test.statistic) < 3.5
    assert np.std(found["both"]) < 0.9 * np.std(found["apart"])
    assert set(drawn.rows.tolist()) <= set(data.unlabelled_rows.tolist())


def test_the_probabilities_of_all_rows_add_up_to_the_labels() -> None:
    """On average: labelled rows are like the others."""
    data = few_labels()
    drawn = next_rows(data, 80)
    assert float(drawn.propensity.sum()) == pytest.approx(data.n_labelled + 80, rel=0.1)
    data.propensity = torch.full((400,), 0.5, dtype=torch.float64)
    assert bool((next_rows(data, 80).propensity > 0.5).all())


def in_groups(n_groups: int = 60, size: int = 5) -> tuple[SemiData, torch.Tensor]:
    """Patients with equal rows, a third of them labelled."""
    generator = torch.Generator().manual_seed(1)
    groups = torch.arange(n_groups).repeat_interleave(size)
    x = torch.randn(n_groups, 3, generator=generator)
    y = (x[:, 0] + 0.8 * torch.randn(n_groups, generator=generator) > 0).long()
    known = torch.arange(n_groups) < n_groups // 3
    return SemiData(x[groups], torch.where(known, y, -1)[groups]), groups


def test_equal_rows_of_a_group_count_as_one_label() -> None:
    data, groups = in_groups()
    plan = plan_labels(data, width=0.05, groups=groups)
    assert plan.design_effect == pytest.approx(5.0)
    plain = (stats.norm.ppf(0.975) * plan.deviation / 0.05) ** 2
    assert plan.needed == math.ceil(5 * plain)
    assert plan.labelled_groups == 20
    assert plan.needed_groups == math.ceil(plan.needed_with_unlabelled / 5)
    assert plan.needed_groups_in_total == math.ceil(plan.needed_in_total / 5)
    assert f"test labels of {plan.needed_groups:,} groups are needed" in plan.sentence
    assert "They must be of new groups" in plan.sentence
    assert "The data has only 60 groups: collect more." in plan.sentence
    data.groups = groups
    assert plan_labels(data, width=0.05) == plan


def test_independent_rows_in_groups_need_hardly_more_labels() -> None:
    generator = torch.Generator().manual_seed(2)
    loss = torch.randn(4000, generator=generator)
    assert design_effect(loss, np.arange(4000) // 10) == pytest.approx(1.0, abs=0.15)
    shared = loss[:400].repeat_interleave(10)
    mixed = shared + torch.randn(4000, generator=generator)  # r = 1/2
    assert design_effect(mixed, np.arange(4000) // 10) == pytest.approx(5.5, rel=0.1)
    assert design_effect(loss, np.arange(4000)) == 1.0


def test_whole_groups_are_drawn_as_often_as_their_probability_says() -> None:
    data, groups = in_groups()
    often = torch.zeros(300)
    for seed in range(150):
        drawn = next_rows(data, 50, groups=groups, seed=seed)
        assert abs(len(drawn.rows) - 50) <= 5
        sizes = groups[drawn.rows].bincount(minlength=60)
        assert set(sizes.tolist()) == {0, 5}
        assert torch.equal(drawn.propensity.view(60, 5), drawn.propensity[::5, None].expand(60, 5))
        chances = (drawn.propensity - 1 / 3) / (2 / 3)
        often[drawn.rows] += 1
        often[100:] -= chances[100:]
    assert float(often[100:].abs().max()) / 150 < 0.15
    assert abs(float(often[100:].mean())) / 150 < 0.01


def test_labels_of_two_groups_are_too_few_to_plan_with() -> None:
    data, groups = in_groups()
    two = torch.where(groups < 20, groups % 2, groups)
    with pytest.raises(
        DataError, match="labels of at least 3 groups, to plan with; got those of 2"
    ):
        plan_labels(data, width=0.05, groups=two)


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
