import numpy as np
import pytest
import torch
from scipy import stats

from dessl.evaluation.debiased import estimate_ece
from dessl.evaluation.debiased.calibration_bounds import binomial


@pytest.mark.parametrize("inflated", [(1.0, 1.0, 1.0), (1.0, 3.0, 20.0)])
def test_quantiles_are_scipys(inflated: tuple[float, ...]) -> None:
    rows = torch.tensor([1.0, 7.0, 40.0], dtype=torch.float64)
    p = torch.tensor([0.3, 1.0, 0.97], dtype=torch.float64)
    uniform = torch.rand(3, 200, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = stats.binom.ppf(uniform, rows[:, None], p[:, None])
    variance = torch.tensor(inflated, dtype=torch.float64)
    if max(inflated) > 1:
        size = (rows[2] - inflated[2]) / (inflated[2] - 1)  # of 40 rows; 7 are always right
        expected[2] = stats.betabinom.ppf(uniform[2], 40, p[2] * size, (1 - p[2]) * size)
    np.testing.assert_array_equal(binomial(rows, uniform, variance)(p), expected)


@pytest.mark.parametrize("rows", [10, 40])
def test_rows_of_confidence_one_that_are_all_right_have_the_exact_upper_bound(rows: int) -> None:
    estimate = estimate_ece([[1.0, 0.0]] * rows, [0] * rows, alternative="smaller", draws=9999)
    assert estimate.high == pytest.approx(1 - 0.05 ** (1 / rows), rel=0.05)


@pytest.mark.parametrize("rows", [3, 10])
def test_rows_of_confidence_one_that_are_all_wrong_have_the_exact_lower_bound(rows: int) -> None:
    estimate = estimate_ece([[1.0, 0.0]] * rows, [1] * rows, alternative="larger", draws=9999)
    assert estimate.low == pytest.approx(0.05 ** (1 / rows), rel=0.05)


def test_a_timid_model_of_many_classes_may_have_an_error_above_its_confidence() -> None:
    estimate = estimate_ece([[0.2] + [0.1] * 8] * 40, [0] * 40)
    assert estimate.low < 0.8 <= estimate.high


def sure_and_unsure(rows: int, generator: np.random.Generator):
    """A quarter of the rows, the unsure ones, are right 15 points too seldom."""
    unsure = generator.random(rows) < 0.25
    spread = generator.random(rows)
    confidence = np.where(unsure, 0.5 + 0.15 * spread, 0.97 + 0.03 * spread)
    return confidence, np.where(unsure, confidence - 0.15, confidence)


def two_values(rows: int, generator: np.random.Generator):
    unsure = generator.random(rows) < 0.2
    return np.where(unsure, 0.6, 0.99), np.where(unsure, 0.45, 0.99)


def too_sure(rows: int, generator: np.random.Generator):
    sure = generator.random(rows) < 0.9
    return np.where(sure, 0.999, 0.95), np.full(rows, 0.95)


@pytest.mark.parametrize(
    ("population", "m", "truth", "options"),
    [
        pytest.param(sure_and_unsure, 100, 0.0375, {}, marks=pytest.mark.slow),
        pytest.param(
            two_values,
            50,
            0.03,
            {"n_bins": 10, "spacing": "equal_width"},
            marks=pytest.mark.slow,
        ),
        pytest.param(too_sure, 20, 0.0441, {}, marks=pytest.mark.slow),
    ],
)
def test_bounds_cover_where_bins_differ_in_noise(population, m, truth, options) -> None:
    generator, noise = np.random.default_rng(0), torch.Generator().manual_seed(0)
    estimates = []
    for _ in range(300):
        confidence, accuracy = population(m + 1000, generator)
        p = np.stack([confidence, 1 - confidence], axis=1)
        y = (generator.random(m) > accuracy[:m]).astype(int)
        options |= {"confidence": 0.9, "draws": 199, "generator": noise}
        estimates.append(estimate_ece(p[:m], y, p[m:], **options))
    assert np.mean([e.high < truth for e in estimates]) < 0.09  # nominal 5 %
    assert np.mean([e.low > truth for e in estimates]) < 0.09
