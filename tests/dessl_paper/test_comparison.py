"""Paired comparisons."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from dessl.evaluation.verdict import OVER_SEEDS
from dessl.results.record import Record
from dessl_paper.catalogue import load_experiment
from dessl_paper.comparison import compared, over_lambda, over_seeds
from dessl_paper.results import Results
from dessl_paper.specification import Experiment

LAMS = (0.1, 1.2915, 10.0)
ONE = {0: 0.91, 1: 0.88, 2: 0.93, 3: 0.90}
OTHER = {0: 0.89, 1: 0.88, 2: 0.90, 3: 0.87, 7: 0.5}


@pytest.fixture
def mnist() -> Experiment:
    return load_experiment("mnist", "paper")


@pytest.fixture
def swept(mnist: Experiment, results_of: Callable[..., Results]) -> Results:
    generator = np.random.default_rng(3)

    def splits(shift: float) -> list[dict[str, float]]:
        return [
            {"accuracy": 0.9 + shift / 100 + value, "cross_entropy": 0.5 - shift + 3 * value}
            for value in 0.01 * generator.normal(size=6)
        ]

    cells = {("complete_case", 0.0): splits(0.0)}
    cells |= {("pl", lam): splits(0.01 * k) for k, lam in enumerate(LAMS)}
    cells |= {("de_pl", lam): splits(0.03 * k) for k, lam in enumerate(LAMS)}
    return results_of(mnist, cells)


def by_split(results: Results, method: str, lam: float, metric: str) -> list[float]:
    chosen = [r for r in results.records if (r.method, r.lam) == (method, lam)]
    return [r.metrics[metric] for r in sorted(chosen, key=lambda r: r.seed)]


@pytest.mark.parametrize(("metric", "better"), [("accuracy", "greater"), ("cross_entropy", "less")])
def test_both_directions_are_scipys(swept: Results, metric: str, better: str) -> None:
    one = compared(swept, swept.blocks[0], metric, "de_pl", "pl", 10.0, 10.0)
    a, b = (by_split(swept, method, 10.0, metric) for method in ("de_pl", "pl"))
    worse = {"greater": "less", "less": "greater"}[better]
    assert one.n == 6
    assert one.difference == pytest.approx(np.mean(a) - np.mean(b), rel=1e-9)
    assert one.p_better == pytest.approx(stats.ttest_rel(a, b, alternative=better).pvalue)
    assert one.p_worse == pytest.approx(stats.ttest_rel(a, b, alternative=worse).pvalue)
    assert one.p_value == pytest.approx(stats.ttest_rel(a, b).pvalue)
    assert one.p_wilcoxon == pytest.approx(stats.wilcoxon(a, b).pvalue)
    low, high = stats.ttest_rel(a, b).confidence_interval(0.95)
    assert (one.low, one.high) == pytest.approx((low, high))


def test_holm_runs_over_the_grid(swept: Results) -> None:
    found = over_lambda(swept, swept.blocks[0], "cross_entropy", "de_pl", "pl")
    assert [one.lam for one in found] == list(LAMS)
    p_values = [one.p_better for one in found]
    order = np.argsort(p_values)
    expected, least = {}, 0.0
    for rank, place in enumerate(order):  # Holm by hand
        least = max(least, min(1.0, (len(order) - rank) * p_values[place]))
        expected[int(place)] = least
    assert [one.holm_better for one in found] == pytest.approx([expected[k] for k in range(3)])


def test_the_complete_case_is_compared_with_at_every_lambda(swept: Results) -> None:
    found = over_lambda(swept, swept.blocks[0], "accuracy", "pl", "complete_case")
    alone = by_split(swept, "complete_case", 0.0, "accuracy")
    for one in found:
        mean = np.mean(by_split(swept, "pl", one.lam, "accuracy")) - np.mean(alone)
        assert one.difference == pytest.approx(mean)


def test_splits_are_paired_by_seed_whatever_their_order(swept: Results) -> None:
    wanted = compared(swept, swept.blocks[0], "accuracy", "de_pl", "pl", 10.0, 10.0)
    shuffled = Results(swept.experiment, swept.records[::-1])
    assert compared(shuffled, swept.blocks[0], "accuracy", "de_pl", "pl", 10.0, 10.0) == wanted


def test_diverged_unknown_and_missing_splits_are_left_out(swept: Results) -> None:
    def changed(record: Record) -> Record | None:
        if (record.method, record.lam) != ("pl", 10.0):
            return record
        if record.seed == 0:
            return dataclasses.replace(record, metrics={}, training={"diverged": "risk is NaN"})
        if record.seed == 1:
            return dataclasses.replace(record, metrics={"accuracy": None})
        return None if record.seed == 2 else record

    records = tuple(kept for record in swept.records if (kept := changed(record)))
    few = Results(swept.experiment, records)
    one = compared(few, few.blocks[0], "accuracy", "de_pl", "pl", 10.0, 10.0)
    a, b = (by_split(swept, method, 10.0, "accuracy")[3:] for method in ("de_pl", "pl"))
    assert one.n == 3
    assert one.p_value == pytest.approx(stats.ttest_rel(a, b).pvalue)


@pytest.mark.parametrize("method", ["pl", "de_pl"])
def test_an_infinite_split_leaves_no_difference_and_no_test(swept: Results, method: str) -> None:
    records = tuple(
        dataclasses.replace(record, metrics=record.metrics | {"cross_entropy": "Infinity"})
        if (record.method, record.lam, record.seed) == (method, 10.0, 1)
        else record
        for record in swept.records
    )
    results = Results(swept.experiment, records)
    tests = over_lambda(results, results.blocks[0], "cross_entropy", "de_pl", "pl")
    (one,) = (test for test in tests if test.lam == 10.0)
    assert one.n == 6
    assert not one.clear
    numbers = [one.difference, one.low, one.high, one.p_better, one.p_worse]
    numbers += [one.p_value, one.p_wilcoxon, one.holm_better, one.holm_worse]
    assert all(map(math.isnan, numbers))
    others = [test.p_better for test in tests if test.lam != 10.0]
    assert others
    assert not any(map(math.isnan, others))


def test_one_split_has_a_difference_and_no_test(
    mnist: Experiment, results_of: Callable[..., Results]
) -> None:
    results = results_of(
        mnist, {("pl", 10.0): [{"accuracy": 0.9}], ("de_pl", 10.0): [{"accuracy": 0.93}]}
    )
    one = compared(results, results.blocks[0], "accuracy", "de_pl", "pl", 10.0, 10.0)
    assert one.difference == pytest.approx(0.03)
    assert math.isnan(one.p_better)
    assert not one.clear
    assert one.paper == pytest.approx(0.9467 - 0.9546)
    assert not one.same_direction


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
