"""λ_opt from data: a regression slope of L on H, shrunk towards the complete case.

    λ̂ = m · b̂,   m = n_u/n (main form) or 1 (all-data form)

The labelled-only least-squares slope is the default: the paper's pooled one is noisy when ρ is
high. Rows that the model was trained on give a λ̂ that is far too large; use held-out or
out-of-fold rows.
"""

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from dessl import _checks
from dessl._checks import ArrayLike
from dessl.risk import On
from dessl.theory.centre import centred, precision_of, settled
from dessl.theory.variance import coefficients, correlation

Slope = Literal["least_squares", "pooled"]
Shrink = Literal["james_stein", "lower_bound"]

ONE_SIDED_95 = 1.645  # the normal quantile of the lower confidence bound


class LambdaEstimate(NamedTuple):
    """An estimate of the λ that minimises the variance.

    Attributes:
        lam: The estimate, after shrinking and clipping.
        standard_error: Standard error of the estimate before shrinking; infinite if H does not
            vary.
        correlation: ρ(L, H) over the labelled rows.
        variance_ratio: Estimated V(lam)/V(0), at least 0: below 1, unlabelled rows pay off.
        range: The λ interval in which the variance is estimated to be below the complete case's.
    """

    lam: float
    standard_error: float
    correlation: float
    variance_ratio: float
    range: tuple[float, float]


def optimal_lambda(
    loss: ArrayLike,
    h_labelled: ArrayLike,
    h_unlabelled: ArrayLike,
    *,
    slope: Slope = "least_squares",
    shrink: Shrink | None = "james_stein",
    on: On = "unlabelled",
    clip: tuple[float, float] | None = None,
) -> LambdaEstimate:
    """Estimate the λ that minimises the variance of the debiased risk.

    Args:
        loss: L of each labelled row, shape (n_l,), n_l ≥ 3; an array or a tensor.
        h_labelled: H of the same rows, shape (n_l,).
        h_unlabelled: H of the unlabelled rows, shape (n_u,).
        slope: ``"least_squares"`` over labelled rows, or ``"pooled"``: V(H) over all rows, as in
            the paper's appendix E (with the factor n_u/n that its formula lacks).
        shrink: ``"james_stein"``: b max(0, 1 − 1/F), F the regression's F statistic.
            ``"lower_bound"``: max(0, b − 1.645 se), so never negative. Both fall back to the
            complete case if the correlation is too weak to help. ``None``: no shrinking.
        on: ``"unlabelled"`` or ``"all"``, as in :func:`dessl.debiased_risk`.
        clip: Bounds (low, high) on λ, such as the λ up to which a surrogate is bounded below.

    >>> estimate = optimal_lambda([1, 2, 4, 3], [0.5, 1.5, 2.5, 2], [1, 2, 3, 1, 2, 2.5, 0.5, 1.5])
    >>> round(estimate.lam, 4), round(estimate.variance_ratio, 4)
    (0.9729, 0.3564)
    """
    _checks.one_of("slope", slope, ("least_squares", "pooled"))
    loss_, h_l, h_u = _labelled_and_unlabelled(loss, h_labelled, h_unlabelled)
    fit = least_squares(loss_, h_l) if slope == "least_squares" else _pooled(loss_, h_l, h_u)
    return estimate_from_slope(
        fit, correlation(loss_, h_l), len(h_l), len(h_u), shrink=shrink, on=on, clip=clip
    )


class SlopeFit(NamedTuple):
    """A regression slope b = Cov(L, H)/V(H) with its standard error and V(L)/V(H)."""

    slope: float
    standard_error: float
    variance_loss_over_h: float


NO_SLOPE = SlopeFit(0.0, math.inf, math.inf)  # H does not vary: nothing to regress on


def estimate_from_slope(
    fit: SlopeFit,
    rho: float,
    n_labelled: int,
    n_unlabelled: int,
    *,
    shrink: Shrink | None,
    on: On,
    clip: tuple[float, float] | None,
) -> LambdaEstimate:
    """Turn a fitted slope into an estimate of λ: shrink, scale, clip."""
    c = coefficients(n_labelled, n_unlabelled, on=on)
    best = c.optimal_multiple * _shrunk(fit, shrink)
    lam = best if clip is None else _clipped(best, clip)
    gain = lam * lam * c.h - 2 * lam * c.covariance * fit.slope  # in units of V(H)
    return LambdaEstimate(
        lam=lam,
        standard_error=c.optimal_multiple * fit.standard_error,
        correlation=rho,
        variance_ratio=_ratio(gain, c.loss * fit.variance_loss_over_h),
        range=(min(0.0, 2 * best), max(0.0, 2 * best)),
    )


