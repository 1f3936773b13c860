"""Confidence bounds for a calibration error, valid for any shape of miscalibration.

Both bounds invert the distribution of T = Σ_b w_b |ḡ_b| along the least favourable shape. Noise
adds E|μ + σZ| − |μ| to a bin with gap μ, which is convex and decreases in |μ|/σ: of all gaps with
the same Σ_b w_b |μ_b|, those with μ_b ∝ σ_b have the smallest E T (used for the upper bound), and a
single gap in one low-noise bin has nearly the largest (used for the lower bound). If rows are few
and confident, binomial counts vary more than normal noise with the observed variance: the lower
bound is therefore capped at the one from binomial counts, along the observed gaps.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from dessl.evaluation.debiased.intervals import Bounds, Tail

_Quantiles: TypeAlias = Callable[[Tensor], Tensor]

ROUNDING = 1e-12  # rounding error of T
SURPRISE = 0.02  # variance of a pseudo-row: bins that seem certain may still have some error


class Gaps(NamedTuple):
    """Statistics of each bin from the labelled rows; all fields but the edges are (bins,)."""

    edges: Tensor
    weights: Tensor  # share of all rows
    labelled: Tensor  # number of labelled rows
    inflated: Tensor  # variances of the means relative to those of independent rows
    confidences: Tensor  # mean over the labelled rows
    means: Tensor  # mean of 1[right] − confidence
    variances: Tensor  # variances of the means
    calibrated: Tensor  # variances of the means if the model is calibrated


def gap_bounds(gaps: Gaps, noise: Tensor, tail: Tail) -> Bounds:
    """Bounds of Σ_b w_b |E ḡ_b| from normal noise (draws, bins)."""
    rank = tail.rank(len(noise))
    hits_of = counts_of(gaps, noise)
    low = min(_lower_in_one(gaps, noise, rank), _lower_in_all(gaps, hits_of, rank))
    return Bounds(low, _upper(gaps, hits_of, rank))


def _sizes(gaps: Gaps, hits: Tensor) -> Tensor:
    """T for counts of correct rows (bins, draws), (draws,)."""
    return gaps.weights @ (hits / gaps.labelled[:, None] - gaps.confidences[:, None]).abs()


def _lower_in_one(gaps: Gaps, noise: Tensor, rank: int) -> float:
    """The smallest error that, all in the least noisy bin, is consistent with a T this large."""
    # A bin with little observed variance is no evidence against calibration: use at least the
    # variance that a calibrated model would have.
    noisy = gaps.weights * noise * torch.maximum(gaps.variances, gaps.calibrated).sqrt()
    observed = float((gaps.weights * gaps.means.abs()).sum())
    quietest = int((gaps.weights * gaps.variances.sqrt()).argmin())

    def excess(error: float) -> float:
        shifted = noisy.clone()
        shifted[:, quietest] += error
        return float(shifted.abs().sum(dim=1).sort(descending=True).values[rank]) - observed

    return crossing(excess)


def _lower_in_all(gaps: Gaps, hits_of: _Quantiles, rank: int) -> float:
    """The smallest error that, spread as the observed gaps, is consistent with a T this large.

    Counts of correct rows are binomial: a few confident rows that are all wrong could have included
    correct ones, which a normal approximation with their variance would rule out.
    """
    observed = float((gaps.weights * gaps.means.abs()).sum())

    def excess(share: float) -> float:
        hits = hits_of((gaps.confidences + share * gaps.means).clamp(0, 1))
        return float(_sizes(gaps, hits).sort(descending=True).values[rank]) - observed + ROUNDING

    return crossing(excess) * observed


def _upper(gaps: Gaps, hits_of: _Quantiles, rank: int) -> float:
    """The largest error that, spread as the bins' noise, is consistent with a T this small.

    Gaps proportional to the noise's standard deviation give T the smallest mean; proportional to
    its variance, more spread. Counts of correct rows are binomial: rows that are all correct do not
    rule out an accuracy below a high confidence, as a normal approximation with their variance
    would.
    """
    f, weights = gaps.confidences, gaps.weights
    # Move accuracies away from the confidences on the side with more room.
    direction = torch.where(f < 0.5, 1.0, -1.0).to(f)
    room = torch.maximum(f, 1 - f)
    observed = float((weights * gaps.means.abs()).sum())

    def along(shape: Tensor) -> float:
        most = (room / shape).max()

        def errors(share: float) -> Tensor:
            return torch.minimum(room, share * most * shape)

        def excess(share: float) -> float:
            hits = hits_of((f + direction * errors(share)).clamp(0, 1))
            # With few rows T takes few values: one that is equal up to rounding is not larger.
            return float(_sizes(gaps, hits).sort().values[rank]) - observed - ROUNDING

        return float((weights * errors(crossing(excess))).sum())

    variances = gaps.variances + SURPRISE * gaps.inflated.square() / gaps.labelled.square()
    return max(along(variances.sqrt()), along(variances))


def counts_of(gaps: Gaps, noise: Tensor) -> _Quantiles:
    """Counts of correct rows (bins, draws) for normal noise (draws, bins), as a function of p."""
    uniform = torch.special.ndtr(noise).T.contiguous()
    return binomial(gaps.labelled.double(), uniform, gaps.inflated)


def binomial(rows: Tensor, uniform: Tensor, inflated: Tensor) -> _Quantiles:
    """Binomial quantiles (bins, draws) for row counts (bins,), as a function of p.

    If rows belong together, they are beta-binomial, with the inflated variance: every count stays
    possible, and all rows of a bin may be right or wrong together.

    Args:
        rows: Number of rows, (bins,).
        uniform: Levels of the quantiles, (bins, draws).
        inflated: Variance of each count relative to that of independent rows, (bins,).
    """
    n = rows[:, None]
    hits = torch.arange(int(rows.max()) + 1, dtype=rows.dtype).expand(len(rows), -1)
    misses = (n - hits).clamp(min=0)
    ways = torch.lgamma(n + 1) - torch.lgamma(hits + 1) - torch.lgamma(misses + 1)
    ways = ways.masked_fill(hits > n, -torch.inf)
    shared = (inflated[:, None] - 1) / (n - 1).clamp(min=1)  # correlation of two rows
    size = 1 / shared.clamp(1e-6, 1 - 1e-6) - 1  # of the beta law

    def quantiles(p: Tensor) -> Tensor:
        p = p[:, None]
        if bool((inflated == 1).all()):
            logarithms = ways + torch.xlogy(hits, p) + torch.xlogy(misses, 1 - p)
        else:
            right, wrong = (one.clamp(min=1e-9) for one in (p * size, (1 - p) * size))
            logarithms = ways + _log_beta(hits + right, misses + wrong) - _log_beta(right, wrong)
        cumulated = logarithms.exp().cumsum(dim=1)
        return torch.searchsorted(cumulated, uniform).to(rows).minimum(n)

    return quantiles


def _log_beta(a: Tensor, b: Tensor) -> Tensor:
    return torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)


def crossing(function: Callable[[float], float]) -> float:
    """The smallest point of [0, 1] where an increasing function is non-negative."""
    low, high = 0.0, 1.0
    if function(low) >= 0:
        return low
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if function(middle) >= 0 else (middle, high)
    return high
