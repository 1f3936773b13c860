import math

import numpy as np
import pytest
import torch
from scipy import optimize, stats

from dessl.evaluation.debiased.fit import bent, fitted
from dessl.evaluation.debiased.intervals import (
    IMAGINED_ROWS,
    Bounds,
    bootstrap_bounds,
    imagined_moments,
    score_bounds,
    student_bounds,
    tail_of,
    within,
)
from dessl.evaluation.debiased.proxies import METRICS, sampled

TWO_SIDED = tail_of(0.95, "two-sided")


def test_tails() -> None:
    assert tail_of(0.9, "two-sided").probability == pytest.approx(0.05)
    assert tail_of(0.9, "larger") == pytest.approx((0.1, True, False))
    assert tail_of(0.9, "smaller") == pytest.approx((0.1, False, True))


def test_bounds_are_cut_to_the_range() -> None:
    assert within(Bounds(-0.2, 1.3), TWO_SIDED, 0.0, 1.0) == (0.0, 1.0)
    assert within(Bounds(0.2, 0.7), tail_of(0.9, "larger"), 0.0, 1.0) == (0.2, 1.0)
    assert within(Bounds(0.2, 0.7), tail_of(0.9, "smaller"), 0.0, 1.0) == (0.0, 0.7)


@pytest.mark.parametrize("confidence", [0.8, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("hits", [0, 3, 25, 50])
def test_score_bounds_without_lambda_are_wilsons(hits: int, confidence: float) -> None:
    p = torch.tensor([[0.8, 0.2]] * 50)
    y = torch.tensor([0] * hits + [1] * (50 - hits))
    sample = sampled(METRICS["accuracy"], (p,), y, ())
    tail = tail_of(confidence, "two-sided")
    bounds = score_bounds(fitted(sample), sample, METRICS["accuracy"], tail)
    wilson = stats.binomtest(hits, 50).proportion_ci(confidence, method="wilson")
    assert bounds == pytest.approx((wilson.low, wilson.high), abs=1e-12)


def test_score_bounds_of_a_hit_rate_solve_their_equation(predictions) -> None:
    p, y = predictions(n=80)
    others, _ = predictions(n=500, seed=1)
    sample = sampled(METRICS["accuracy"], (p,), y, (others,))
    fit = fitted(sample)
    share = fit.row_variance / sample.loss.var().item()
    assert fit.lam > 0
    assert share < 1
    z = stats.norm.ppf(0.975)

    def excess(theta: float) -> float:
        variance = share * theta * (1 - theta) / 80 + fit.unlabelled_variance
        return (theta - fit.value) ** 2 - z**2 * variance

    expected = (
        optimize.brentq(excess, 0, fit.value),
        optimize.brentq(excess, fit.value, 1),
    )
    assert score_bounds(fit, sample, METRICS["accuracy"], TWO_SIDED) == pytest.approx(expected)


@pytest.mark.parametrize("shape", [fitted, lambda sample: bent(sample, fitted(sample))])
def test_score_bounds_of_a_skewed_loss_solve_their_equation(shape, predictions) -> None:
    p, y = predictions(n=80)
    others, _ = predictions(n=500, seed=1)
    sample = sampled(METRICS["brier"], (p,), y, (others,))
    fit = shape(sample)
    scaled = (fit.residuals / (1 - fit.leverage).sqrt()).numpy()
    second, third = imagined_moments(sample, fit.beliefs)
    gamma = ((scaled**3).sum() + IMAGINED_ROWS * third) / (
        (scaled**2).sum() + IMAGINED_ROWS * second
    )
    z = stats.norm.ppf(0.975)

    def excess(theta: float) -> float:
        variance = (fit.leverage_variance + gamma * (theta - fit.value)) / 80
        return (theta - fit.value) ** 2 - z**2 * (variance + fit.unlabelled_variance)

    low, high = score_bounds(fit, sample, METRICS["brier"], TWO_SIDED)
    assert low == pytest.approx(optimize.brentq(excess, -1, fit.value))
    assert high == pytest.approx(optimize.brentq(excess, fit.value, 3))
    assert high - fit.value > fit.value - low  # large losses are rare: the bound above is farther


def test_imagined_moments_are_those_of_drawn_labels(predictions) -> None:
    p, y = predictions(n=6)
    sample = sampled(METRICS["brier"], (p,), y, ())
    law = 0.98 * p.numpy() + 0.02 / 3
    losses = np.array(
        [[((p[i].numpy() - np.eye(3)[k]) ** 2).sum() for k in range(3)] for i in range(6)]
    )
    r = losses - 0.4 * sample.labelled.h.numpy()[:, None]
    r = r - (law * r).sum() / 6
    expected = (law * r**2).sum() / 6, (law * r**3).sum() / 6
    assert imagined_moments(sample, 0.4 * sample.labelled.h) == pytest.approx(expected)


def test_student_bounds_without_lambda_are_the_classical_ones(predictions) -> None:
    p, y = predictions()
    sample = sampled(METRICS["brier"], (p,), y, ())
    fit = fitted(sample)
    loss = sample.loss.numpy()
    expected = stats.t.interval(0.95, 59, loss.mean(), stats.sem(loss))
    assert student_bounds(fit, fit.leverage_variance, TWO_SIDED) == pytest.approx(expected)


def test_bootstrap_bounds_redraw_what_numpy_redraws(predictions) -> None:
    p, y = predictions()
    sample = sampled(METRICS["brier"], (p,), y, ())
    fit = fitted(sample)
    index = torch.randint(60, (999, 60), generator=torch.Generator().manual_seed(3)).numpy()
    r = sample.loss.numpy() - sample.loss.numpy().mean()
    redrawn = r[index]
    t = np.sort(redrawn.mean(1) / (redrawn.std(1, ddof=1) / math.sqrt(60)))
    error = stats.sem(sample.loss.numpy())
    expected = fit.value - t[999 - 25] * error, fit.value - t[24] * error
    found = bootstrap_bounds(fit, TWO_SIDED, 999, torch.Generator().manual_seed(3))
    assert found == pytest.approx(expected)


def test_bootstrap_samples_without_variance_open_the_interval() -> None:
    p = torch.tensor([[0.9, 0.1]] * 30)
    y = torch.tensor([0] * 29 + [1])  # a third of the redrawn samples miss the only wrong row
    sample = sampled(METRICS["accuracy"], (p,), y, ())
    bounds = bootstrap_bounds(fitted(sample), TWO_SIDED, 999, torch.Generator().manual_seed(0))
    assert bounds.low < -1e6  # cut to 0 by ``within``
    assert bounds.high < 1.1