def _ratio(gain: float, complete_case: float) -> float:
    """Return (complete case + gain)/complete case."""
    if complete_case == 0:  # a constant L: λH is all that varies
        return math.inf if gain else 1.0
    # A pooled V(H) may be far below that of the labelled rows; keep the variance non-negative.
    return max(1 + gain / complete_case, 0.0)


def least_squares(loss: Tensor, h: Tensor) -> SlopeFit:
    """Regress L on H over labelled rows; the residuals have n_l − 2 degrees of freedom."""
    loss, h = centred(loss), centred(h)
    h_squares = float(h @ h)
    if h_squares == 0:
        return NO_SLOPE
    slope = float(loss @ h) / h_squares
    residual = float((loss - slope * h).square().sum()) / (len(h) - 2)
    return SlopeFit(slope, math.sqrt(residual / h_squares), float(loss @ loss) / h_squares)


def _pooled(loss: Tensor, h_labelled: Tensor, h_unlabelled: Tensor) -> SlopeFit:
    """Divide a labelled covariance by the variance of H over all rows; delta-method error."""
    n_l, n = len(h_labelled), len(h_labelled) + len(h_unlabelled)
    h = centred(torch.cat([h_labelled, h_unlabelled]))
    squares_l, squares_u = h[:n_l].square(), h[n_l:].square()
    variance_h = float(squares_l.sum() + squares_u.sum()) / n
    if variance_h == 0:
        return NO_SLOPE
    loss = centred(loss)
    products = loss * h[:n_l]
    slope = float(products.mean()) / variance_h
    # Labelled rows enter the covariance and, with weight n_l/n, the variance; others only that.
    labelled = (products - slope * squares_l * n_l / n).var() / n_l
    unlabelled = slope**2 * squares_u.var() * len(h_unlabelled) / n**2 if len(squares_u) > 1 else 0
    error = math.sqrt(float(labelled + unlabelled)) / variance_h
    return SlopeFit(slope, error, float(loss.square().mean()) / variance_h)


def _shrunk(fit: SlopeFit, shrink: Shrink | None) -> float:
    _checks.one_of("shrink", shrink, (None, "james_stein", "lower_bound"))
    if shrink is None:
        return fit.slope
    if fit.slope == 0 or math.isinf(fit.standard_error):
        return 0.0
    if shrink == "lower_bound":
        return max(0.0, fit.slope - ONE_SIDED_95 * fit.standard_error)
    return fit.slope * max(0.0, 1 - (fit.standard_error / fit.slope) ** 2)  # 1/F = (se/b)²


def _clipped(lam: float, clip: tuple[float, float]) -> float:
    try:
        low, high = clip
    except (TypeError, ValueError) as error:
        raise ValueError(f"clip must be (low, high), both numbers; got {clip!r}.") from error
    low, high = _checks.number("clip[0]", low), _checks.number("clip[1]", high)
    if not low <= high:
        raise ValueError(f"clip must be (low, high) with low <= high; got {clip}.")
    return max(low, min(high, lam))


def _labelled_and_unlabelled(
    loss: ArrayLike, h_labelled: ArrayLike, h_unlabelled: ArrayLike
) -> tuple[Tensor, Tensor, Tensor]:
    loss_ = _checks.float64("loss", loss, ndim=1)
    h_l = _checks.float64("h_labelled", h_labelled, ndim=1)
    h_u = _checks.float64("h_unlabelled", h_unlabelled, ndim=1)
    _checks.same_length("loss", loss_, "h_labelled", h_l)
    if len(loss_) < 3:
        raise ValueError(
            f"a slope with its error needs at least 3 labelled rows; got {len(loss_)}. "
            "Use lam=0 (the complete case) or a fixed λ."
        )
    precision = precision_of(h_labelled, h_unlabelled)
    h = settled(torch.cat([h_l, h_u]), precision)
    h_l, h_u = h[: len(loss_)], h[len(loss_) :]
    return settled(loss_, precision_of(loss)), settled(h_l, precision), h_u
