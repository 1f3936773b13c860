"""The debiased mean, its λ and its residuals.

    θ̂ = mean_L L + ( mean_U B − mean_L B ),   r_i = L_i − B_i,   B = λ H   or   B = λ H + μ G

λ is the least-squares slope, shrunk (:func:`dessl.theory.optimal_lambda`) and clipped to [0, 1]:
the optimal λ of a calibrated model is n_u/n, and with few labels a much larger slope is usually due
to a single row. Only :func:`steepest` allows more, if the model is clearly underconfident. G is the
residual of H² after a linear fit in H over all rows: the losses of an under- or overconfident model
are not linear in H. μ is fitted to the residual of L after λ H, and shrunk in the same way as λ.
Variance: V(r)/m over labelled rows, and V(B)/n_u for the unlabelled mean.
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
SEEN_OFF_LINE = 3.0  # Σr² needed before residuals of 0–1 losses give the slope's standard error
ROUNDING = 1e-9  # fraction of a sum of squares that may be rounding
LEAST_VARIANCE = 1e-24  # smallest variance of L; less is rounding of weighted sums


class Fit(NamedTuple):
    """The debiased mean, and the quantities its intervals need.

    Attributes:
        value: The estimate θ̂.
        lam: The slope λ.
        bend: Curve coefficient μ; 0 for a straight line.
        correlation: ρ(L, H) over the labelled rows.
        beliefs: B of the labelled and then the unlabelled rows, shape (m + n_u,).
        residuals: Centred residuals r, shape (m,).
        leverage: Each labelled row's leverage in the regression of L, shape (m,).
        unlabelled_variance: V(B)/n_u.
        degrees: Degrees of freedom of the residuals.
        labels: The number of labels that V(r) is divided by: m for a mean of equal rows, fewer if
            they have unequal weights or if the metric rests on some rows only.
        plain: The mean of L over the labelled rows, with their weights.
        loss_variance: V(L).
        seen_variance: V(H) over the labelled rows.
        weights: Weights a if labelled by design (:mod:`dessl.evaluation.debiased.design`), (m,).
        likely: Weight a that each row would have if labelled, (m + n_u,); for comparisons.
        shared: Weight b of each labelled row, (m,), if rows have groups
            (:mod:`dessl.evaluation.debiased.groups`). Residuals and leverage are then of groups.
        inflation: Factor of V(r) in a comparison whose rows have groups.
    """

    value: float
    lam: float
    bend: float
    correlation: float
    beliefs: Tensor
    residuals: Tensor
    leverage: Tensor
    unlabelled_variance: float
    degrees: float
    labels: float
    plain: float
    loss_variance: float
    seen_variance: float
    weights: Tensor | None = None
    likely: Tensor | None = None
    shared: Tensor | None = None
    inflation: float = 1.0

    @property
    def designed(self) -> bool:
        """Whether rows were labelled by design."""
        return self.weights is not None

    @property
    def independent(self) -> float:
        """The number of independent, equally weighted labels with the same precision."""
        if self.shared is None:
            return self.labels
        even = self.shared.mean() if self.weights is None else self.weights @ self.shared
        return 1 / float(even)

    @property
    def unexplained(self) -> float:
        """V(r)/V(L), the share of L's variance that H does not explain; 1 if L does not vary."""
        if not self.loss_variance:
            return 1.0
        if self.designed:  # unequal weights may raise the variance above that of equal ones
            return self.leverage_variance / self.loss_variance
        return min(1.0, self.row_variance / self.loss_variance)

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
        """V(r) from r²/(1 − leverage), since high-leverage rows have too small residuals."""
        return float((self.residuals.square() / (1 - self.leverage)).mean())

    @property
    def left_out_variance(self) -> float:
        """V(r) from r/(1 − leverage), the leave-one-out residuals."""
        return float((self.residuals / (1 - self.leverage)).square().mean())

    @property
    def shortfall(self) -> float:
        """The downward bias of θ̂ from fitting λ to the rows it corrects.

        In a sample with unusually many large losses both λ and mean_L H are larger, and more is
        subtracted. This is the bias of a regression estimate (Cochran, Sampling Techniques, section
        7.7): the mean of (h − h̄)² r/Σ(h − h̄)², or of leverage · r, since residuals sum to 0.
        """
        return float((self.leverage * self.residuals).mean())

    def standard_error(self, row_variance: float) -> float:
        """Standard error of θ̂ for a given V(r)."""
        return math.sqrt(row_variance / self.labels + self.unlabelled_variance)


def fitted(sample: Sample, *, lam: float | None = None, most: float = LAM_RANGE[1]) -> Fit:
    """Fit λ, at most ``most``, and the debiased mean; ``lam=0`` gives the labelled rows' mean.

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
        # A row that alone sets the slope has leverage 1: its residual is 0 for any label.
        leverage=leverage.clamp(max=1 - 1 / len(h)),
        unlabelled_variance=extra,
        degrees=len(h) - (2 if lam else 1),
        labels=float(len(h)),
        plain=float(loss.mean()),
        loss_variance=without_rounding(float(loss.var())),
        seen_variance=float(h.var()),
    )


def without_rounding(variance: float) -> float:
    """The variance, or 0 if it is only rounding."""
    return variance if variance > LEAST_VARIANCE else 0.0


def steepest(sample: Sample) -> float:
    """The largest λ supported by rows with L in {0, 1}: 1, or more for an underconfident model.

    It is n_u/n times the slope's one-sided 95 % lower confidence bound, with the HC3 standard error
    from residuals r/(1 − leverage). Residuals of 0–1 losses hardly exceed 1: with fewer than three
    of that size, the few misses may lie on a line by chance, and the standard error is too small.
    If H varies more over all rows than over the labelled ones, the slope is the pooled one,
    Cov_L(L, H)/V(H), because the line is unknown where there are no labelled rows.
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


def with_curve(sample: Sample, fit: Fit) -> Fit:
    """Add the curve term μ G to a fit with λ > 0, if H allows one."""
    h, h_u = sample.labelled.h, sample.unlabelled.h
    if not fit.lam or fit.degrees < 2:
        return fit
    every_h = sample.every_h
    every_g = _off_line(every_h.square(), every_h)
    g, g_u = every_g[: len(h)], every_g[len(h) :]
    apart = _off_line(g, h)  # the part orthogonal to the other regressors
    spread = float(apart.square().sum())
    if spread <= ROUNDING * float((h.square() - h.square().mean()).square().sum()):
        return fit  # H takes two values, so H² is linear in H
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
    """The residuals of values after a least-squares line in h."""
    values, h = values - values.mean(), h - h.mean()
    return values - (values @ h) / h.square().sum() * h


def cross_fitted(sample: Sample, folds: int = 5) -> Fit:
    """Fit as :func:`fitted`, with each row's λ from the other folds; row i is in fold i mod folds.

    No row affects its own λ, so the value is exactly unbiased for rows in random order.
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
        labels=float(len(h)),
        plain=float(loss.mean()),
        loss_variance=without_rounding(float(loss.var())),
        seen_variance=float(h.var()),
    )
