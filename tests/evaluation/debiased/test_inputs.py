"""What estimates and comparisons take, checked."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from dessl.evaluation.debiased.inputs import (
    HowLabelled,
    MetricRequest,
    checked_clip,
    checked_confidence,
    checked_shift,
    prepared,
)
from dessl.evaluation.debiased.proxies import CLIP
from dessl.evaluation.debiased.shift import ShiftWarning

Draw = Callable[..., tuple[torch.Tensor, torch.Tensor]]
NOTHING = HowLabelled()


def test_the_loss_of_each_row_is_the_metric_s(predictions: Draw) -> None:
    p, y = predictions()
    truth = p[torch.arange(60), y]
    hot = torch.nn.functional.one_hot(y, 3)
    wanted = {
        "accuracy": (p.argmax(1) == y).double(),
        "error": (p.argmax(1) != y).double(),
        "brier": (p - hot).square().sum(1),
        "cross_entropy": (-truth.log()).clamp(max=CLIP),
    }
    for name, expected in wanted.items():
        sample, _, design = prepared(MetricRequest(name), (p,), y, (p[:9],), NOTHING)
        torch.testing.assert_close(sample.loss, expected)
        assert len(sample.unlabelled.h) == 9
        assert design is None
        assert sample.n_labels == 60


def test_a_cap_of_the_cross_entropy_is_the_user_s(predictions: Draw) -> None:
    p, y = predictions(sharpness=3.0)
    sample, kind, _ = prepared(MetricRequest("cross_entropy", clip=0.5), (p,), y, (), NOTHING)
    assert float(sample.loss.max()) == kind.high == 0.5
    uncapped = MetricRequest("cross_entropy", clip=math.inf)
    assert uncapped.uncapped
    assert prepared(uncapped, (p,), y, (), NOTHING)[1].high == CLIP


def test_of_two_models_the_one_wins_that_gives_the_label_more(predictions: Draw) -> None:
    (a, y), (b, _) = predictions(seed=0), predictions(seed=1)
    sample, _, _ = prepared(MetricRequest("wins"), (a, b), y, (), NOTHING)
    rows = torch.arange(60)
    assert torch.equal(sample.loss, (a[rows, y] - b[rows, y]).sign())
    sample, _, _ = prepared(MetricRequest("brier"), (a, b), y, (), NOTHING)
    one, other = (prepared(MetricRequest("brier"), (p,), y, (), NOTHING)[0].loss for p in (a, b))
    torch.testing.assert_close(sample.loss, one - other)
    with pytest.raises(ValueError, match="metric must be one of"):
        prepared(MetricRequest("wins"), (a,), y, (), NOTHING)


def test_a_rate_rests_on_the_labels_of_its_class(predictions: Draw) -> None:
    p, y = predictions()
    sample, kind, _ = prepared(MetricRequest("recall", positive=1), (p,), y, (), NOTHING)
    assert sample.n_labels == int((y == 1).sum())
    recall = float((p.argmax(1) == 1)[y == 1].double().mean())
    assert float(sample.loss.mean()) == pytest.approx(recall)
    both, kind, _ = prepared(MetricRequest("recall", positive=1), (p, p), y, (), NOTHING)
    assert kind.pair is not None
    assert not both.loss.any()  # of a model and itself


@pytest.mark.parametrize(("option", "value"), [("positive", 1), ("threshold", 0.5)])
def test_a_mean_over_rows_has_no_class_and_no_threshold(
    predictions: Draw, option: str, value: Any
) -> None:
    p, y = predictions()
    asked = MetricRequest("brier")._replace(**{option: value})
    with pytest.raises(ValueError, match=f"brier is a mean over all rows; omit {option}, or use"):
        prepared(asked, (p,), y, (), NOTHING)


def test_propensities_are_the_design(predictions: Draw) -> None:
    p, y = predictions(n=12)
    _, _, design = prepared(
        MetricRequest("accuracy"), (p,), y, (p,), HowLabelled(propensity=torch.full((12,), 0.5))
    )
    assert design is not None
    assert len(design.weights) == 12
    assert float(design.weights.std()) == 0


def test_a_shift_is_looked_for_only_where_it_can_be_seen(predictions: Draw) -> None:
    (p, y), (sure, _) = predictions(n=80), predictions(n=400, sharpness=4.0)
    moved, _, _ = prepared(MetricRequest("accuracy"), (p,), y, (sure,), NOTHING)
    with pytest.warns(ShiftWarning):
        assert checked_shift(moved, None, check=True).p_value < 0.01
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert math.isnan(checked_shift(moved, None, check=False).p_value)
        alone, _, _ = prepared(MetricRequest("accuracy"), (p,), y, (), NOTHING)
        assert math.isnan(checked_shift(alone, None, check=True).p_value)


def test_a_cap_is_checked() -> None:
    assert checked_clip("cross_entropy", 2.0) == 2.0
    assert checked_clip("brier", -7.0) == CLIP  # it has none
    with pytest.raises(ValueError, match="clip must"):
        checked_clip("cross_entropy", 0.0)
    with pytest.warns(UserWarning, match="no valid upper bound"):
        assert checked_clip("cross_entropy", math.inf) == math.inf


@pytest.mark.parametrize("value", [95, 1.5, 1.0, 0.0, -0.1, math.nan])
def test_a_confidence_lies_between_zero_and_one(value: float) -> None:
    assert checked_confidence(0.95) == 0.95
    with pytest.raises(ValueError, match="coverage must lie in"):
        checked_confidence(value, "coverage")
