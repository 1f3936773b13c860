import json
import math

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

from dessl.evaluation import (
    StreamingMetrics,
    evaluate,
    metrics,
    metrics_from_logits,
    metrics_from_probabilities,
)
from dessl.evaluation.metrics import predicted_logits, temperature_scaled

SCALARS = (
    "accuracy",
    "balanced_accuracy",
    "worst_class_accuracy",
    "macro_f1",
    "cross_entropy",
    "brier",
    "ece",
    "adaptive_ece",
    "debiased_ece",
    "auc",
)


@pytest.mark.parametrize("name", SCALARS)
@pytest.mark.parametrize("classes", [2, 5])
def test_each_field_is_the_function_of_its_name(draw, classes, name):
    logits, y = draw(classes=classes)
    p = logits.softmax(1)
    expected = getattr(metrics, name)(p, y)
    assert getattr(metrics_from_probabilities(p, y), name) == pytest.approx(expected, abs=1e-12)
    assert getattr(metrics_from_logits(logits, y), name) == pytest.approx(expected, abs=1e-12)


def test_the_fields_that_are_tensors(draw):
    logits, y = draw()
    p = logits.softmax(1)
    found = metrics_from_probabilities(p, y, bins=7)
    assert found.n == 500
    assert torch.equal(found.confusion, metrics.confusion_matrix(p, y))
    assert torch.equal(found.per_class_accuracy, metrics.per_class_accuracy(p, y))
    assert torch.equal(found.class_counts, torch.bincount(y))
    for part, expected in zip(found.reliability, metrics.reliability(p, y, bins=7), strict=True):
        assert torch.equal(part.nan_to_num(-1), expected.nan_to_num(-1))


def test_row_order_does_not_matter(draw):
    logits, y = draw()
    order = torch.randperm(500, generator=torch.Generator().manual_seed(3))
    one, other = metrics_from_logits(logits, y), metrics_from_logits(logits[order], y[order])
    for name in SCALARS:
        assert getattr(one, name) == pytest.approx(getattr(other, name), abs=1e-12)


def test_float32_probabilities_keep_their_own_tolerance():
    p = torch.tensor([[0.5 - 6e-6, 0.5], [0.2, 0.8]])
    assert metrics_from_probabilities(p, [1, 1]).accuracy == 1.0


def test_logits_that_underflow_as_probabilities():
    logits = torch.tensor([[0.0, 800.0], [800.0, 0.0]])
    assert metrics_from_logits(logits, [0, 0]).cross_entropy == 400.0
    assert metrics_from_probabilities(logits.softmax(1), [0, 0]).cross_entropy == math.inf


def test_json_takes_the_dict(draw):
    p = torch.tensor([[1.0, 0.0, 0.0], [0.2, 0.8, 0.0]])
    found = metrics_from_probabilities(p, [1, 1])
    read = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert read["accuracy"] == 0.5
    assert float(read["cross_entropy"]) == math.inf
    assert read["auc"] is None
    assert read["per_class_accuracy"] == [None, 0.5, None]
    assert read["confusion"] == [[0, 0, 0], [1, 1, 0], [0, 0, 0]]
    assert sum(read["reliability"]["rows"]) == 2
    logits, y = draw()
    scaled = evaluate(nn.Identity(), logits, y, validation=(logits, y)).as_dict()
    assert json.loads(json.dumps(scaled, allow_nan=False))["scaled"]["n"] == 500


class Watched(nn.Module):
    """A linear model with dropout and BatchNorm that notes how it was called."""

    def __init__(self, outputs=3):
        super().__init__()
        self.dropout = nn.Dropout(0.5)
        self.norm = nn.BatchNorm1d(4)
        self.linear = nn.Linear(4, outputs)
        self.calls = []

    def forward(self, x):
        self.calls.append((len(x), self.training, torch.is_grad_enabled()))
        return self.linear(self.norm(self.dropout(x)))


