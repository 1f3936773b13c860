import math

import numpy as np
import pandas as pd
import pytest
import torch

from dessl import StreamingMetrics, evaluate, metrics_from_logits
from dessl.evaluation import holm, mean_interval
from dessl.evaluation.debiased import estimate_metric
from dessl.evaluation.metrics.predictions import (
    checked_labels,
    checked_logits,
    checked_pair,
    checked_probabilities,
)


@pytest.mark.parametrize(
    ("dtype", "inside", "outside"),
    [
        (torch.float64, 5e-7, 2e-6),
        (torch.float32, 8e-6, 2e-5),
        (torch.float16, 1e-3, 4e-3),
        (torch.bfloat16, 8e-3, 4e-2),
    ],
)
def test_the_sum_may_be_off_by_the_rounding_of_its_type(dtype, inside, outside):
    for error, accepted in ((inside, True), (outside, False)):
        row = torch.tensor([[0.5 - error, 0.5]], dtype=torch.float64).to(dtype)
        if accepted:
            assert torch.equal(checked_probabilities(row), row.double())
        else:
            with pytest.raises(ValueError, match=r"sum to one within .*; row 0 sums to 0\.9"):
                checked_probabilities(row)


def test_a_numpy_array_has_the_tolerance_of_its_own_type():
    row = np.array([[0.5 - 5e-6, 0.5]])
    checked_probabilities(row.astype(np.float32))
    with pytest.raises(ValueError, match="within 1e-06"):
        checked_probabilities(row)
    for kind in (pd.DataFrame, list):
        checked_probabilities(kind(row.astype(np.float32)))


def test_what_lies_behind_a_mask_is_not_read():
    p, y = np.full((4, 2), 0.5), np.zeros(4, dtype=int)
    hidden = np.ma.masked_array(y, mask=[0, 0, 1, 0]), np.ma.masked_array(p, mask=p > 0.4)
    checked_pair(p, np.ma.masked_array(y, mask=False))  # nothing is masked
    for pair, name in (((p, hidden[0]), "y"), ((hidden[1], y), "probabilities")):
        with pytest.raises(ValueError, match=f"{name} must have a value in every entry"):
            checked_pair(*pair)
    for values in hidden[0], hidden[1][:, 0]:
        for function in (holm, mean_interval):
            with pytest.raises(ValueError, match="masked array"):
                function(values)
    with pytest.raises(ValueError, match="y must have a value"):
        StreamingMetrics(2, inputs="probabilities").update(p, hidden[0])
    with pytest.raises(ValueError, match=r"probabilities.* must have a value"):
        estimate_metric("brier", p, y, hidden[1])


