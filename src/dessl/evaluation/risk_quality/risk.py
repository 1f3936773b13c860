"""How well the debiased risk estimates the risk of a fixed model (the paper's appendix F).

A test set whose labels are all known is split many times into few labelled and many unlabelled
rows. At each λ the semi-supervised and the debiased estimate of every split stand against the
oracle, the mean of L over all rows.
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


class RiskOverLambda(NamedTuple):
    """Estimates of one risk, λ by λ; arrays are (lams,) and, for each split, (splits, lams).

    Attributes:
        lams: The λ.
        oracle: Mean of L over all rows.
        ssl: mean_L L + λ mean_U H of each split.
        debiased: mean_L L + λ (mean_U H − mean_L H) of each split.
        ssl_mean: Mean of ``ssl`` over the splits.
        ssl_low: Lower end of the interval that holds the middle share of the splits.
        ssl_high: Its upper end.
        debiased_mean: As for ``ssl``.
        debiased_low: As for ``ssl``.
        debiased_high: As for ``ssl``.
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
    """λ_opt of a set whose labels are all known, with ρ(L, H) and the variance ratio at λ_opt."""

    lam: float
    correlation: float
    variance_ratio: float


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
        n_labelled: Labelled rows of a split; the others are its unlabelled rows.
        splits: How many splits.
        share: Share of the splits that the intervals hold.
        generator: Source of the splits; seeded with 0 where none is given.

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


def oracle_lambda(loss: ArrayLike, h: ArrayLike, *, n_labelled: int = 40) -> OracleLambda:
    """λ_opt from all rows of a labelled set, for splits with ``n_labelled`` labelled rows.

    >>> oracle_lambda([1.0, 2.0, 4.0, 3.0], [0.5, 1.5, 2.5, 2.0], n_labelled=1).lam
    1.1142857142857143
    """
    loss_, h_ = checked_pair(loss, h)
    n_unlabelled = unlabelled_count(n_labelled, len(h_))
    moments = torch.cov(torch.stack([loss_, h_]))
    lam = optimal_lambda_from_moments(
        float(moments[1, 1]), float(moments[0, 1]), n_labelled, n_unlabelled
    )
    rho = correlation(loss_, h_)
    ratio = variance_ratio(rho, n_labelled, n_unlabelled, population="finite")
    return OracleLambda(lam, rho, ratio)
