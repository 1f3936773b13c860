import itertools
import math

import pytest
import torch
from scipy import stats

from dessl.evaluation.metrics import adaptive_ece, debiased_ece, ece
from dessl.evaluation.metrics.debiased_bins import debiased_calibration, folded_normal_mean


def signed_square(value):
    return math.copysign(value * value, value)


def test_the_square_is_exactly_unbiased_over_all_outcomes():
    """Rows of one bin: (confidence, chance of being right) comes from a law of three points."""
    points = [(0.55, 0.7), (0.7, 0.5), (0.9, 0.8)]
    chances = [0.5, 0.3, 0.2]
    n = 4
    outcomes = [
        (confidence, right, weight * (chance if right else 1 - chance))
        for (confidence, chance), weight in zip(points, chances, strict=True)
        for right in (True, False)
    ]
    index = torch.zeros(n, dtype=torch.int64)
    mean = 0.0
    for rows in itertools.product(outcomes, repeat=n):
        confidence = torch.tensor([row[0] for row in rows], dtype=torch.float64)
        correct = torch.tensor([row[1] for row in rows])
        weight = math.prod(row[2] for row in rows)
        mean += weight * signed_square(debiased_calibration(confidence, correct, index, "l2"))
    gap = sum(w * (chance - c) for (c, chance), w in zip(points, chances, strict=True))
    assert mean == pytest.approx(gap**2, abs=1e-12)


def test_bins_of_one_confidence_give_the_published_estimator():
    confidence = torch.tensor([0.6] * 20 + [0.9] * 30, dtype=torch.float64)
    correct = torch.tensor([True] * 8 + [False] * 12 + [True] * 20 + [False] * 10)
    index = torch.tensor([0] * 20 + [1] * 30)
    kumar = 0.0
    for n, conf, right in ((20, 0.6, 8 / 20), (30, 0.9, 20 / 30)):
        kumar += n / 50 * ((right - conf) ** 2 - right * (1 - right) / (n - 1))
    value = debiased_calibration(confidence, correct, index, "l2")
    assert value == pytest.approx(math.sqrt(kumar), rel=1e-12)


def test_l1_takes_back_the_bias_of_a_normal_gap():
    confidence = torch.tensor([0.5, 0.6, 0.7, 0.8], dtype=torch.float64)
    correct = torch.tensor([True, True, False, True])
    d = correct.double() - confidence
    mean, scale = float(d.mean()), float(d.std()) / 2
    folded = stats.foldnorm.mean(abs(mean) / scale, scale=scale)
    value = debiased_calibration(confidence, correct, torch.zeros(4, dtype=torch.int64), "l1")
    assert value == pytest.approx(2 * abs(mean) - folded, rel=1e-10)


@pytest.mark.parametrize("mean", [-1.5, -0.1, 0.0, 0.3, 4.0])
@pytest.mark.parametrize("deviation", [0.2, 1.0])
def test_folded_normal_mean_against_scipy(mean, deviation):
    value = folded_normal_mean(
        torch.tensor(mean, dtype=torch.float64), torch.tensor(deviation**2, dtype=torch.float64)
    )
    expected = stats.foldnorm.mean(abs(mean) / deviation, scale=deviation)
    assert float(value) == pytest.approx(expected, rel=1e-10)


def test_folded_normal_without_spread():
    zeros = torch.zeros(3)
    values = folded_normal_mean(torch.tensor([-2.0, 0.0, 1.0]), zeros)
    assert values.tolist() == [2.0, 0.0, 1.0]


@pytest.mark.parametrize(("norm", "left"), [("l1", 0.65), ("l2", 0.35)])
def test_few_rows_of_a_calibrated_model_look_miscalibrated_only_without_debiasing(norm, left):
    generator = torch.Generator().manual_seed(0)
    plain, debiased = [], []
    for _ in range(200):
        right = 0.5 + 0.5 * torch.rand(150, generator=generator, dtype=torch.float64)
        y = (torch.rand(150, generator=generator) > right).long()
        p = torch.stack([right, 1 - right], 1)
        plain.append(adaptive_ece(p, y, norm=norm))
        debiased.append(debiased_ece(p, y, norm=norm))
    assert sum(plain) / 200 > 0.09
    assert sum(debiased) < left * sum(plain)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_a_miscalibrated_model_keeps_its_error(norm):
    generator = torch.Generator().manual_seed(1)
    values = []
    for _ in range(100):
        y = (torch.rand(300, generator=generator) > 0.6).long()
        p = 0.85 + 0.1 * torch.rand(300, generator=generator, dtype=torch.float64)
        values.append(debiased_ece(torch.stack([p, 1 - p], 1), y, norm=norm))
    assert sum(values) / 100 == pytest.approx(0.3, abs=0.01)


def test_bins_of_one_row_are_left_out():
    p = [[0.9, 0.1], [0.9, 0.1], [0.6, 0.4]]
    both = debiased_ece(p[:2], [0, 0], norm="l2")
    assert debiased_ece(p, [0, 0, 1], norm="l2") == both == pytest.approx(0.1)
    assert math.isnan(debiased_ece([[0.9, 0.1]], [0]))


def test_equal_width_bins_are_an_option(draw):
    logits, y = draw(n=5000)
    p = logits.softmax(1)
    value = debiased_ece(p, y, norm="l2", spacing="equal_width")
    assert value == pytest.approx(ece(p, y, norm="l2"), abs=0.02)
    assert value < ece(p, y, norm="l2")
    with pytest.raises(ValueError, match="norm must be one of 'l1', 'l2'; got 'max'"):
        debiased_ece(p, y, norm="max")
