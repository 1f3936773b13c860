"""The asymptotic covariance of the debiased estimator (theorem 3.5, corrected).

    Σ(λ) = V⁻¹ [ S/π  +  λ²/(π(1−π)) · M  −  (λ/π)(K + Kᵀ) ] V⁻¹

S = E[∇L ∇Lᵀ], K = Cov(∇L, ∇H), V the Hessian of the risk, all at the minimum θ*. The paper's cross
term lacks the transpose. M = E[∇H ∇Hᵀ] for the objective weighted by πn and (1−π)n, as in the
paper's proof; for the objective that is minimised in practice, weighted by n_l and n_u, M =
Cov(∇H).
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from dessl import _checks
from dessl._checks import ArrayLike
from dessl.theory.centre import centred, precision_of

Weights = Literal["counts", "expected"]


class AsymptoticCovariance(NamedTuple):
    """The covariance of √n (θ̂ − θ*), and its trace at the best λ.

    Attributes:
        covariance: Σ at the given λ, shape (p, p), float64.
        complete_case: Σ at λ = 0, shape (p, p).
        optimal_lambda: The λ that minimises the trace; 0 if ∇H does not vary.
        optimal_trace_ratio: tr Σ(λ_opt) / tr Σ(0), at most 1.
    """

    covariance: Tensor
    complete_case: Tensor
    optimal_lambda: float
    optimal_trace_ratio: float


def asymptotic_covariance(
    hessian: ArrayLike,
    gradients_loss: ArrayLike,
    gradients_h: ArrayLike,
    pi: float,
    lam: float = 1.0,
    *,
    weights: Weights = "counts",
) -> AsymptoticCovariance:
    """Return the covariance of √n (θ̂ − θ*), from per-sample gradients at the minimum θ*.

    Args:
        hessian: V, the Hessian of the risk at θ*, shape (p, p), symmetric and invertible.
        gradients_loss: ∇L at θ* of a sample of rows, shape (m, p).
        gradients_h: ∇H at θ* of the same rows, shape (m, p).
        pi: π, the probability that a row is labelled, in (0, 1).
        lam: λ.
        weights: ``"counts"``: the objective divides by n_l and n_u, as :func:`dessl.debiased_risk`
            does. ``"expected"``: it divides by πn and (1−π)n, as in the paper's proof.

    >>> gradients_h = torch.tensor([[1.0], [-1.0], [2.0], [0.0]])
    >>> gradients_loss = gradients_h - 0.5
    >>> result = asymptotic_covariance([[1.0]], gradients_loss, gradients_h, pi=0.2, lam=0.8)
    >>> round(result.optimal_lambda, 6), round(result.optimal_trace_ratio, 6)
    (0.8, 0.2)
    """
    pi = _checks.number("pi", pi, low=0.0, high=1.0, open_low=True, open_high=True)
    lam = _checks.number("lam", lam, open_low=True, open_high=True)
    _checks.one_of("weights", weights, ("counts", "expected"))
    curvature = _checks.float64("hessian", hessian, ndim=2)
    g_loss = _checks.float64("gradients_loss", gradients_loss, ndim=2)
    g_h = _checks.float64("gradients_h", gradients_h, ndim=2)
    p = curvature.shape[0]
    if curvature.shape != (p, p) or g_loss.shape != g_h.shape or g_loss.shape[1] != p:
        raise ValueError(
            "hessian must be (p, p) and both gradients (m, p); got "
            f"{tuple(curvature.shape)}, {tuple(g_loss.shape)} and {tuple(g_h.shape)}."
        )
    m = len(g_loss)
    _checks.whole_number("the number of rows m", m, low=2)
    centred_loss, centred_h = centred(g_loss), centred(g_h)
    cross = centred_loss.T @ centred_h / m
    moment_h = (centred_h.T @ centred_h if weights == "counts" else g_h.T @ g_h) / m

    # At θ* the mean of ∇L is zero; centring removes the remainder in a finite sample.
    inverse = _inverse(curvature, rounding=precision_of(hessian))
    complete = inverse @ (centred_loss.T @ centred_loss / (m * pi)) @ inverse
    spread = inverse @ (moment_h / (pi * (1 - pi))) @ inverse
    shared = inverse @ ((cross + cross.T) / pi) @ inverse
    slope, width = float(shared.trace()), float(spread.trace())
    best = slope / (2 * width) if width else 0.0
    total = float(complete.trace())
    ratio = 1 - best * slope / 2 / total if total else 1.0
    covariance = complete + lam**2 * spread - lam * shared
    return AsymptoticCovariance(covariance, complete, best, ratio)


def _inverse(hessian: Tensor, *, rounding: float) -> Tensor:
    """Invert V; reject one that is singular up to rounding."""
    p, largest = len(hessian), float(hessian.abs().max())
    if float((hessian - hessian.T).abs().max()) > 1e-3 * largest:
        raise ValueError(
            "hessian must be symmetric; it is not: some entry (i, j) differs from (j, i)."
        )
    if int(torch.linalg.matrix_rank(hessian, rtol=p * rounding, hermitian=True)) < p:
        raise ValueError(
            "hessian must be invertible; it is singular. A flat direction of the risk has no "
            "asymptotic covariance: fix that parameter or add weight decay."
        )
    inverse: Tensor = torch.linalg.inv(hessian)
    return inverse
