"""How well the debiased risk estimates the risk of a fixed model (the paper's appendix F).

A fully labelled test set is split many times into few labelled and many unlabelled rows. At each λ
the semi-supervised and the debiased estimate of every split are compared with the oracle, the mean
of L over all rows.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from dessl import _checks
from dessl._checks import ArrayLike
from dessl.evaluation.risk_quality.splits import (
    checked_pair,
    row_mean,
    split_means,
    unlabelled_count,
)
from dessl.theory import correlation, optimal_lambda_from_moments, variance_ratio
from dessl.theory.centre import centred
from dessl.theory.variance import Population


class RiskOverLambda(NamedTuple):
    """Estimates of one risk at each λ; arrays are (lams,) or, per split, (splits, lams).

    Attributes:
        lams: The λ.
        oracle: Mean of L over all rows.
        ssl: mean_L L + λ mean_U H of each split.
        debiased: mean_L L + λ (mean_U H − mean_L H) of each split.
        ssl_mean: Mean of ``ssl`` over the splits.
        ssl_low: Lower end of the interval that contains the central ``share`` of the splits.
        ssl_high: Its upper end.
        debiased_mean: Same as ``ssl_mean``, for ``debiased``.
        debiased_low: Same as ``ssl_low``, for ``debiased``.
        debiased_high: Same as ``ssl_high``, for ``debiased``.
    """

    lams: Tensor
    oracle: float
    ssl: Tensor
    debiased: Tensor
    ssl_mean: Tensor
    ssl_low: Tensor
    ssl_high: Tensor
    debiased_mean: Tensor
    debiased_low: Tensor
    debiased_high: Tensor


class OracleLambda(NamedTuple):
    """λ_opt of a fully labelled set.

    Attributes:
        lam: λ_opt.
        correlation: ρ(L, H) over the rows.
        variance_ratio: The debiased risk's variance over the complete case's, at λ_opt.
        standard_error: Standard error of λ_opt, treating the set as a sample of rows; robust to
            heteroscedastic residuals of L on H. 0 if H is constant.
    """

    lam: float
    correlation: float
    variance_ratio: float
    standard_error: float


def risk_over_lambda(
    loss: ArrayLike,
    h: ArrayLike,
    lams: ArrayLike,
    *,
    n_labelled: int = 40,
    splits: int = 100,
    share: float = 0.95,
    generator: torch.Generator | None = None,
) -> RiskOverLambda:
    """Estimate the risk at each λ from many splits of one labelled set.

    Args:
        loss: L of each row, (n,).
        h: H of each row, (n,).
        lams: The λ, (lams,).
        n_labelled: Labelled rows per split; the others are unlabelled.
        splits: Number of splits.
        share: Share of the splits that the intervals contain.
        generator: Source of the splits; seeded with 0 by default.

    >>> loss, h = [0.2, 0.9, 0.4, 1.3, 0.1], [0.3, 0.6, 0.5, 0.7, 0.1]
    >>> result = risk_over_lambda(loss, h, [0.0, 1.0], n_labelled=2, splits=200)
    >>> round(result.oracle, 2), result.debiased.shape
    (0.58, torch.Size([200, 2]))
    """
    loss_, h_ = checked_pair(loss, h)
    share = _checks.number("share", share, low=0.0, high=1.0, open_low=True, open_high=True)
    drawn = split_means(
        row_mean(loss_[:, None]), row_mean(h_[:, None]), loss_, n_labelled, splits, generator
    )
    lams_ = _checks.float64("lams", lams, ndim=1).to(loss_.device)
    ssl = drawn.loss + lams_ * drawn.h_unlabelled
    debiased = drawn.loss + lams_ * (drawn.h_unlabelled - drawn.h_labelled)
    ends = lams_.new_tensor([(1 - share) / 2, (1 + share) / 2])
    ssl_low, ssl_high = ssl.quantile(ends, dim=0)
    debiased_low, debiased_high = debiased.quantile(ends, dim=0)
    return RiskOverLambda(
        lams=lams_,
        oracle=float(loss_.mean()),
        ssl=ssl,
        debiased=debiased,
        ssl_mean=ssl.mean(0),
        ssl_low=ssl_low,
        ssl_high=ssl_high,
        debiased_mean=debiased.mean(0),
        debiased_low=debiased_low,
        debiased_high=debiased_high,
    )


def oracle_lambda(
    loss: ArrayLike, h: ArrayLike, *, n_labelled: int = 40, n_unlabelled: int | None = None
) -> OracleLambda:
    """λ_opt from all rows of a labelled set.

    Args:
        loss: L of each row, (n,).
        h: H of each row, (n,).
        n_labelled: Labelled rows of the risk that λ_opt is for.
        n_unlabelled: Its unlabelled rows, drawn like the set from an infinite population. By
            default the risk is that of a split of the set, with the remaining rows unlabelled.

    >>> oracle_lambda([1.0, 2.0, 4.0, 3.0], [0.5, 1.5, 2.5, 2.0], n_labelled=1).lam
    1.1142857142857143
    """
    loss_, h_ = checked_pair(loss, h)
    population: Population = "finite" if n_unlabelled is None else "infinite"
    n_u = unlabelled_count(n_labelled, len(h_)) if n_unlabelled is None else n_unlabelled
    loss_, h_ = centred(loss_), centred(h_)
    v_h, cov = float(h_ @ h_), float(loss_ @ h_)
    lam = optimal_lambda_from_moments(v_h, cov, n_labelled, n_u)
    rho = correlation(loss_, h_)
    ratio = variance_ratio(rho, n_labelled, n_u, population=population)
    residual = loss_ - (cov / v_h if v_h else 0.0) * h_
    error = optimal_lambda_from_moments(v_h, float((residual * h_).norm()), n_labelled, n_u)
    return OracleLambda(lam, rho, ratio, error)
