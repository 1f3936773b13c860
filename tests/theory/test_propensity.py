"""λ* of the inverse-propensity form: the least variance, by enumerating every labelling."""

import itertools

import numpy as np
import pytest
import torch

from dessl.risk import inverse_propensity_risk
from dessl.theory import inverse_propensity_lambda

LOSS = torch.tensor([1.0, 2.0, 4.0, 3.0, 0.5], dtype=torch.float64)
H = torch.tensor([0.5, 1.5, 2.5, 2.0, 1.0], dtype=torch.float64)
CHANCE = torch.tensor([0.9, 0.3, 0.5, 0.2, 0.6], dtype=torch.float64)


def variance(lam: float) -> float:
    values, weights = [], []
    for mask in itertools.product([True, False], repeat=5):
        r = torch.tensor(mask)
        if r.any() and not r.all():
            risk = inverse_propensity_risk(LOSS[r], H[r], H[~r], lam, propensity=CHANCE[r]).value
        else:
            risk = (r / CHANCE * (LOSS - lam * H) + lam * H).mean()
        values.append(float(risk))
        weights.append(float(torch.where(r, CHANCE, 1 - CHANCE).prod()))
    mean = np.dot(weights, values)
    return float(np.dot(weights, (np.array(values) - mean) ** 2))


def test_no_lambda_has_a_smaller_variance() -> None:
    # Each row as often as it is labelled: what the labelled sample shows of the population.
    odds = (1 - CHANCE) / CHANCE
    best = float((odds * LOSS * H).sum() / (odds * H * H).sum())
    assert variance(best) < min(variance(best - 0.01), variance(best + 0.01))
    # The labelled-sample estimate weighs by (1 − π)/π²: with rows repeated 1000 π times it is λ*.
    times = (1000 * CHANCE).round().long()
    loss, h, chance = (part.repeat_interleave(times) for part in (LOSS, H, CHANCE))
    found = inverse_propensity_lambda(loss, h, chance)
    assert found.lam == pytest.approx(best, rel=1e-6)
    centre = variance(0) / variance(best)
    assert found.variance_ratio == pytest.approx(1 / centre, rel=1e-6)


def test_one_chance_for_all_gives_the_least_squares_slope() -> None:
    found = inverse_propensity_lambda(LOSS, H, torch.full((5,), 0.3), normalise=True)
    slope = np.polyfit(H, LOSS, 1)[0]
    assert found.lam == pytest.approx(slope)
    assert found.standard_error > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 2.0], [1.0, 2.0], [0.5, 0.5]), "at least 3 labelled rows"),
        (([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [0.5, 0.5, 0.0]), "propensity must lie in"),
        (([1.0, 2.0, 3.0], [1.0, 2.0], [0.5, 0.5, 0.5]), "same"),
    ],
)
def test_bad_input_is_refused(arguments: tuple[list[float], ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        inverse_propensity_lambda(*arguments)


def test_h_that_does_not_vary_brings_nothing() -> None:
    found = inverse_propensity_lambda([1.0, 2.0, 3.0], [1.0, 1.0, 1.0], [0.5] * 3, normalise=True)
    assert (found.lam, found.variance_ratio) == (0.0, 1.0)
