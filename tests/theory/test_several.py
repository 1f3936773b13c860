"""A λ for each surrogate: every labelling of a tiny population, one term, and what is refused."""

from itertools import combinations

import numpy as np
import pytest
import torch
from scipy import optimize

from dessl.risk import debiased_risk
from dessl.surrogates import Combine, Entropy, PseudoLabel
from dessl.surrogates.base import Rows
from dessl.theory import (
    optimal_lambda,
    optimal_lambda_gradient,
    optimal_lambdas,
    optimal_lambdas_from_moments,
    optimal_lambdas_gradient,
)
from dessl.theory.lambda_estimate import Shrink
from dessl.theory.variance import coefficients


def population(n: int = 8, terms: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    h = rng.exponential(size=(n, terms)) @ (np.eye(terms) + 0.4)
    return h @ np.linspace(1.0, -0.5, terms) + 0.5 * rng.normal(size=n), h


def risks(loss: np.ndarray, h: np.ndarray, lam: np.ndarray, n_labelled: int, on: str) -> np.ndarray:
    """The debiased risk of every labelling, in plain sums."""
    found = []
    for chosen in combinations(range(len(loss)), n_labelled):
        labelled = np.zeros(len(loss), dtype=bool)
        labelled[list(chosen)] = True
        others = np.ones(len(loss), dtype=bool) if on == "all" else ~labelled
        term = h[others].mean(0) - h[labelled].mean(0)
        found.append(loss[labelled].mean() + lam @ term)
    return np.array(found)


@pytest.mark.parametrize("on", ["unlabelled", "all"])
def test_over_every_labelling_it_is_unbiased_and_least_variable(on: str) -> None:
    loss, h = population()
    n, n_l = len(loss), 3
    moments = np.cov(np.column_stack([h, loss]).T)
    lam = optimal_lambdas_from_moments(moments[:2, :2], moments[:2, 2], n_l, n - n_l, on=on).numpy()
    found = risks(loss, h, lam, n_l, on)
    assert found.mean() == pytest.approx(loss.mean(), abs=1e-12)
    c = coefficients(n_l, n - n_l, on=on, population="finite")
    variance = c.loss * moments[2, 2] + c.h * lam @ moments[:2, :2] @ lam
    variance -= 2 * c.covariance * lam @ moments[:2, 2]
    assert found.var() == pytest.approx(variance, rel=1e-12)
    best = optimize.minimize(lambda w: risks(loss, h, w, n_l, on).var(), np.zeros(2), tol=1e-14)
    assert lam == pytest.approx(best.x, abs=1e-5)


def test_one_term_is_the_single_lambda() -> None:
    rng = np.random.default_rng(1)
    h, h_u = rng.exponential(size=30), rng.exponential(size=70)
    loss = 0.6 * h + rng.normal(size=30)
    for shrink in (None, "james_stein", "lower_bound"):
        one = optimal_lambda(loss, h, h_u, shrink=shrink)
        several = optimal_lambdas(loss, h[:, None], h_u[:, None], shrink=shrink)
        assert float(several.lam[0]) == pytest.approx(one.lam)
        assert float(several.standard_error[0]) == pytest.approx(one.standard_error)
        assert several.correlation == pytest.approx(abs(one.correlation))
        assert several.variance_ratio == pytest.approx(one.variance_ratio)


@pytest.mark.parametrize("shrink", [None, "james_stein"])
def test_a_single_negative_lambda_is_kept_only_with_signs(shrink: Shrink | None) -> None:
    rng = np.random.default_rng(1)
    h = rng.exponential(size=60)
    loss = 0.3 * rng.normal(size=60) - h
    one = optimal_lambda(loss, h, h, shrink=shrink)
    signed = optimal_lambdas(loss, h[:, None], h[:, None], shrink=shrink, signed=True)
    plain = optimal_lambdas(loss, h[:, None], h[:, None], shrink=shrink)
    assert one.lam < 0
    assert float(signed.lam[0]) == pytest.approx(one.lam)
    assert plain.lam.tolist() == [0.0]


def test_slopes_and_errors_are_those_of_least_squares() -> None:
    rng = np.random.default_rng(2)
    h = rng.exponential(size=(40, 3))
    loss = h @ [0.8, 0.5, 0.2] + rng.normal(size=40)
    design = np.column_stack([np.ones(40), h])
    beta, rest, *_ = np.linalg.lstsq(design, loss)
    error = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * rest[0] / 36)
    found = optimal_lambdas(loss, h, h, shrink=None, on="all", signed=True)
    assert found.lam.numpy() == pytest.approx(beta[1:])
    assert found.standard_error.numpy() == pytest.approx(error[1:])
    share = 1 - rest[0] / ((loss - loss.mean()) ** 2).sum()
    assert found.correlation**2 == pytest.approx(share)
    f = share / 3 / ((1 - share) / 36)
    shrunk = optimal_lambdas(loss, h, h, on="all", signed=True)
    assert shrunk.lam.numpy() == pytest.approx(beta[1:] * (1 - 1 / f))


