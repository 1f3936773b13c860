"""Comparisons are scipy's paired tests over the seeds that both methods have."""

import math

import pytest
from scipy import stats

from dessl.evaluation.verdict import OVER_SEEDS
from dessl.results.comparisons import over_seeds

ONE = {0: 0.91, 1: 0.88, 2: 0.93, 3: 0.90}
OTHER = {0: 0.89, 1: 0.88, 2: 0.90, 3: 0.87, 7: 0.5}


@pytest.mark.parametrize(("metric", "better"), [("accuracy", "greater"), ("brier", "less")])
def test_they_are_scipys_paired_tests(metric: str, better: str) -> None:
    found = over_seeds(metric, "a", "b", ONE, OTHER, lam=0.5)
    a, b = list(ONE.values()), [OTHER[seed] for seed in ONE]
    both = stats.ttest_rel(a, b)
    assert (found.n, found.test, found.lam) == (4, OVER_SEEDS, 0.5)
    assert found.difference == pytest.approx(sum(a) / 4 - sum(b) / 4)
    assert (found.low, found.high) == pytest.approx(tuple(both.confidence_interval(0.95)))
    assert found.p_value == pytest.approx(both.pvalue)
    assert found.p_better == pytest.approx(stats.ttest_rel(a, b, alternative=better).pvalue)
    assert found.p_better + found.p_worse == pytest.approx(1)
    assert found.better == (metric == "accuracy")
    assert found.clear == (found.low > 0)


def test_what_cannot_be_tested_has_no_p_value() -> None:
    alone = over_seeds("brier", "a", "b", {0: 0.2, 1: math.nan}, {0: 0.5, 1: 0.5})
    assert (alone.n, alone.difference) == (1, pytest.approx(-0.3))
    assert math.isnan(alone.p_value)
    assert not alone.clear
    infinite = over_seeds("brier", "a", "b", {0: 0.2, 1: math.inf}, {0: 0.5, 1: 0.5})
    assert math.isnan(infinite.difference)
    assert math.isnan(over_seeds("brier", "a", "b", {0: 0.2}, {1: 0.5}).difference)
