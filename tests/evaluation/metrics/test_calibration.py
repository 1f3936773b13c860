import itertools
import math

import pytest
import torch
from scipy import stats
from torchmetrics.functional.classification import multiclass_calibration_error

from dessl.evaluation.metrics import adaptive_ece, debiased_ece, ece, reliability
from dessl.evaluation.metrics.calibration import debiased_calibration, folded_normal_mean


def gaps(confidence, correct, edges):
    """Shares and |accuracy − confidence| of the filled bins (low, high], by loops."""
    found = []
    for b, (low, high) in enumerate(itertools.pairwise(edges)):
        rows = [i for i, c in enumerate(confidence) if (low < c <= high) or (b == 0 and c <= low)]
        if rows:
            mean = sum(confidence[i] for i in rows) / len(rows)
            right = sum(correct[i] for i in rows) / len(rows)
            found.append((len(rows) / len(confidence), abs(right - mean)))
    return found


def reduced(found, norm):
    if norm == "max":
        return max(gap for _, gap in found)
    if norm == "l2":
        return math.sqrt(sum(share * gap**2 for share, gap in found))
    return sum(share * gap for share, gap in found)


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
@pytest.mark.parametrize("bins", [1, 10, 15])
def test_ece_against_loops_and_torchmetrics(draw, bins, norm):
    logits, y = draw()
    p = logits.softmax(1)
    confidence, predicted = p.max(1)
    edges = [b / bins for b in range(bins + 1)]
    found = gaps(confidence.tolist(), (predicted == y).tolist(), edges)
    assert ece(p, y, bins=bins, norm=norm) == pytest.approx(reduced(found, norm), abs=1e-13)
    expected = multiclass_calibration_error(p, y, num_classes=4, n_bins=bins, norm=norm)
    assert ece(p, y, bins=bins, norm=norm) == pytest.approx(float(expected), abs=1e-5)


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
@pytest.mark.parametrize("n", [60, 67])
def test_adaptive_ece_against_loops_over_the_sorted_rows(draw, n, norm):
    logits, y = draw(n=n)
    p = logits.softmax(1)
    confidence, predicted = p.max(1)
    order = confidence.argsort().tolist()
    found = []
    for b in range(10):
        rows = order[b * n // 10 : (b + 1) * n // 10]
        mean = sum(float(confidence[i]) for i in rows) / len(rows)
        right = sum(bool(predicted[i] == y[i]) for i in rows) / len(rows)
        found.append((len(rows) / n, abs(right - mean)))
    value = adaptive_ece(p, y, bins=10, norm=norm)
    assert value == pytest.approx(reduced(found, norm), abs=1e-13)


def test_a_timid_model_leaves_the_upper_bins_empty():
    diagram = reliability([[0.6, 0.4], [0.45, 0.55]], [0, 0], bins=10)
    assert diagram.rows.tolist() == [0, 0, 0, 0, 0, 2, 0, 0, 0, 0]
    assert diagram.confidence.isnan().tolist() == (diagram.rows == 0).tolist()


def test_rows_that_tie_share_a_bin_whatever_their_order():
    p = torch.tensor([[0.8, 0.2]] * 6 + [[0.6, 0.4]] * 2, dtype=torch.float64)
    y = torch.tensor([0, 1, 0, 1, 1, 1, 0, 1])
    values = set()
    for seed in range(10):
        order = torch.randperm(8, generator=torch.Generator().manual_seed(seed))
        values.add(round(adaptive_ece(p[order], y[order], bins=4), 12))
    assert values == {round((6 * abs(2 / 6 - 0.8) + 2 * abs(0.5 - 0.6)) / 8, 12)}


def test_more_bins_than_rows():
    p, y = [[0.9, 0.1], [0.3, 0.7]], [0, 0]
    assert adaptive_ece(p, y, bins=15) == pytest.approx((0.1 + 0.7) / 2)
    assert reliability(p, y, bins=15, spacing="equal_mass").rows.tolist() == [1, 1]


def test_bins_are_closed_on_the_right():
    p = [[0.75, 0.25], [0.5, 0.5], [1.0, 0.0]]
    assert reliability(p, [0, 0, 0], bins=4).rows.tolist() == [0, 1, 1, 1]


def test_reliability_holds_the_diagram(draw):
    logits, y = draw()
    p = logits.softmax(1)
    confidence, predicted = p.max(1)
    diagram = reliability(p, y, bins=5)
    assert diagram.edges.tolist() == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])
    assert int(diagram.rows.sum()) == len(y)
    inside = (confidence > 0.6) & (confidence <= 0.8)
    assert int(diagram.rows[3]) == int(inside.sum())
    assert float(diagram.confidence[3]) == pytest.approx(float(confidence[inside].mean()))
    right = float((predicted == y)[inside].double().mean())
    assert float(diagram.accuracy[3]) == pytest.approx(right)
    assert diagram.rows[0] == 0
    assert diagram.confidence[0].isnan()
    assert diagram.accuracy[0].isnan()


def test_equal_mass_bins_hold_equally_many(draw):
    logits, y = draw(n=503)
    rows = reliability(logits.softmax(1), y, bins=10, spacing="equal_mass").rows
    assert set(rows.tolist()) == {50, 51}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bins": 0}, "bins must be at least 1"),
        ({"norm": "l3"}, "norm must be one of 'l1', 'l2', 'max'"),
    ],
)
def test_wrong_settings_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ece([[0.4, 0.6]], [1], **arguments)
    with pytest.raises(ValueError, match="spacing must be one of"):
        reliability([[0.4, 0.6]], [1], spacing="equal")


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
