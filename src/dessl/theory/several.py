"""A λ for each of several surrogates: theorem 3.1 with a vector of H.

    R(λ) = mean_L L + Σ_m λ_m (mean_U H_m − mean_L H_m)
    V(λ) = α V(L) + β λᵀ Cov(H) λ − 2 γ λᵀ Cov(H, L),   least at λ* = (γ/β) Cov(H)⁻¹ Cov(H, L)

with α, β, γ of :func:`dessl.theory.variance.coefficients`: γ/β = n_u/n in the main form. The
variance is 1 − (n_u/n) R² times the complete case's, with R the multiple correlation: never more
than with the best single term. Collinear terms share one λ.

For the gradient of the risk, Cov(H) becomes the matrix of tr Cov(∇H_m, ∇H_k) and Cov(H, L) that of
tr Cov(∇H_m, ∇L): the same regression, in which all parameters of a row count as one observation.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from dessl import _checks
from dessl._checks import ArrayLike
from dessl.risk import On
from dessl.theory.centre import centred, precision_of, settled
from dessl.theory.lambda_estimate import ONE_SIDED_95, Shrink
from dessl.theory.variance import Coefficients, coefficients


class SeveralLambdas(NamedTuple):
    """Estimates of the λ that minimise the variance, one for each of several surrogates.

    Attributes:
        lam: (terms,) after shrinking; 0 for a term that is not used.
        standard_error: (terms,) before shrinking, for the terms that are used together; infinite
            for the others.
        correlation: Multiple correlation R of L with the terms that were kept.
        variance_ratio: Estimated V(lam)/V(0), at least 0: below 1, unlabelled rows pay off.
    """

    lam: Tensor
    standard_error: Tensor
    correlation: float
    variance_ratio: float


def optimal_lambdas_from_moments(
    covariance_h: ArrayLike,
    covariance: ArrayLike,
    n_labelled: int,
    n_unlabelled: int,
    *,
    on: On = "unlabelled",
) -> Tensor:
    """Return the λ that minimise the variance, (terms,), for known Cov(H) and Cov(H, L).

    Args:
        covariance_h: Cov(H), (terms, terms).
        covariance: Cov(H, L), (terms,).
        n_labelled: n_l.
        n_unlabelled: n_u.
        on: As in :func:`dessl.debiased_risk`.

    >>> optimal_lambdas_from_moments([[3.0, 0.0], [0.0, 2.0]], [1.5, 1.0], 4, 12)
    tensor([0.3750, 0.3750], dtype=torch.float64)
    """
    moments = _checks.float64("covariance_h", covariance_h, ndim=2)
    with_loss = _checks.float64("covariance", covariance, ndim=1)
    if moments.shape != (len(with_loss), len(with_loss)):
        raise ValueError(
            f"covariance_h must have shape ({len(with_loss)}, {len(with_loss)}), a row and a "
            f"column for each entry of covariance; got {tuple(moments.shape)}."
        )
    slope: Tensor = torch.linalg.pinv(moments, hermitian=True) @ with_loss
    return coefficients(n_labelled, n_unlabelled, on=on).optimal_multiple * slope


def optimal_lambdas(
    loss: ArrayLike,
    h_labelled: ArrayLike,
    h_unlabelled: ArrayLike,
    *,
    shrink: Shrink | None = "james_stein",
    on: On = "unlabelled",
    signed: bool = False,
) -> SeveralLambdas:
    """Estimate one λ for each of several surrogates, to minimise the variance of the debiased risk.

    Use them as ``Combine(surrogates, weights=lam.tolist())`` with λ = 1. ``Combine`` takes weights
    of at least 0, so negative λ are dropped unless ``signed=True``. With one surrogate of positive
    λ this is :func:`optimal_lambda`, which keeps a negative λ.

    Args:
        loss: L of each labelled row, (n_l,), n_l ≥ terms + 2, on rows not used for training.
        h_labelled: H of the same rows, (n_l, terms).
        h_unlabelled: H of the unlabelled rows, (n_u, terms).
        shrink: ``"james_stein"``: b max(0, 1 − 1/F), F the regression's F statistic, so that all λ
            are 0 if the terms together do not predict L. ``"lower_bound"``: b − 1.645 se of each
            term. ``None``: no shrinking.
        on: As in :func:`dessl.debiased_risk`.
        signed: Whether λ may be negative. If not, terms with a negative slope are removed one by
            one, the most negative first, and the others are refitted.

    >>> h = [[0.5, 1.0], [1.5, 0.0], [2.5, 1.0], [2.0, 0.0], [1.0, 0.5]]
    >>> found = optimal_lambdas([1.0, 2.0, 4.0, 3.0, 1.5], h, h * 2, shrink=None)
    >>> [round(lam, 3) for lam in found.lam.tolist()], round(found.variance_ratio, 3)
    ([1.026, 0.256], 0.337)
    """
    _check_options(shrink, on)
    loss_, h_l, h_u = _checked(loss, h_labelled, h_unlabelled)
    loss_, h_l = centred(loss_), centred(h_l)
    used = h_l.square().sum(0) > 0
    kept, fit = _kept(lambda terms: _fitted(loss_, h_l[:, terms]), used, signed=signed)
    c = coefficients(len(h_l), len(h_u), on=on)
    return _estimates(fit, kept, h_l.shape[1], c, shrink, signed=signed)


def optimal_lambdas_gradient(
    gradients_loss: ArrayLike,
    gradients_h: ArrayLike,
    n_unlabelled: int,
    *,
    shrink: Shrink | None = "james_stein",
    on: On = "unlabelled",
    signed: bool = False,
) -> SeveralLambdas:
    """Estimate one λ for each of several surrogates, to minimise the gradient's variance.

    With one surrogate of positive λ this is :func:`optimal_lambda_gradient`.

    Args:
        gradients_loss: ∇L of each labelled row, (n_l, parameters), n_l ≥ terms + 2.
        gradients_h: ∇H of the same rows for each surrogate, (terms, n_l, parameters).
        n_unlabelled: n_u.
        shrink: As in :func:`optimal_lambdas`; errors and F allow for gradients of unequal spread.
        on: As in :func:`dessl.debiased_risk`.
        signed: As in :func:`optimal_lambdas`.

    >>> g = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0], [1.0, 2.0]])
    >>> other = torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [1.0, -1.0]])
    >>> optimal_lambdas_gradient(2 * g + other, torch.stack([g, other]), 12).lam.round(decimals=3)
    tensor([1.5000, 0.7500], dtype=torch.float64)
    """
    _check_options(shrink, on)
    g_loss = _checks.float64("gradients_loss", gradients_loss, ndim=2)
    g_h = _checks.float64("gradients_h", gradients_h, ndim=3)
    if g_h.shape[1:] != g_loss.shape:
        raise ValueError(
            "gradients_h must have shape (terms, rows, parameters), with the rows and parameters "
            f"of gradients_loss, {tuple(g_loss.shape)}; got {tuple(g_h.shape)}."
        )
    _check_rows(len(g_loss), len(g_h))
    g_loss = centred(g_loss)
    g_h = torch.stack([centred(own) for own in g_h])
    used = g_h.square().sum((1, 2)) > 0
    kept, fit = _kept(lambda terms: _fitted_gradients(g_loss, g_h[terms]), used, signed=signed)
    c = coefficients(len(g_loss), n_unlabelled, on=on)
    return _estimates(fit, kept, len(g_h), c, shrink, signed=signed)


class _Fit(NamedTuple):
    """A regression of centred L on centred H: sums of squares and products, slopes, errors, F."""

    moments: Tensor
    with_loss: Tensor
    loss_squares: float
    slope: Tensor
    error: Tensor
    f_statistic: float
    correlation: float


def _fitted(loss: Tensor, h: Tensor) -> _Fit:
    moments, with_loss, squares = h.T @ h, h.T @ loss, float(loss @ loss)
    inverse, slope, explained, rank = _solved(moments, with_loss)
    residual = max(0.0, squares - explained) / max(1, len(loss) - 1 - rank)
    error = (residual * inverse.diagonal().clamp(min=0)).sqrt()
    f = explained / (rank * residual) if rank and residual > 0 else math.inf * bool(explained > 0)
    return _Fit(moments, with_loss, squares, slope, error, f, _multiple(explained, squares))


def _fitted_gradients(loss: Tensor, h: Tensor) -> _Fit:
    """As _fitted, of gradients (n, p) on those of the terms (terms, n, p); errors by rows."""
    n = len(loss)
    moments, with_loss = torch.einsum("anp,bnp->ab", h, h), torch.einsum("anp,np->a", h, loss)
    squares = float(loss.square().sum())
    inverse, slope, explained, rank = _solved(moments, with_loss)
    scores = torch.einsum("anp,np->na", h, loss - torch.einsum("a,anp->np", slope, h))
    covariance = inverse @ (scores.T @ scores * n / (n - 1)) @ inverse
    wald = float(slope @ torch.linalg.pinv(covariance, hermitian=True) @ slope)
    f = wald / rank if wald > 0 else math.inf * bool(explained > 0)
    error = covariance.diagonal().clamp(min=0).sqrt()
    return _Fit(moments, with_loss, squares, slope, error, f, _multiple(explained, squares))


def _solved(moments: Tensor, with_loss: Tensor) -> tuple[Tensor, Tensor, float, int]:
    """The inverse of the moments, the slopes, the squares that they explain, and the rank."""
    inverse = torch.linalg.pinv(moments, hermitian=True)
    slope = inverse @ with_loss
    rank = int(torch.linalg.matrix_rank(moments, hermitian=True)) if moments.numel() else 0
    return inverse, slope, float(slope @ with_loss), rank


def _multiple(explained: float, squares: float) -> float:
    """The multiple correlation."""
    return math.sqrt(max(0.0, min(1.0, explained / squares))) if squares > 0 else 0.0


def _kept(
    fit_of: Callable[[list[int]], _Fit], used: Tensor, *, signed: bool
) -> tuple[list[int], _Fit]:
    """The terms that are used, and their regression; a constant term is never used."""
    kept = used.nonzero().flatten().tolist()
    fit = fit_of(kept)
    while not signed and kept and float(fit.slope.min()) < 0:
        kept.pop(int(fit.slope.argmin()))
        fit = fit_of(kept)
    return kept, fit


def _estimates(
    fit: _Fit, kept: list[int], terms: int, c: Coefficients, shrink: Shrink | None, *, signed: bool
) -> SeveralLambdas:
    slope = _shrunk(fit, shrink, signed=signed)
    gain = c.optimal_multiple**2 * c.h * float(slope @ fit.moments @ slope)
    gain -= 2 * c.optimal_multiple * c.covariance * float(slope @ fit.with_loss)
    total = c.loss * fit.loss_squares
    lam = torch.zeros(terms, dtype=torch.float64)
    error = torch.full((terms,), math.inf, dtype=torch.float64)
    lam[kept], error[kept] = c.optimal_multiple * slope, c.optimal_multiple * fit.error
    return SeveralLambdas(lam, error, fit.correlation, max(0.0, 1 + gain / total) if total else 1.0)


def _shrunk(fit: _Fit, shrink: Shrink | None, *, signed: bool) -> Tensor:
    if shrink is None:
        return fit.slope
    if shrink == "james_stein":
        return fit.slope * (max(0.0, 1 - 1 / fit.f_statistic) if fit.f_statistic > 0 else 0.0)
    size = (fit.slope.abs() - ONE_SIDED_95 * fit.error).clamp(min=0)
    return size * fit.slope.sign() if signed else size


def _checked(
    loss: ArrayLike, h_labelled: ArrayLike, h_unlabelled: ArrayLike
) -> tuple[Tensor, Tensor, Tensor]:
    loss_ = _checks.float64("loss", loss, ndim=1)
    h_l = _checks.float64("h_labelled", h_labelled, ndim=2)
    h_u = _checks.float64("h_unlabelled", h_unlabelled, ndim=2)
    _checks.same_length("loss", loss_, "h_labelled", h_l)
    if h_l.shape[1] != h_u.shape[1]:
        raise ValueError(
            "h_labelled and h_unlabelled must have a column for each surrogate; got "
            f"{h_l.shape[1]} and {h_u.shape[1]} columns."
        )
    _check_rows(len(loss_), h_l.shape[1])
    return settled(loss_, precision_of(loss)), settled(h_l, precision_of(h_labelled)), h_u


def _check_rows(n: int, terms: int) -> None:
    if n < terms + 2:
        raise ValueError(
            f"{terms} slopes with errors need at least {terms + 2} labelled rows; got {n}. Use "
            "fewer surrogates, or fixed λ."
        )


def _check_options(shrink: Shrink | None, on: On) -> None:
    _checks.one_of("shrink", shrink, (None, "james_stein", "lower_bound"))
    _checks.one_of("on", on, ("unlabelled", "all"))
