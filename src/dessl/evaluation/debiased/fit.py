"""The debiased mean, its λ and its residuals.

    θ̂ = mean_L L + ( mean_U B − mean_L B ),   r_i = L_i − B_i,   B = λ H   or   B = λ H + μ G

λ is the least-squares slope, shrunk (:func:`dessl.theory.optimal_lambda`) and kept inside [0, 1]:
a calibrated model's best λ is n_u/n, and a slope far above it is the work of one row with few
labels. Only :func:`steepest` lets it be more, where a model is surely too timid. G is what a line
in H leaves of H² over all rows: the losses of a model that is too timid or too bold do not follow H
in a straight line. μ is fitted and shrunk as λ is, to what λ H leaves of L. Variance: V(r)/m over
labelled rows, and V(B)/n_u for the unlabelled mean.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from dessl.evaluation.debiased.proxies import Sample
from dessl.theory import correlation, optimal_lambda
from dessl.theory.centre import centred
from dessl.theory.lambda_estimate import ONE_SIDED_95

LAM_RANGE = (0.0, 1.0)
SEEN_OFF_LINE = 3.0  # Σr² from which the residuals of hits and misses tell how sure a slope is
ROUNDING = 1e-9  # share of a sum of squares that may be rounding


class Fit(NamedTuple):
    """The debiased mean and what its intervals are made of.

    Attributes:
        value: θ̂.
        lam: λ.
        bend: μ; 0 for a straight line.
        correlation: ρ(L, H) over the labelled rows.
        beliefs: B of the labelled and then the unlabelled rows, shape (m + n_u,).
        residuals: r, centred, shape (m,).
        leverage: Each labelled row's leverage in the regression of L, shape (m,).
        unlabelled_variance: V(B)/n_u.
        degrees: Degrees of freedom of the residuals.
    """

    value: float
    lam: float
    bend: float
    correlation: float
    beliefs: Tensor
    residuals: Tensor
    leverage: Tensor
    unlabelled_variance: float
    degrees: int

    @property
    def scaled_residuals(self) -> Tensor:
        """r/√(1 − leverage), whose mean square is :attr:`leverage_variance`, (m,)."""
        return self.residuals / (1 - self.leverage).sqrt()

    @property
    def row_variance(self) -> float:
        """V(r), the residual sum of squares over its degrees of freedom."""
        return float(self.residuals.square().sum()) / self.degrees

    @property
    def leverage_variance(self) -> float:
        """V(r) from residuals r²/(1 − leverage): a row that draws the slope hides its own error."""
        return float((self.residuals.square() / (1 - self.leverage)).mean())

    @property
    def left_out_variance(self) -> float:
        """V(r) from residuals r/(1 − leverage), those of rows that the fit has not seen."""
        return float((self.residuals / (1 - self.leverage)).square().mean())

    @property
    def shortfall(self) -> float:
        """By how much θ̂ is too low on average because λ was fitted to the rows that it corrects.

        In a sample with more large losses than most, λ is larger and so is mean_L H, and more is
        taken off. The bias of a regression estimate (Cochran, Sampling Techniques, section 7.7):
        the mean of (h − h̄)² r/Σ(h − h̄)², or of leverage · r, as residuals sum to 0.
        """
        return float((self.leverage * self.residuals).mean())

    def standard_error(self, row_variance: float) -> float:
        """Standard error of θ̂ for a given V(r)."""
        return math.sqrt(row_variance / len(self.residuals) + self.unlabelled_variance)


def fitted(sample: Sample, *, lam: float | None = None, most: float = LAM_RANGE[1]) -> Fit:
    """Fit λ, not above ``most``, and the debiased mean; ``lam=0`` is the labelled rows' mean.

    >>> from dessl.evaluation.debiased.proxies import METRICS, sampled
    >>> rows = [[0.9, 0.1], [0.6, 0.4], [0.8, 0.2], [0.5, 0.5]]
    >>> sample = sampled(METRICS["accuracy"], (rows,), [0, 1, 0, 0], (rows * 3,))
    >>> fitted(sample, lam=0.0).value
    0.75
    """
    loss, h, h_u = sample.loss, sample.labelled.h, sample.unlabelled.h
    if lam is None:
        clip = (LAM_RANGE[0], most)
        lam = optimal_lambda(loss, h, h_u, clip=clip).lam if len(h_u) else 0.0
    centred_h = h - h.mean()
    beliefs = lam * sample.every_h
    value, extra = float(loss.mean()), 0.0
    leverage = torch.full_like(h, 1 / len(h))
    if lam:
        value += lam * float(h_u.mean() - h.mean())
        extra = float(beliefs.var()) / len(h_u)
        leverage += centred_h.square() / centred_h.square().sum()
    return Fit(
        value=value,
        lam=lam,
        bend=0.0,
        correlation=correlation(loss, h),
        beliefs=beliefs,
        residuals=loss - loss.mean() - lam * centred_h,
        # A row that alone carries the slope has leverage 1: its residual is 0 whatever its label.
        leverage=leverage.clamp(max=1 - 1 / len(h)),
        unlabelled_variance=extra,
        degrees=len(h) - (2 if lam else 1),
    )


def steepest(sample: Sample) -> float:
    """The largest λ that rows with L in {0, 1} speak for: 1, or more where a model is too timid.

    That is n_u/n times the slope's lower confidence bound, 95 % on one side, with the standard
    error HC3, made of residuals r/(1 − leverage). A residual of a hit or a miss is hardly above 1:
    before three of that size have been seen, the few misses may lie on a line by chance, which
    then looks surer than it is. Where all rows vary more in H than the labelled ones, the slope is
    the pooled one, Cov_L(L, H)/V(H): a line is not known where no labelled row lies.
    """
    h, loss = centred(sample.labelled.h), centred(sample.loss)
    m, unlabelled = len(h), len(sample.unlabelled.h)
    spread = float(h @ h)
    slope = float(loss @ h) / spread if spread else 0.0
    residuals = loss - slope * h
    if slope <= LAM_RANGE[1] or float(residuals @ residuals) < SEEN_OFF_LINE:
        return LAM_RANGE[1]
    leverage = (1 / m + h.square() / spread).clamp(max=1 - 1 / m)
    error = float((h * residuals / (1 - leverage)).norm()) / spread
    pooled = min(1.0, spread / (m - 1) / float(sample.every_h.var()))
    share = unlabelled / (m + unlabelled)
    return max(LAM_RANGE[1], share * pooled * (slope - ONE_SIDED_95 * error))


def bent(sample: Sample, fit: Fit) -> Fit:
    """Bend the line of a fit with λ > 0, where there is something to bend it by."""
    h, h_u = sample.labelled.h, sample.unlabelled.h
    if not fit.lam or fit.degrees < 2:
        return fit
    every_h = sample.every_h
    every_g = _off_line(every_h.square(), every_h)
    g, g_u = every_g[: len(h)], every_g[len(h) :]
    apart = _off_line(g, h)  # what no other column of the regression tells
    spread = float(apart.square().sum())
    if spread <= ROUNDING * float((h.square() - h.square().mean()).square().sum()):
        return fit  # H takes two values, and H² says the same
    bend = optimal_lambda(sample.loss - fit.lam * h, g, g_u).lam
    beliefs = fit.beliefs + bend * every_g
    return fit._replace(
        value=fit.value + bend * float(g_u.mean() - g.mean()),
        bend=bend,
        beliefs=beliefs,
        residuals=fit.residuals - bend * (g - g.mean()),
        leverage=(fit.leverage + apart.square() / spread).clamp(max=1 - 1 / len(h)),
        unlabelled_variance=float(beliefs.var()) / len(h_u),
        degrees=fit.degrees - 1,
    )


def _off_line(values: Tensor, h: Tensor) -> Tensor:
    """What the least-squares line in h leaves of values."""
    values, h = values - values.mean(), h - h.mean()
    return values - (values @ h) / h.square().sum() * h


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
    beliefs = mean_lam * sample.every_h
    return Fit(
        value=float(rows.mean()),
        lam=mean_lam,
        bend=0.0,
        correlation=correlation(loss, h),
        beliefs=beliefs,
        residuals=rows - rows.mean(),
        leverage=torch.full_like(h, 1 / len(h)),
        unlabelled_variance=float(beliefs.var()) / len(h_u),
        degrees=len(h) - 1,
    )
