import itertools
import math

import pytest
import torch
from torchmetrics.functional.classification import multiclass_calibration_error

from dessl.evaluation.metrics import adaptive_ece, ece, reliability


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
