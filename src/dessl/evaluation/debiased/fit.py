"""The debiased mean, its λ and its residuals.

    θ̂ = mean_L L + λ ( mean_U H − mean_L H ),   r_i = L_i − λ H_i

λ is the least-squares slope, shrunk (:func:`dessl.theory.optimal_lambda`) and kept inside [0, 1]:
a calibrated model's best λ is n_u/n, and a slope far above it is the work of one row with few
labels. Variance: V(r)/m over labelled rows, and λ² V(H)/n_u for the unlabelled mean.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from dessl.evaluation.debiased.proxies import Sample
from dessl.theory import correlation, optimal_lambda

LAM_RANGE = (0.0, 1.0)


class Fit(NamedTuple):
    """The debiased mean and what its intervals are made of.

    Attributes:
        value: θ̂.
        lam: λ.
        correlation: ρ(L, H) over the labelled rows.
        residuals: r, centred, shape (m,).
        leverage: Each labelled row's leverage in the regression of L on H, shape (m,).
        unlabelled_variance: λ² V(H)/n_u.
        degrees: Degrees of freedom of the residuals.
    """

    value: float
    lam: float
    correlation: float
    residuals: Tensor
    leverage: Tensor
    unlabelled_variance: float
    degrees: int

    @property
    def row_variance(self) -> float:
        """V(r), the residual sum of squares over its degrees of freedom."""
        return float(self.residuals.square().sum()) / self.degrees

    @property
    def leverage_variance(self) -> float:
        """V(r) from residuals r²/(1 − leverage): a row that draws the slope hides its own error."""
        return float((self.residuals.square() / (1 - self.leverage)).mean())

    def standard_error(self, row_variance: float) -> float:
        """Standard error of θ̂ for a given V(r)."""
        return math.sqrt(row_variance / len(self.residuals) + self.unlabelled_variance)


def fitted(sample: Sample, *, lam: float | None = None) -> Fit:
    """Fit λ and the debiased mean; ``lam=0`` is the mean of the labelled rows.

    >>> from dessl.evaluation.debiased.proxies import METRICS, sampled
    >>> rows = [[0.9, 0.1], [0.6, 0.4], [0.8, 0.2], [0.5, 0.5]]
    >>> sample = sampled(METRICS["accuracy"], (rows,), [0, 1, 0, 0], (rows * 3,))
    >>> fitted(sample, lam=0.0).value
    0.75
    """
    loss, h, h_u = sample.loss, sample.labelled.h, sample.unlabelled.h
    if lam is None:
        lam = optimal_lambda(loss, h, h_u, clip=LAM_RANGE).lam if len(h_u) else 0.0
    centred_h = h - h.mean()
    value, extra = float(loss.mean()), 0.0
    leverage = torch.full_like(h, 1 / len(h))
    if lam:
        value += lam * float(h_u.mean() - h.mean())
        extra = lam**2 * float(torch.cat([h, h_u]).var()) / len(h_u)
        leverage += centred_h.square() / centred_h.square().sum()
    return Fit(
        value=value,
        lam=lam,
        correlation=correlation(loss, h),
        residuals=loss - loss.mean() - lam * centred_h,
        # A row that alone carries the slope has leverage 1: its residual is 0 whatever its label.
        leverage=leverage.clamp(max=1 - 1 / len(h)),
        unlabelled_variance=extra,
        degrees=len(h) - (2 if lam else 1),
    )


def cross_fitted(sample: Sample, folds: int = 5) -> Fit:
    """Fit as :func:`fitted`, each row's λ taken from the other folds; row i is in fold i mod folds.

    No row then helps to choose its own λ, so that the value is exactly unbiased for rows in
    random order.
    """
    loss, h, h_u = sample.loss, sample.labelled.h, sample.unlabelled.h
    if not len(h_u):
        return fitted(sample)
    if len(h) < folds + 1:
        raise ValueError(
            f"method='cross_fit' needs at least {folds + 1} labelled rows; got {len(h)}. "
            "Use method='score'."
        )
    lam = torch.empty_like(h)
    for fold in range(folds):
        inside = torch.arange(len(h)) % folds == fold
        lam[inside] = optimal_lambda(loss[~inside], h[~inside], h_u, clip=LAM_RANGE).lam
    rows = loss + lam * (h_u.mean() - h)
    mean_lam = float(lam.mean())
    return Fit(
        value=float(rows.mean()),
        lam=mean_lam,
        correlation=correlation(loss, h),
        residuals=rows - rows.mean(),
        leverage=torch.full_like(h, 1 / len(h)),
        unlabelled_variance=mean_lam**2 * float(torch.cat([h, h_u]).var()) / len(h_u),
        degrees=len(h) - 1,
    )
