import decimal
import math

import pytest
import torch
from sklearn.metrics import roc_auc_score

from dessl.evaluation.metrics import auc, metrics_from_logits, ranking
from dessl.evaluation.metrics.ranking import AucHistogram, class_auc, log_odds


def by_pairs(scores, y, k):
    own = [s for s, label in zip(scores, y, strict=True) if label == k]
    rest = [s for s, label in zip(scores, y, strict=True) if label != k]
    wins = sum((s > t) + 0.5 * (s == t) for s in own for t in rest)
    return wins / (len(own) * len(rest))


@pytest.mark.parametrize("decimals", [1, 12], ids=["many ties", "no ties"])
@pytest.mark.parametrize("classes", [2, 3, 6])
def test_against_pairs_and_scikit_learn(draw, classes, decimals):
    logits, y = draw(n=150, classes=classes)
    scores = logits.softmax(1).round(decimals=decimals)
    each = [by_pairs(scores[:, k].tolist(), y.tolist(), k) for k in range(classes)]
    assert class_auc(scores, y).tolist() == pytest.approx(each, abs=1e-14)
    reference = [roc_auc_score(y == k, scores[:, k]) for k in range(classes)]
    assert each == pytest.approx(reference, abs=1e-12)


@pytest.mark.parametrize("classes", [2, 5])
def test_equal_probabilities_tie_whatever_the_other_classes_have(classes):
    """Votes of nineteen, as logits: their logarithms, each row shifted as it likes."""
    generator = torch.Generator().manual_seed(0)
    ballots = torch.randint(classes, (200, 19), generator=generator)
    votes = 1 + torch.nn.functional.one_hot(ballots, classes).sum(1)
    y = torch.randint(classes, (200,), generator=generator)
    shifted = votes.double().log() + 50 * torch.randn(200, 1, generator=generator).double()
    each = [by_pairs(votes[:, k].tolist(), y.tolist(), k) for k in range(classes)]
    assert metrics_from_logits(shifted, y).auc == pytest.approx(sum(each) / classes, abs=1e-12)


def test_macro_and_binary_against_scikit_learn(draw):
    logits, y = draw(classes=5)
    p = logits.softmax(1)
    assert auc(p, y) == pytest.approx(roc_auc_score(y, p, multi_class="ovr"), abs=1e-12)
    logits, y = draw(classes=2)
    p = logits.softmax(1)
    assert auc(p, y) == pytest.approx(roc_auc_score(y, p[:, 1]), abs=1e-12)


def test_many_rows_are_counted_without_rounding(draw):
    logits, y = draw(n=20_000, classes=3)
    reference = [roc_auc_score(y == k, logits[:, k]) for k in range(3)]
    assert class_auc(logits, y).tolist() == pytest.approx(reference, abs=1e-12)
    histogram = AucHistogram(3, 200_000)
    histogram.update(logits, y)
    value, bound = histogram.macro_auc_and_bound()
    assert bound < 3e-5
    assert value == pytest.approx(sum(reference) / 3, abs=bound)


def test_classes_in_small_parts_give_the_same(draw, monkeypatch):
    logits, y = draw(n=100, classes=7)
    whole = class_auc(logits, y)
    monkeypatch.setattr(ranking, "CELLS_AT_ONCE", 250)
    assert torch.equal(class_auc(logits, y), whole)


def test_absent_classes_are_left_out_and_one_class_has_no_auc(draw):
    logits, y = draw(classes=4)
    p, y = logits.softmax(1)[y != 2], y[y != 2]
    each = [roc_auc_score(y == k, p[:, k]) for k in (0, 1, 3)]
    assert auc(p, y) == pytest.approx(sum(each) / 3, abs=1e-12)
    assert class_auc(p, y).isnan().tolist() == [False, False, True, False]
    for classes in (2, 3):
        assert math.isnan(auc(torch.full((5, classes), 1 / classes), [0] * 5))


def exact_log_odds(row):
    with decimal.localcontext(prec=120):
        weights = [decimal.Decimal(z).exp() for z in row]
        return [float((w / (sum(weights) - w)).ln()) for w in weights]


def test_log_odds_where_probabilities_round_to_one(draw):
    logits, _ = draw(n=30, classes=3)
    for scale in (1, 30):
        expected = [exact_log_odds(row) for row in (scale * logits).tolist()]
        value = log_odds(scale * logits)
        assert torch.allclose(value, torch.tensor(expected).double(), rtol=1e-6, atol=1e-12)


def test_auc_from_logits_does_not_tie_saturated_rows():
    logits = torch.tensor([[0.0, 50.0], [0.0, 60.0], [0.0, 55.0], [0.0, 70.0]])
    y = [0, 1, 0, 1]
    assert metrics_from_logits(logits, y).auc == 1.0
    assert auc(logits.double().softmax(1), y) == 0.5  # all round to 1


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("bins", [8, 100, 5000])
def test_the_histogram_keeps_its_bound(draw, classes, bins):
    logits, y = draw(n=400, classes=classes)
    histogram = AucHistogram(classes, bins)
    for part in range(0, 400, 70):
        histogram.update(log_odds(logits[part : part + 70]), y[part : part + 70])
    value, bound = histogram.macro_auc_and_bound()
    exact = metrics_from_logits(logits, y).auc
    assert abs(value - exact) <= bound + 1e-12
    assert bound < 20 / bins


def test_the_histogram_is_exact_for_ties_and_infinite_odds():
    odds = torch.tensor([[0.0, -math.inf], [0.0, math.inf], [0.0, 1.0], [0.0, 1.0]])
    histogram = AucHistogram(2, 50)
    histogram.update(odds, torch.tensor([0, 1, 0, 1]))
    assert histogram.macro_auc_and_bound() == (0.875, 0.125)
