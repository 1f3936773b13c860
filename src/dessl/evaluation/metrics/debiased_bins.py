"""Binned calibration error, corrected for the bias from few rows per bin.

Within bin b let d_i = 1[right] − confidence, with mean d̄_b and unbiased variance s_b². Then

    l2²: Σ_b w_b·( d̄_b² − s_b²/n_b )                    l1: Σ_b w_b·( 2|d̄_b| − E|N(d̄_b, s_b²/n_b)| )

The first is exactly unbiased for Σ_b w_b·(E d)² with fixed bins and weights. When all rows of a bin
share a confidence, s_b²/n_b = a_b(1 − a_b)/(n_b − 1) and it is the debiased estimator of Kumar,
Liang and Ma (2019, "Verified uncertainty calibration") and of Bröcker (2012) and Ferro and Fricker
(2012) for the reliability term of the Brier score. The second subtracts the bias under a normal
approximation, as Kumar et al. do for l1, with the folded normal's mean in closed form: no unbiased
estimator of |E d| exists, and for a calibrated model somewhat over half of the bias remains.
"""

import math
from typing import Literal

import torch
from torch import Tensor

from dessl import _checks


def debiased_calibration(
    confidence: Tensor, correct: Tensor, index: Tensor, norm: Literal["l1", "l2"]
) -> float:
    """Debiased calibration error in l1 or l2, signed: negative if noise explains the gap.

    Args:
        confidence: (n,) in float64.
        correct: (n,) hits.
        index: (n,) bin of each row.
        norm: "l1", or "l2": then the result is sign(v)·|v|^½ of the unbiased square v.

    >>> confidence = torch.full((4,), 0.5, dtype=torch.float64)
    >>> correct = torch.tensor([True, True, True, False])
    >>> debiased_calibration(confidence, correct, torch.zeros(4, dtype=torch.int64), "l2")
    0.0
    """
    _checks.one_of("norm", norm, ("l1", "l2"))
    gap = correct.to(confidence) - confidence
    count = torch.bincount(index)
    mean = gap.new_zeros(count.shape[0]).index_add_(0, index, gap) / count
    deviations = (gap - mean[index]).square()
    squares = gap.new_zeros(count.shape[0]).index_add_(0, index, deviations)
    several = count > 1
    if not bool(several.any()):
        return math.nan
    count, mean, squares = count[several], mean[several], squares[several]
    noise = squares / (count - 1) / count  # the variance of the mean gap
    weight = count.double() / count.sum()
    if norm == "l1":
        return float((weight * (2 * mean.abs() - folded_normal_mean(mean, noise))).sum())
    value = float((weight * (mean.square() - noise)).sum())
    return math.copysign(math.sqrt(abs(value)), value)


def folded_normal_mean(mean: Tensor, variance: Tensor) -> Tensor:
    """E|X| for X ~ N(mean, variance), elementwise: σ(2/π)^½·exp(−μ²/2σ²) + μ·erf(μ/σ√2).

    >>> folded_normal_mean(torch.tensor([0.0, 2.0]), torch.tensor([1.0, 0.0]))
    tensor([0.7979, 2.0000])
    """
    deviation = variance.sqrt()
    ratio = torch.where(variance > 0, mean / deviation, mean.sign() * math.inf)
    ratio = ratio.nan_to_num(0.0, math.inf, -math.inf)
    bell = deviation * math.sqrt(2 / math.pi) * torch.exp(-ratio.square() / 2)
    return bell + mean * torch.erf(ratio / math.sqrt(2))
