import pytest
import torch
from scipy.optimize import minimize_scalar

from dessl.evaluation.metrics import fitted_temperature, metrics_from_logits, temperature_scaled


@pytest.mark.parametrize("scale", [0.05, 0.5, 1.0, 8.0])
@pytest.mark.parametrize("classes", [2, 6])
def test_against_a_search_for_the_least_cross_entropy(draw, classes, scale):
    logits, y = draw(classes=classes)
    logits = logits * scale

    def loss(beta):
        return float(torch.nn.functional.cross_entropy(beta * logits, y))

    found = minimize_scalar(loss, bounds=(0.011, 99), method="bounded", options={"xatol": 1e-10})
    assert 1 / fitted_temperature(logits, y) == pytest.approx(found.x, rel=1e-5)


def test_scaling_the_logits_scales_the_temperature(draw):
    logits, y = draw()
    one = fitted_temperature(logits, y)
    assert fitted_temperature(5 * logits, y) == pytest.approx(5 * one, rel=1e-12)
    scaled = temperature_scaled(logits, one)
    assert fitted_temperature(scaled, y) == pytest.approx(1.0, rel=1e-12)


def test_one_logit_models_are_scaled_as_two_classes(draw):
    logits, y = draw(classes=2)
    one = logits[:, 1:] - logits[:, :1]
    assert fitted_temperature(one, y) == pytest.approx(fitted_temperature(logits, y), rel=1e-12)


def test_scaling_changes_the_confidence_and_not_the_classes(draw):
    logits, y = draw()
    before = metrics_from_logits(logits, y)
    after = metrics_from_logits(temperature_scaled(logits, fitted_temperature(logits, y)), y)
    assert torch.equal(before.confusion, after.confusion)
    assert after.cross_entropy < before.cross_entropy
    assert after.ece < before.ece


@pytest.mark.parametrize(
    ("logits", "y", "end"),
    [
        ([[3.0, 0.0], [0.0, 2.0]], [0, 1], 0.01),  # every row right: the colder the better
        ([[3.0, 0.0], [0.0, 2.0]], [1, 0], 100.0),  # every row wrong: the hotter the better
        ([[1.0, 1.0], [1.0, 1.0]], [1, 0], 100.0),  # nothing to scale
    ],
)
def test_the_ends_of_the_range_warn(logits, y, end):
    with pytest.warns(UserWarning, match=f"rows; {end:g} is returned. Fit it on more"):
        assert fitted_temperature(logits, y) == end


@pytest.mark.parametrize("temperature", [0.0, -1.0])
def test_a_temperature_is_positive(temperature):
    with pytest.raises(ValueError, match="temperature must lie in"):
        temperature_scaled([[1.0, 2.0]], temperature)
