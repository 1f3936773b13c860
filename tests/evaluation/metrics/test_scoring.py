import math

import pytest
import torch
from sklearn.metrics import brier_score_loss, log_loss

from dessl.evaluation.metrics import brier, cross_entropy, sample_brier, sample_cross_entropy


@pytest.mark.parametrize("classes", [2, 7])
def test_against_loops_and_scikit_learn(draw, classes):
    logits, y = draw(n=60, classes=classes)
    p = logits.softmax(1)
    rows = list(zip(p.tolist(), y.tolist(), strict=True))
    losses = [-math.log(row[label]) for row, label in rows]
    squares = [sum((q - (k == label)) ** 2 for k, q in enumerate(row)) for row, label in rows]
    assert sample_cross_entropy(p, y).tolist() == pytest.approx(losses, rel=1e-13)
    assert sample_brier(p, y).tolist() == pytest.approx(squares, rel=1e-13)
    labels = list(range(classes))
    assert cross_entropy(p, y) == pytest.approx(log_loss(y, p, labels=labels), rel=1e-12)
    expected = brier_score_loss(y, p, labels=labels, scale_by_half=False)
    assert brier(p, y) == pytest.approx(expected, rel=1e-12)


def test_brier_is_twice_the_one_class_form_with_two_classes(draw):
    logits, y = draw(classes=2)
    p = logits.softmax(1)
    assert brier(p, y) == pytest.approx(2 * float((p[:, 1] - y).square().mean()), rel=1e-13)


def test_bounds_are_reached():
    assert sample_brier([[1.0, 0.0], [0.0, 1.0]], [0, 0]).tolist() == [0.0, 2.0]


def test_a_true_class_of_probability_zero_costs_infinitely():
    assert cross_entropy([[1.0, 0.0], [0.5, 0.5]], [1, 0]) == math.inf


def test_brier_of_a_nearly_perfect_row_does_not_cancel():
    tiny = 1e-12
    p = torch.tensor([[1 - tiny, tiny]], dtype=torch.float64)
    assert float(sample_brier(p, [0])) == pytest.approx(2e-24, rel=1e-3)
