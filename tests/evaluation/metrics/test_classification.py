import math

import pytest
import torch
from sklearn import metrics as reference
from torchmetrics.functional.classification import multiclass_accuracy, multiclass_f1_score

from dessl.evaluation.metrics import (
    accuracy,
    balanced_accuracy,
    confusion_matrix,
    macro_f1,
    per_class_accuracy,
    worst_class_accuracy,
)


@pytest.fixture(params=[(2, 0), (4, 1), (10, 2)], ids=["2", "4", "10"])
def predictions(request, draw):
    classes, seed = request.param
    logits, y = draw(classes=classes, seed=seed)
    return logits.softmax(1), y


def test_against_scikit_learn(predictions):
    p, y = predictions
    predicted = p.argmax(1)
    assert confusion_matrix(p, y).tolist() == reference.confusion_matrix(y, predicted).tolist()
    assert accuracy(p, y) == pytest.approx(reference.accuracy_score(y, predicted), abs=1e-14)
    expected = reference.balanced_accuracy_score(y, predicted)
    assert balanced_accuracy(p, y) == pytest.approx(expected, abs=1e-14)
    expected = reference.f1_score(y, predicted, average="macro")
    assert macro_f1(p, y) == pytest.approx(expected, abs=1e-14)
    recall = reference.recall_score(y, predicted, average=None)
    assert per_class_accuracy(p, y).tolist() == pytest.approx(recall.tolist(), abs=1e-14)
    assert worst_class_accuracy(p, y) == pytest.approx(recall.min(), abs=1e-14)


def test_against_torchmetrics(predictions):
    p, y = predictions
    classes = p.shape[1]
    expected = multiclass_accuracy(p, y, num_classes=classes, average=None)
    assert torch.allclose(per_class_accuracy(p, y), expected.double(), atol=1e-6)
    expected = multiclass_f1_score(p, y, num_classes=classes, average="macro")
    assert macro_f1(p, y) == pytest.approx(float(expected), abs=1e-6)


def test_an_absent_class_is_nan_and_left_out(draw):
    logits, y = draw(classes=5)
    p = logits.softmax(1)
    kept = y != 3
    p, y = p[kept], y[kept]
    each = per_class_accuracy(p, y)
    assert each.isnan().tolist() == [False, False, False, True, False]
    present = [float((p.argmax(1)[y == k] == k).double().mean()) for k in (0, 1, 2, 4)]
    assert balanced_accuracy(p, y) == pytest.approx(sum(present) / 4, abs=1e-14)
    assert worst_class_accuracy(p, y) == pytest.approx(min(present), abs=1e-14)
    # Class 3 is predicted at times, and so has an F1 of zero, as in scikit-learn.
    assert (p.argmax(1) == 3).any()
    expected = reference.f1_score(y, p.argmax(1), average="macro")
    assert macro_f1(p, y) == pytest.approx(expected, abs=1e-14)


def test_f1_leaves_out_a_class_that_neither_side_names():
    p = torch.tensor([[0.9, 0.1, 0.0], [0.3, 0.7, 0.0], [0.2, 0.8, 0.0]])
    assert macro_f1(p, [0, 1, 0]) == pytest.approx(
        reference.f1_score([0, 1, 0], [0, 1, 1], average="macro"), abs=1e-14
    )


def test_one_class_only():
    p = [[0.9, 0.1], [0.4, 0.6]]
    assert balanced_accuracy(p, [0, 0]) == worst_class_accuracy(p, [0, 0]) == 0.5
    assert math.isnan(per_class_accuracy(p, [0, 0])[1])


def test_the_first_of_tied_classes_is_predicted():
    assert confusion_matrix([[0.25, 0.25, 0.25, 0.25], [0.2, 0.4, 0.4, 0.0]], [0, 1]).trace() == 2