@pytest.fixture
def rows():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(25, 4, generator=generator), torch.arange(25) % 3


def test_evaluate_runs_in_eval_mode_and_restores_each_module(rows):
    x, y = rows
    model = Watched()
    model.norm.eval()  # frozen by its owner
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = evaluate(model, x, y, batch_size=10)
    assert model.calls == [(10, False, False), (10, False, False), (5, False, False)]
    assert model.training
    assert model.dropout.training
    assert not model.norm.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    whole = metrics_from_logits(model.eval()(x), y)
    assert found.cross_entropy == pytest.approx(whole.cross_entropy, rel=1e-6)


class Caching(nn.Linear):
    """A layer that keeps a tensor from its first call, as positions are kept in a transformer."""

    def forward(self, x):
        if not hasattr(self, "scale"):
            self.scale = torch.full((3,), 2.0)
        return super().forward(x) * self.scale


def test_a_model_and_its_logits_can_be_trained_on_after(rows):
    x, y = rows
    model, stacked = Caching(4, 3), nn.Linear(3, 3)
    nn.functional.cross_entropy(stacked(predicted_logits(model, x)), y).backward()
    nn.functional.cross_entropy(model(x), y).backward()
    assert model.weight.grad.any()
    assert stacked.weight.grad.any()


def test_modes_come_back_after_an_error(rows):
    x, _ = rows
    model = Watched()
    with pytest.raises(RuntimeError, match="running_mean should contain 3 elements"):
        predicted_logits(model, x[:, :3])
    assert model.training
    assert model.norm.training


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda x: (x, x), "each of the 24 input rows; got tuple. Wrap it"),
        (lambda x: x[:, 0].squeeze(), r"each of the 1 input rows; got \(\)"),
        (lambda x: x.mean(0), r"each of the 24 input rows; got \(4,\)"),
    ],
)
def test_a_model_that_gives_no_row_a_row_is_refused(rows, model, message):
    with pytest.raises(ValueError, match=message):
        predicted_logits(model, rows[0], batch_size=24)


def test_uint8_needs_a_transform():
    images = torch.randint(0, 256, (12, 4), dtype=torch.uint8)
    y = torch.arange(12) % 3
    model = nn.Linear(4, 3)
    with pytest.raises(TypeError, match=r"x is uint8 and no transform was given.*/ 255"):
        evaluate(model, images, y)
    found = evaluate(model, images, y, transform=lambda x: x.float() / 255)
    expected = metrics_from_logits(model(images.float() / 255).detach(), y)
    assert found.cross_entropy == pytest.approx(expected.cross_entropy, rel=1e-6)


@pytest.mark.parametrize("squeeze", [False, True])
def test_a_one_logit_model_has_two_classes(rows, squeeze):
    x, y = rows
    y = y % 2
    linear = nn.Linear(4, 1)
    found = evaluate(lambda batch: linear(batch).squeeze(1) if squeeze else linear(batch), x, y)
    odds = linear(x).detach().squeeze(1)
    assert found.confusion.shape == (2, 2)
    assert found.accuracy == float(((odds > 0) == y).double().mean())
    expected = nn.functional.binary_cross_entropy_with_logits(odds.double(), y.double())
    assert found.cross_entropy == pytest.approx(float(expected), rel=1e-9)


def test_temperature_is_fitted_on_validation_rows_and_reported_apart(draw):
    logits, y = draw(n=600)
    held_out, rest = slice(0, 300), slice(300, None)
    plain = evaluate(nn.Identity(), logits[rest], y[rest])
    assert plain.temperature is None
    assert plain.scaled is None
    found = evaluate(
        nn.Identity(), logits[rest], y[rest], validation=(logits[held_out], y[held_out])
    )
    assert found.cross_entropy == plain.cross_entropy
    expected = metrics_from_logits(temperature_scaled(logits[rest], found.temperature), y[rest])
    assert found.scaled.cross_entropy == expected.cross_entropy
    assert found.scaled.cross_entropy < found.cross_entropy