def test_one_row_among_many_is_found_and_named():
    with pytest.raises(ValueError, match=r"row 2 sums to 0\.9"):
        checked_probabilities([[0.5, 0.5], [0.2, 0.8], [0.5, 0.4], [1.0, 0.0]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_every_softmax_passes(dtype):
    logits = 5 * torch.randn(200, 1000, generator=torch.Generator().manual_seed(0))
    softmax = logits.to(dtype).softmax(1)
    checked_probabilities(softmax)
    checked_probabilities(logits.softmax(1).double())


@pytest.mark.parametrize("rows", [[[-0.5, 1.5]], [[3.0, -2.0]], [[0.2, 1.1]]])
def test_logits_passed_as_probabilities_are_named(rows):
    with pytest.raises(ValueError, match=r"logits.*softmax.*metrics_from"):
        checked_probabilities(rows)


@pytest.mark.parametrize("probabilities", [[0.2, 0.9], [[0.2], [0.9]]])
def test_binary_probabilities_in_one_column_are_refused(probabilities):
    with pytest.raises(ValueError, match=r"torch.stack\(\[1 - p, p\], dim=1\)"):
        checked_probabilities(probabilities)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("checked", [checked_probabilities, checked_logits])
def test_what_is_not_finite_is_refused(checked, bad):
    with pytest.raises(ValueError, match="must be finite; 1 of its 4 entries"):
        checked([[0.5, 0.5], [bad, 0.5]])


@pytest.mark.parametrize("checked", [checked_probabilities, checked_logits])
def test_empty_predictions_are_refused(checked):
    with pytest.raises(ValueError, match="must not be empty"):
        checked(torch.zeros(0, 3))


@pytest.mark.parametrize("logits", [[-1.0, 2.0], [[-1.0], [2.0]]])
def test_one_logit_stands_for_two_classes(logits):
    p = checked_logits(logits).softmax(1)
    assert torch.allclose(p[:, 1], torch.tensor([-1.0, 2.0], dtype=torch.float64).sigmoid())


@pytest.mark.parametrize(
    "classes",
    [
        torch.tensor([0, 1]),
        torch.tensor([True, False]),
        np.array([0, 1], dtype=np.uint8),
        [False, True],
        [[0, 1], [1, 0]],
        torch.tensor([[0], [1]], dtype=torch.int8),
    ],
)
def test_class_numbers_are_no_logits(classes):
    message = r"floating-point numbers; got .*(int|bool).* class numbers, .*: pass the logits"
    y = torch.tensor([0, 1])
    for use in (
        checked_logits,
        lambda given: metrics_from_logits(given, y),
        lambda given: StreamingMetrics(2, inputs="logits").update(given, y),
        lambda given: evaluate(lambda x: torch.as_tensor(given)[: len(x)], torch.zeros(2, 1), y),
    ):
        with pytest.raises(TypeError, match=message):
            use(classes)


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        ([0, 1], ValueError, "got 2 labels and 3 rows"),
        ([], ValueError, "got 0 labels and 3 rows"),
        ([0, -1, -1], ValueError, "2 of 3 rows are -1"),
        ([0, 1, 3], ValueError, "class numbers 0 to 2; got values from 0 to 3"),
        ([0, 1, -2], ValueError, "class numbers 0 to 2; got values from -2 to 1"),
        ([0.0, 1.0, 2.0], TypeError, r"got torch.float64. Convert it with .long\(\)"),
        (torch.zeros(3), TypeError, r"got torch.float32. Convert it with .long\(\)"),
        (["cat", "dog", "cat"], TypeError, r"got <U3. Number the classes: numpy.unique"),
        ([0, None, 1], TypeError, "got object. Number the classes"),
        ([[0], [1], [2]], ValueError, r"shape \(n,\); got \(3, 1\). Squeeze"),
    ],
)
def test_wrong_labels_are_refused(y, error, message):
    with pytest.raises(error, match=message):
        checked_labels(y, rows=3, classes=3, device=torch.device("cpu"))


@pytest.mark.parametrize("kind", [np.uint8, np.int32, bool])
def test_labels_of_every_whole_type_are_taken(kind):
    _, y = checked_pair([[0.1, 0.9], [0.7, 0.3]], np.array([1, 0], dtype=kind))
    assert torch.equal(y, torch.tensor([1, 0]))


def frozen(array):
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "y",
    [
        frozen(np.array([1, 0, 0])),
        np.array([0, 0, 1])[::-1],
        np.array([1, 0, 0], dtype=">i4"),
        np.array([1, 0, 0], dtype=object),
        pd.Series([1, 0, 0], index=[7, 0, 2]),
        pd.Series([1, 0, 0], index=[7, 8, 9]),  # a part of a table has no row 0
        pd.Series([1, 0, 0], dtype="Int64"),
        pd.Series([1, 0, 0], dtype="category"),
    ],
)
def test_labels_come_in_their_own_order_from_every_array(y):
    labels = checked_labels(y, rows=3, classes=2, device=torch.device("cpu"))
    assert labels.tolist() == [1, 0, 0]


def test_rounding_puts_no_probability_above_one():
    row = torch.tensor([[1.000001, 0.0], [0.25, 0.75]])
    assert torch.equal(checked_probabilities(row), torch.tensor([[1, 0], [0.25, 0.75]]).double())
    assert float(row[0, 0]) > 1  # the caller's own stays as it is


def test_a_row_without_a_label_is_named():
    y = pd.array([None, 1, 0], dtype="Int64")
    with pytest.raises(ValueError, match="class number for each row; 1 of 3"):
        checked_labels(y, rows=3, classes=2, device=torch.device("cpu"))
