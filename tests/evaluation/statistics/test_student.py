import math

import numpy as np
import pytest
import torch
from scipy import stats

from dessl.evaluation.statistics import mean_interval, paired_t_test
from dessl.evaluation.statistics.student import hedges_factor


@pytest.fixture
def folds():
    generator = np.random.default_rng(0)
    a = generator.normal(0.94, 0.01, 10)
    return a, a - generator.normal(0.004, 0.006, 10)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.99])
def test_mean_interval_against_scipy(folds, confidence):
    values, _ = folds
    found = mean_interval(values, confidence)
    low, high = stats.t.interval(confidence, 9, loc=values.mean(), scale=stats.sem(values))
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-12)
    assert found.mean == pytest.approx(values.mean())
    assert found.half_width == pytest.approx((high - low) / 2)
    assert (found.n, found.confidence) == (10, confidence)


def test_mean_interval_by_hand():
    found = mean_interval([1.0, 2.0, 3.0])  # s = 1, t(0.975, 2) = 4.302653
    assert found.half_width == pytest.approx(4.302652729911275 / math.sqrt(3))
    assert mean_interval([0.5, 0.5]).half_width == 0.0


@pytest.mark.parametrize("size", [1e-300, 1e-170, 1e160, 1e300])
def test_the_size_of_numbers_does_not_matter(size):
    values = np.array([1.0, 2.0, 5.0, 3.0])
    found, plain = paired_t_test(size * values, 0 * values), paired_t_test(values, 0 * values)
    assert found.p_value == pytest.approx(plain.p_value)
    assert found.low == pytest.approx(size * plain.low)
    half_width = mean_interval(size * values).half_width
    assert half_width == pytest.approx(size * mean_interval(values).half_width)


def test_mean_interval_covers_as_often_as_it_says():
    draws = np.random.default_rng(1).normal(size=(4000, 5))
    inside = [i.low <= 0 <= i.high for i in (mean_interval(row, 0.9) for row in draws)]
    assert np.mean(inside) == pytest.approx(0.9, abs=0.015)  # three standard errors


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_paired_t_test_against_scipy(folds, alternative, confidence):
    a, b = folds
    found = paired_t_test(a, b, alternative=alternative, confidence=confidence)
    expected = stats.ttest_rel(a, b, alternative=alternative)
    assert found.statistic == pytest.approx(expected.statistic, rel=1e-12)
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-12)
    interval = expected.confidence_interval(confidence)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=1e-12)
    assert found.difference == pytest.approx(np.mean(a - b))
    assert found.effect_size == pytest.approx(np.mean(a - b) / np.std(a - b, ddof=1))
    assert (found.n, found.alternative, found.confidence) == (10, alternative, confidence)


def test_sequences_and_tensors_are_taken(folds):
    a, b = folds
    assert paired_t_test(a.tolist(), torch.tensor(b)) == paired_t_test(a, b)


@pytest.mark.parametrize("n", [3, 5, 10])
def test_the_corrected_effect_size_is_unbiased(n):
    """The mean of d_z over draws is biased upwards; Hedges' factor takes that back."""
    draws = np.random.default_rng(n).normal(0.8, 1.0, size=(200_000, n))
    effects = draws.mean(axis=1) / draws.std(axis=1, ddof=1)
    factor = hedges_factor(n - 1)
    if n > 3:  # with two degrees of freedom the mean exists, and its error bar does not
        error = 4 * factor * effects.std() / math.sqrt(len(effects))
        assert factor * effects.mean() == pytest.approx(0.8, abs=error)
        assert effects.mean() - 0.8 > error
    found = paired_t_test(draws[0], np.zeros(n))
    assert found.corrected_effect_size == pytest.approx(factor * effects[0])


def test_hedges_factor_at_its_limits():
    assert hedges_factor(1) == 0.0
    assert hedges_factor(2) == pytest.approx(1 / math.sqrt(math.pi))
    assert hedges_factor(10_000) == pytest.approx(1 - 3 / (4 * 10_000 - 1), abs=1e-8)


@pytest.mark.parametrize(
    ("alternative", "up", "down"), [("two-sided", 0, 0), ("greater", 0, 1), ("less", 1, 0)]
)
def test_equal_differences_have_a_limit_for_a_result(alternative, up, down):
    low, high = [0.1, 0.2, 0.7], [0.2, 0.3, 0.8]  # the differences agree up to rounding only
    for a, b, sign, p_value in ((high, low, 1, up), (low, high, -1, down)):
        found = paired_t_test(a, b, alternative=alternative)
        assert found.statistic == found.effect_size == sign * math.inf
        assert found.corrected_effect_size == sign * math.inf
        assert found.p_value == p_value
        ends = [end for end in (found.low, found.high) if math.isfinite(end)]
        assert ends == pytest.approx([sign * 0.1] * len(ends))
        assert len(ends) == (2 if alternative == "two-sided" else 1)


def test_single_precision_has_its_own_rounding():
    low, high = (np.array(v, dtype=np.float32) for v in ([0.1, 0.2, 0.7], [0.2, 0.3, 0.8]))
    for a, b in ((high, low), (torch.tensor(high), torch.tensor(low)), ([*high], [*low])):
        assert paired_t_test(a, b).statistic == math.inf
    assert paired_t_test(high.astype(np.float64), low.astype(np.float64)).statistic < math.inf


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_no_difference_at_all(alternative):
    a = np.array([0.3, 0.4, 0.9])
    for b in (a, a + 1 - 1):  # the second agrees up to rounding only
        found = paired_t_test(a, b, alternative=alternative)
        assert found.statistic == found.effect_size == found.difference == 0.0
        assert found.p_value == 1.0


def test_a_small_spread_that_is_not_rounding_counts():
    a, b = [1.0 + 1e-10, 1.0 + 3e-10, 1.0], [1.0, 1.0, 1.0]
    assert 0 < paired_t_test(a, b).p_value < 1


@pytest.mark.parametrize(
    ("a", "b", "settings", "message"),
    [
        ([0.9], [0.8], {}, "a must .*two values; got 1"),
        ([0.9, 0.8], [0.8, 0.7, 0.6], {}, "must be paired.*; got 2 and 3"),
        ([0.9, math.nan], [0.8, 0.7], {}, "a must be finite"),
        ([[0.9, 0.8]], [[0.8, 0.7]], {}, r"1 dimension\(s\); got shape \(1, 2\)"),
        ([0.9, 0.8], [0.8, 0.7], {"alternative": "larger"}, "alternative must be one of"),
        ([0.9, 0.8], [0.8, 0.7], {"confidence": 95}, r"confidence must lie in \(0, 1\); got 95"),
    ],
)
def test_wrong_calls_are_refused(a, b, settings, message):
    with pytest.raises(ValueError, match=message):
        paired_t_test(a, b, **settings)


def test_an_interval_needs_two_values():
    with pytest.raises(ValueError, match=r"values must .*two values; got 1"):
        mean_interval([0.9])
    with pytest.raises(ValueError, match="confidence must lie in"):
        mean_interval([0.9, 0.8], confidence=1.0)