def gradients(n: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """∇L (n, 3) and ∇H (2, n, 3): the first term says something of L, the second less."""
    rng = np.random.default_rng(seed)
    h = rng.normal(size=(2, n, 3))
    h[1] += 0.5 * h[0]
    return h[0] + 0.3 * h[1] + rng.normal(size=(n, 3)) * rng.exponential(size=(n, 1)), h


def test_of_gradients_it_has_the_least_trace() -> None:
    """Against a numerical minimum of the trace of the risk's covariance."""
    g_loss, g_h = gradients()
    n_l, n_u = len(g_loss), 100

    def trace(lam: np.ndarray) -> float:
        rest = g_loss - np.tensordot(lam, g_h, 1)  # labelled rows: L − Σ λ H
        return rest.var(0).sum() / n_l + np.tensordot(lam, g_h, 1).var(0).sum() / n_u

    best = optimize.minimize(trace, np.zeros(2), tol=1e-14)
    found = optimal_lambdas_gradient(g_loss, g_h, n_u, shrink=None, signed=True)
    assert found.lam.numpy() == pytest.approx(best.x, abs=1e-5)
    assert found.variance_ratio == pytest.approx(best.fun / trace(np.zeros(2)))


@pytest.mark.parametrize("shrink", [None, "james_stein", "lower_bound"])
def test_of_gradients_one_term_is_the_single_lambda(shrink: Shrink | None) -> None:
    g_loss, g_h = gradients()
    one = optimal_lambda_gradient(g_loss, g_h[0], 100, shrink=shrink)
    several = optimal_lambdas_gradient(g_loss, g_h[:1], 100, shrink=shrink)
    assert float(several.lam[0]) == pytest.approx(one.lam)
    assert float(several.standard_error[0]) == pytest.approx(one.standard_error)
    assert several.correlation == pytest.approx(one.correlation)
    assert several.variance_ratio == pytest.approx(one.variance_ratio)


def test_errors_of_gradients_are_their_spread_over_draws() -> None:
    draws = [
        optimal_lambdas_gradient(*gradients(200, seed), 10**9, shrink=None) for seed in range(200)
    ]
    spread = torch.stack([one.lam for one in draws]).std(0)
    mean = torch.stack([one.standard_error for one in draws]).mean(0)
    torch.testing.assert_close(mean, spread, rtol=0.15, atol=0)


def test_useless_gradients_have_no_lambda() -> None:
    g_loss, g_h = gradients()
    found = optimal_lambdas_gradient(g_loss, np.stack([-g_h[0], 0 * g_h[0]]), 100)
    assert found.lam.tolist() == [0.0, 0.0]
    assert found.variance_ratio == 1.0
    with pytest.raises(ValueError, match=r"shape \(terms, rows, parameters\).*got \(40, 3, 1\)"):
        optimal_lambdas_gradient(g_loss, g_h[0][:, :, None], 100)
    with pytest.raises(ValueError, match="at least 4 labelled rows; got 3"):
        optimal_lambdas_gradient(g_loss[:3], g_h[:, :3], 100)


def test_terms_that_say_the_same_share_one_lambda() -> None:
    loss, h = population(30, 1)
    twice = np.repeat(h, 2, axis=1)
    one, two = (optimal_lambdas(loss, part, part, shrink=None) for part in (h, twice))
    assert two.lam.tolist() == pytest.approx([float(one.lam) / 2] * 2)
    assert two.variance_ratio == pytest.approx(one.variance_ratio)


def test_a_negative_slope_is_left_out_unless_signs_are_allowed() -> None:
    loss, h = population(40)
    signed, plain = (optimal_lambdas(loss, h, h, shrink=None, signed=s) for s in (True, False))
    assert float(signed.lam[1]) < 0
    assert float(plain.lam[1]) == 0
    alone = optimal_lambda(loss, h[:, 0], h[:, 0], shrink=None)
    assert float(plain.lam[0]) == pytest.approx(alone.lam)
    assert np.isinf(float(plain.standard_error[1]))
    assert signed.variance_ratio < plain.variance_ratio


def test_useless_and_constant_terms_have_none() -> None:
    rng = np.random.default_rng(5)
    kept = []
    for _ in range(200):
        h = rng.normal(size=(20, 2))
        found = optimal_lambdas(rng.normal(size=20), h, h, signed=True)
        kept.append(found.variance_ratio)
    assert np.mean(np.array(kept) == 1) > 0.5  # F below 1: nothing is kept
    h = np.column_stack([np.full(20, 0.1), rng.normal(size=20)])
    found = optimal_lambdas(h[:, 1], h, h)
    assert found.lam.tolist() == pytest.approx([0.0, 0.5])
    constant = optimal_lambdas(h[:, 1], h[:, :1], h[:, :1])
    assert constant.lam.tolist() == [0.0]
    assert constant.variance_ratio == 1


def test_combined_surrogates_have_the_risk_of_the_vector() -> None:
    g = torch.Generator().manual_seed(0)
    logits, y = torch.randn(12, 3, generator=g), torch.randint(3, (12,), generator=g)
    terms, lam = [Entropy(), PseudoLabel(0.3)], [0.3, 0.6]
    rows = Rows(logits, torch.arange(12))
    loss = torch.nn.functional.cross_entropy(logits, y, reduction="none")[:5]
    h = Combine(terms, weights=lam)(lambda x: x, rows).h
    value = debiased_risk(loss, h[:5], h[5:], 1.0).value
    parts = [term(lambda x: x, rows).h for term in terms]
    pairs = zip(lam, parts, strict=True)
    plain = loss.mean() + sum(w * (p[5:].mean() - p[:5].mean()) for w, p in pairs)
    torch.testing.assert_close(value, plain)


def test_what_does_not_fit_is_refused() -> None:
    h = np.ones((3, 2))
    with pytest.raises(ValueError, match="need at least 4 labelled rows"):
        optimal_lambdas([1, 2, 3], h, h)
    with pytest.raises(ValueError, match="2 and 1 columns"):
        optimal_lambdas([1, 2, 3], h, h[:, :1])
    with pytest.raises(ValueError, match=r"shape \(1, 1\)"):
        optimal_lambdas_from_moments(np.eye(2), [1.0], 3, 4)
