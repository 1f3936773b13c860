import itertools
import math
import tracemalloc

import numpy as np
import pytest
import torch
from scipy import stats

from dessl.evaluation.statistics import wilcoxon_test


def by_all_signings(differences, alternative):
    """The exact p-value from every signing of the ranks, ties sharing their mean rank."""
    kept = [d for d in differences if d != 0]
    size = [abs(d) for d in kept]
    ranks = [sum(s < t for s in size) + (sum(s == t for s in size) + 1) / 2 for t in size]
    observed = sum(r for r, d in zip(ranks, kept, strict=True) if d > 0)
    sums = [
        sum(itertools.compress(ranks, signs))
        for signs in itertools.product((0, 1), repeat=len(ranks))
    ]
    above = sum(s >= observed for s in sums) / len(sums)
    below = sum(s <= observed for s in sums) / len(sums)
    p_values = {"greater": above, "less": below, "two-sided": min(1, 2 * min(above, below))}
    return observed, p_values[alternative]


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
@pytest.mark.parametrize("seed", range(4))
def test_ties_and_zeros_against_all_signings(seed, alternative):
    differences = np.random.default_rng(seed).integers(-3, 6, 10)
    found = wilcoxon_test(differences, np.zeros(10), alternative=alternative)
    statistic, p_value = by_all_signings(differences.tolist(), alternative)
    assert found.statistic == statistic
    assert found.p_value == pytest.approx(p_value, rel=1e-12)
    assert found.zeros == int((differences == 0).sum())
    assert found.n + found.zeros == 10
    assert found.exact


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
@pytest.mark.parametrize("n", [2, 5, 20, 45])
def test_without_ties_against_scipy(n, alternative):
    generator = np.random.default_rng(n)
    a, b = generator.normal(0.3, 1, n), generator.normal(0, 1, n)
    found = wilcoxon_test(a, b, alternative=alternative)
    expected = stats.wilcoxon(a, b, alternative=alternative)
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-10)


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_many_pairs_follow_the_normal_law_as_in_scipy(alternative):
    generator = np.random.default_rng(0)
    a, b = generator.integers(0, 40, 400) * 1.0, generator.integers(0, 38, 400) * 1.0
    found = wilcoxon_test(a, b, alternative=alternative)
    assert not found.exact
    expected = stats.wilcoxon(a, b, alternative=alternative, correction=True, method="asymptotic")
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-10)


def test_the_normal_law_takes_over_smoothly(monkeypatch):
    from dessl.evaluation.statistics import signed_ranks

    generator = np.random.default_rng(3)
    a, b = generator.normal(0.1, 1, 200), generator.normal(0, 1, 200)
    exact = wilcoxon_test(a, b)
    monkeypatch.setattr(signed_ranks, "EXACT_UP_TO", 100)
    normal = wilcoxon_test(a, b)
    assert exact.exact
    assert not normal.exact
    assert normal.p_value == pytest.approx(exact.p_value, abs=1e-3)


def test_estimate_and_effect_by_hand():
    found = wilcoxon_test([1.0, -2.0, 4.0], [0.0, 0.0, 0.0])
    # Walsh averages: -2, -0.5, 1, 1, 2.5, 4; ranks 1, 2, 3.
    assert found.difference == 1.0
    assert found.statistic == 4.0
    assert found.effect_size == pytest.approx((4 - 2) / 6)


def test_rounding_neither_breaks_ties_nor_makes_differences():
    a, b = [0.3, 0.2, 0.7, 0.5], [0.2, 0.1, 0.8, 0.1 + 0.4]
    found = wilcoxon_test(a, b, alternative="greater")
    statistic, p_value = by_all_signings([1, 1, -1, 0], "greater")
    assert (found.statistic, found.p_value, found.zeros) == (statistic, p_value, 1)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("as_given", [np.asarray, torch.as_tensor, list])
def test_thousandths_tie_as_whole_numbers_do(kind, as_given):
    """Wherever a difference happens to lie, and whatever type the accuracies are kept in."""
    generator = np.random.default_rng(0)
    for _ in range(150):
        first = generator.integers(900, 950, 5)
        second = first + generator.choice([-3, -2, 0, 2, 3, 5], 5)
        found = wilcoxon_test(*(as_given((whole / 1000).astype(kind)) for whole in (first, second)))
        expected = by_all_signings((first - second).tolist(), "two-sided")
        assert (found.statistic, found.p_value) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n", [2, 3, 10, 41])
def test_the_estimate_is_the_median_of_all_pairs_means(n):
    generator = np.random.default_rng(n)
    for a in (generator.normal(size=n), generator.integers(-2, 3, n), np.zeros(n), np.arange(n)):
        every = [(a[i] + a[j]) / 2 for i in range(n) for j in range(i, n)]
        assert wilcoxon_test(a, np.zeros(n)).difference == pytest.approx(
            np.median(every), abs=1e-15
        )


def test_rows_of_a_test_set_are_compared_in_little_memory():
    """Of 30,000 rows there are 450 million pairs."""
    b = np.random.default_rng(0).normal(size=30_000)
    tracemalloc.start()
    found = wilcoxon_test(b + 0.25 + 1e-3 * np.sin(np.arange(30_000)), b)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.difference == pytest.approx(0.25, abs=1e-4)
    assert peak < 30e6


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_equal_pairs_say_nothing(alternative):
    for values in ([0.5, 0.6], [0.0, 0.0]):
        found = wilcoxon_test(values, values, alternative=alternative)
        assert (found.p_value, found.effect_size, found.n, found.zeros) == (1.0, 0.0, 0, 2)


def test_an_outlier_moves_the_t_test_only():
    from dessl.evaluation.statistics import paired_t_test

    b = np.zeros(8)
    a = np.array([0.11, 0.12, 0.13, 0.14, 0.15, 0.16, 0.17, 50.0])
    assert paired_t_test(a, b).p_value > 0.3
    assert wilcoxon_test(a, b).p_value == pytest.approx(2 / 2**8)
    # Nor does it make what is rounding of its own size a rounding of the others.
    a, b = (array.astype(np.float32) for array in (a / 100, b))
    a[-1] = 1e5
    assert wilcoxon_test(a, b).p_value == pytest.approx(2 / 2**8)


@pytest.mark.parametrize(
    ("a", "b", "settings", "message"),
    [
        ([0.9], [0.8], {}, "a must .*two values"),
        ([0.9, 0.8], [0.8, 0.7, 0.6], {}, "got 2 and 3 values"),
        ([0.9, math.inf], [0.8, 0.7], {}, "a must be finite"),
        ([0.9, 0.8], [0.8, 0.7], {"alternative": "both"}, "alternative must be one of"),
    ],
)
def test_wrong_calls_are_refused(a, b, settings, message):
    with pytest.raises(ValueError, match=message):
        wilcoxon_test(a, b, **settings)


def test_average_ranks_are_those_of_scipy() -> None:
    from dessl.evaluation.statistics.signed_ranks import average_ranks

    values = np.random.default_rng(0).integers(0, 9, size=(40, 3)).astype(np.float32)
    values[:, 2] += np.linspace(0, 0.5, 40, dtype=np.float32)
    np.testing.assert_array_equal(average_ranks(values), stats.rankdata(values, axis=0))
    np.testing.assert_array_equal(average_ranks(values[:, 0]), stats.rankdata(values[:, 0]))
