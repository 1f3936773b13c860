from itertools import combinations_with_replacement

import numpy as np
import pytest
from scipy import stats


@pytest.fixture(scope="module")
def limits(part):
    return part("limits")


@pytest.mark.parametrize(("m", "accuracy", "nominal"), [(6, 0.7, 0.9), (50, 0.98, 0.9)])
def test_the_nearest_coverage_is_found_by_trying_all_runs(limits, m, accuracy, nominal) -> None:
    chances = stats.binom.pmf(np.arange(m + 1), m, accuracy)
    runs = [chances[a : b + 1].sum() for a, b in combinations_with_replacement(range(m + 1), 2)]
    nearest = min(runs, key=lambda coverage: abs(coverage - nominal))
    assert limits.nearest_coverage(m, accuracy, nominal) == pytest.approx(nearest)


def test_one_wrong_row_in_fifty_allows_no_coverage_near_ninety(limits) -> None:
    assert limits.nearest_coverage(50, 0.98, 0.9) > 0.915


def test_the_share_within_reach_is_that_of_exact_truths(limits) -> None:
    # One row: it is right or wrong, and an interval covers with 1 − w, w, 0 or 1 at wrong share w.
    wrong = 0.06 * np.geomspace(0.5, 2, 201)
    share = (np.abs(wrong - 0.1) <= 0.019).mean()
    assert 0.2 < share < 0.4
    assert limits.share_within_reach(1, 0.94, 0.9, 0.019) == share
    assert limits.share_within_reach(500, 0.6, 0.9, 0.015) == 1.0


def test_stretched_intervals_have_the_coverage_asked_for(limits) -> None:
    generator = np.random.default_rng(0)
    centre, half = generator.normal(1, 0.1, 4001), generator.uniform(0.05, 0.1, 4001)
    width = limits.width_at_coverage(centre - half, centre + half, 1.0, 0.95, 2.0)
    stretch = width / (2 * half.mean())  # no bound is cut here
    covered = np.abs(centre - 1) <= (1 + 1e-9) * stretch * half
    assert covered.mean() == pytest.approx(0.95, abs=1e-3)


def test_stretched_intervals_are_cut_to_the_range(limits) -> None:
    low, high = np.array([0.1, 0.1, 0.1]), np.array([0.3, 0.3, 0.3])
    # Twice the half width reaches the truth at 0.4, and below it 0.
    assert limits.width_at_coverage(low, high, 0.4, 0.9, 2.0) == pytest.approx(0.4)
    assert limits.width_at_coverage(low, high, 1.2, 0.9, 1.0) == pytest.approx(1.0)


def test_intervals_without_width_cannot_be_stretched(limits) -> None:
    low, high = np.array([0.0, 0.0, 0.1]), np.array([0.0, 0.0, 0.3])
    assert limits.width_at_coverage(low, high, 0.2, 0.9, 1.0) is None
