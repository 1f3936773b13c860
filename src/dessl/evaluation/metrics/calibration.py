"""Top-label calibration: the gap between accuracy and confidence in each bin.

With bins b of n_b rows, mean confidence f_b and accuracy a_b (Guo et al., 2017):

    l1: Σ_b (n_b/n)·|a_b − f_b|     l2: (Σ_b (n_b/n)·(a_b − f_b)²)^½     max: max_b |a_b − f_b|

Bins are closed on the right, (low, high]. With few rows per bin all three are biased upwards,
since |a_b − f_b| is positive even for a calibrated model; ``debiased_ece`` corrects for that.
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
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from dessl import _checks
from dessl._checks import ArrayLike
from dessl.evaluation.metrics.predictions import checked_pair

Norm = Literal["l1", "l2", "max"]
Spacing = Literal["equal_width", "equal_mass"]


class Reliability(NamedTuple):
    """The data of a reliability diagram; means are NaN in a bin without rows."""

    edges: Tensor  # (bins + 1,)
    rows: Tensor  # (bins,) counts
    confidence: Tensor  # (bins,) mean confidence
    accuracy: Tensor  # (bins,) share predicted correctly


def bin_edges(confidence: Tensor, bins: int, spacing: Spacing) -> Tensor:
    """Edges (bins + 1,) over [0, 1], of equal width or of equal mass as far as ties allow.

    Equal-mass edges are confidences; tied rows share a bin, so there may be fewer bins, and the
    order of the rows does not matter.
    """
    if spacing == "equal_width":
        return torch.linspace(0, 1, bins + 1, dtype=torch.float64, device=confidence.device)
    n = confidence.shape[0]
    last = torch.arange(1, bins, device=confidence.device) * n // bins - 1
    inner = torch.unique(confidence.sort().values[last[last >= 0]])
    inner = inner[(inner > 0) & (inner < 1)]
    return torch.cat([inner.new_zeros(1), inner, inner.new_ones(1)])


def bin_index(confidence: Tensor, edges: Tensor) -> Tensor:
    """Each row's bin, (n,): b where edges[b] < confidence ≤ edges[b + 1]."""
    return torch.bucketize(confidence, edges[1:-1].contiguous())


def binned(confidence: Tensor, correct: Tensor, edges: Tensor) -> Reliability:
    """Count rows, and average confidences (n,) and hits (n,), within each bin."""
    index = bin_index(confidence, edges)
    count = torch.bincount(index, minlength=edges.shape[0] - 1)
    sums = confidence.new_zeros(2, count.shape[0])
    sums.index_add_(1, index, torch.stack([confidence, correct.to(confidence)]))
    means = sums / count
    return Reliability(edges, count, means[0], means[1])


def calibration_error(diagram: Reliability, norm: Norm) -> float:
    """Reduce a reliability diagram to one number."""
    _checks.one_of("norm", norm, ("l1", "l2", "max"))
    filled = diagram.rows > 0
    gap = (diagram.accuracy - diagram.confidence)[filled].abs()
    share = diagram.rows[filled].double() / diagram.rows.sum()
    if norm == "max":
        return float(gap.max())
    if norm == "l2":
        return float((share * gap.square()).sum().sqrt())
    return float((share * gap).sum())


def _top_label(probabilities: ArrayLike, y: ArrayLike, bins: int) -> tuple[Tensor, Tensor]:
    _checks.whole_number("bins", bins, low=1)
    values, labels = checked_pair(probabilities, y)
    confidence, predicted = values.max(dim=1)
    return confidence, predicted == labels


def reliability(
    probabilities: ArrayLike, y: ArrayLike, *, bins: int = 15, spacing: Spacing = "equal_width"
) -> Reliability:
    """Return the data of a reliability diagram: edges, and each bin's rows, confidence, accuracy.

    Args:
        probabilities: (n, classes), rows summing to one.
        y: (n,) class numbers.
        bins: number of bins.
        spacing: "equal_width" over [0, 1], or "equal_mass": the same number of rows per bin.

    >>> reliability([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]], [0, 0, 1], bins=4).rows
    tensor([0, 0, 1, 2])
    """
    _checks.one_of("spacing", spacing, ("equal_width", "equal_mass"))
    confidence, correct = _top_label(probabilities, y, bins)
    return binned(confidence, correct, bin_edges(confidence, bins, spacing))


def ece(probabilities: ArrayLike, y: ArrayLike, *, bins: int = 15, norm: Norm = "l1") -> float:
    """Return the expected calibration error of the top label, with equal-width bins.

    Args:
        probabilities: (n, classes), rows summing to one.
        y: (n,) class numbers.
        bins: number of bins over [0, 1].
        norm: "l1" (the usual), "l2" (root mean square) or "max" (the worst bin).

    >>> round(ece([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]], [0, 0, 1], bins=5), 4)
    0.3
    """
    return calibration_error(reliability(probabilities, y, bins=bins), norm)


def adaptive_ece(
    probabilities: ArrayLike, y: ArrayLike, *, bins: int = 15, norm: Norm = "l1"
) -> float:
    """Return the calibration error of the top label, with equal-mass bins.

    Rows with the same confidence share a bin, so the order of the rows does not matter.

    Args:
        probabilities: (n, classes), rows summing to one.
        y: (n,) class numbers.
        bins: number of bins.
        norm: "l1", "l2" or "max".

    >>> round(adaptive_ece([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]], [0, 0, 1], bins=3), 4)
    0.3
    """
    return calibration_error(reliability(probabilities, y, bins=bins, spacing="equal_mass"), norm)


def debiased_ece(
    probabilities: ArrayLike,
    y: ArrayLike,
    *,
    bins: int = 15,
    norm: Literal["l1", "l2"] = "l2",
    spacing: Spacing = "equal_mass",
) -> float:
    """Return the calibration error, corrected for few rows per bin.

    Negative estimates are clipped to zero. Bins with one row have no variance estimate and are
    skipped; NaN if every bin has one row.

    Args:
        probabilities: (n, classes), rows summing to one.
        y: (n,) class numbers.
        bins: number of bins.
        norm: "l2", whose square is unbiased, or "l1", where some bias remains.
        spacing: "equal_mass" or "equal_width".

    >>> p = [[0.7, 0.3]] * 10
    >>> round(ece(p, [0] * 6 + [1] * 4, norm="l2"), 4)  # 6 of 10 right is no evidence
    0.1
    >>> debiased_ece(p, [0] * 6 + [1] * 4,)
    0.0
    """
    _checks.one_of("spacing", spacing, ("equal_width", "equal_mass"))
    confidence, correct = _top_label(probabilities, y, bins)
    index = bin_index(confidence, bin_edges(confidence, bins, spacing))
    estimate = debiased_calibration(confidence, correct, index, norm)
    return estimate if math.isnan(estimate) else max(0.0, estimate)


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