def test_temperature_of_a_binary_model_is_a_logistic_regression(draw):
    logits, y = draw(classes=2)
    odds = (logits[:, 1] - logits[:, 0])[:, None]
    regression = LogisticRegression(C=1e12, fit_intercept=False, tol=1e-10).fit(odds, y)
    found = evaluate(nn.Identity(), odds, y, validation=(odds, y))
    assert 1 / found.temperature == pytest.approx(regression.coef_.item(), rel=1e-4)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_cuda_device_gives_what_the_cpu_gives(draw):
    logits, y = draw(n=3000, classes=7)
    here = evaluate(nn.Identity(), logits, y, validation=(logits, y))
    there = evaluate(nn.Identity(), logits.cuda(), y.cuda(), validation=(logits.cuda(), y))
    streaming = StreamingMetrics(7, inputs="logits")
    streaming.update(logits.cuda(), y)
    for name in SCALARS:
        assert getattr(there, name) == pytest.approx(getattr(here, name), abs=1e-11), name
        if name != "auc":
            found = getattr(streaming.compute(), name)
            assert found == pytest.approx(getattr(here, name), abs=1e-11), name
    assert abs(streaming.compute().auc - here.auc) <= streaming.compute().auc_error
    assert there.temperature == pytest.approx(here.temperature, rel=1e-10)
    assert torch.equal(there.confusion, here.confusion)
    assert there.reliability.rows.device.type == "cpu"
    moved = evaluate(nn.Linear(7, 3).cuda(), logits.float(), y % 3)  # batches go to the model
    assert moved.n == 3000


@pytest.mark.parametrize(
    ("x", "y", "settings", "error", "message"),
    [
        (torch.zeros(0, 2), [], {}, ValueError, "x must .*at least one row"),
        ([[1.0, 2.0]], [0], {}, TypeError, "x must be a torch.Tensor; got list"),
        (torch.zeros(2, 2), [0], {}, ValueError, "got 1 labels and 2 rows"),
        (torch.zeros(2, 2), [0, -1], {}, ValueError, "Drop them first"),
        (torch.zeros(2, 2), [0, 1], {"batch_size": 0}, ValueError, "batch_size must be at least"),
        (torch.full((2, 2), math.nan), [0, 1], {}, ValueError, "logits must be finite"),
    ],
)
def test_wrong_calls_are_refused(x, y, settings, error, message):
    with pytest.raises(error, match=message):
        evaluate(nn.Identity(), x, y, **settings)


def test_a_model_of_probabilities_is_warned_of() -> None:
    x = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    y = torch.arange(20) % 3
    with pytest.warns(UserWarning, match=r"seems to return probabilities.*remove .*softmax"):
        wrong = evaluate(nn.Softmax(1), x, y)
    right = evaluate(nn.Identity(), x, y)  # no warning, which would be an error here
    assert evaluate(nn.LogSoftmax(1), x, y).cross_entropy == pytest.approx(right.cross_entropy)
    assert wrong.cross_entropy != pytest.approx(right.cross_entropy, rel=0.01)


def test_probabilities_given_as_logits_are_warned_of_once() -> None:
    x = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    y = torch.arange(20) % 3
    for given in (x.softmax(1), x.softmax(1).numpy(), x.softmax(1).tolist()):
        with pytest.warns(UserWarning, match="use metrics_from_probabilities") as told:
            metrics_from_logits(given, y)
        assert [warning.filename for warning in told] == [__file__]
    with pytest.warns(UserWarning, match="probabilities") as told:
        evaluate(nn.Softmax(1), x, y)
    assert len(told) == 1
    # A warning would be an error here: log-odds of 1, log-probabilities, a single row.
    metrics_from_logits(torch.ones(20, 1), y % 2)
    metrics_from_logits(torch.ones(20), y % 2)
    metrics_from_logits(x.log_softmax(1), y)
    metrics_from_logits(x.softmax(1)[:1], y[:1])
