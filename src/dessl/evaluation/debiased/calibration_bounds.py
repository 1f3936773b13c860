"""Confidence bounds of a calibration error, whatever the shape of the miscalibration.

Both invert the law of T = Σ_b w_b |ḡ_b| along the shape that makes the bound hardest to hold. Noise
adds E|μ + σZ| − |μ| to a bin with gap μ, which is convex and falls with |μ|/σ: of all gaps with the
same Σ_b w_b |μ_b| those with μ_b ∝ σ_b have the smallest E T (the upper bound's shape), and one gap
in one quiet bin nearly the largest (the lower bound's). Where rows are few and sure, counts of them
vary more than normal noise of the size that was seen: the lower bound is not above the one that
counts give, along the gaps that were seen.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from dessl.evaluation.debiased.intervals import Bounds, Tail

_Quantiles: TypeAlias = Callable[[Tensor], Tensor]

ROUNDING = 1e-12  # of a T
SURPRISE = 0.02  # variance of an imagined row: bins that seem certain may hold some error too


class Gaps(NamedTuple):
    """What the labelled rows say of each bin, all fields but the edges (bins,)."""

    edges: Tensor
    weights: Tensor  # share of all rows
    labelled: Tensor  # number of labelled rows
    confidences: Tensor  # mean over the labelled rows
    means: Tensor  # of 1[right] − confidence
    variances: Tensor  # of the means
    calibrated: Tensor  # variances of the means, were the model calibrated


def gap_bounds(gaps: Gaps, noise: Tensor, tail: Tail) -> Bounds:
    """Bounds of Σ_b w_b |E ḡ_b| from normal noise (draws, bins)."""
    rank = tail.rank(len(noise))
    hits_of = _binomial(gaps.labelled.double(), torch.special.ndtr(noise).T.contiguous())
    low = min(_lower_in_one(gaps, noise, rank), _lower_in_all(gaps, hits_of, rank))
    return Bounds(low, _upper(gaps, hits_of, rank))


def _sizes(gaps: Gaps, hits: Tensor) -> Tensor:
    """T for numbers of right rows (bins, draws), (draws,)."""
    return gaps.weights @ (hits / gaps.labelled[:, None] - gaps.confidences[:, None]).abs()


def _lower_in_one(gaps: Gaps, noise: Tensor, rank: int) -> float:
    """The least error that, all in the quietest bin, would give so large a T."""
    # A bin that happens to vary little is no evidence against calibration: the law has at least
    # the noise that a calibrated model would show.
    noisy = gaps.weights * noise * torch.maximum(gaps.variances, gaps.calibrated).sqrt()
    observed = float((gaps.weights * gaps.means.abs()).sum())
    quietest = int((gaps.weights * gaps.variances.sqrt()).argmin())

    def excess(error: float) -> float:
        shifted = noisy.clone()
        shifted[:, quietest] += error
        return float(shifted.abs().sum(dim=1).sort(descending=True).values[rank]) - observed

    return _crossing(excess)


def _lower_in_all(gaps: Gaps, hits_of: _Quantiles, rank: int) -> float:
    """The least error that, spread as the gaps that were seen, would give so large a T.

    The numbers of right rows are binomial: of a few rows that are sure and all wrong some might
    well have been right, which a normal law with their variance would deny.
    """
    observed = float((gaps.weights * gaps.means.abs()).sum())

    def excess(share: float) -> float:
        hits = hits_of((gaps.confidences + share * gaps.means).clamp(0, 1))
        return float(_sizes(gaps, hits).sort(descending=True).values[rank]) - observed + ROUNDING

    return _crossing(excess) * observed


def _upper(gaps: Gaps, hits_of: _Quantiles, rank: int) -> float:
    """The largest error that, spread as the bins' noise is, would give so small a T.

    In proportion to the noise's deviation T has the smallest mean, to its variance more spread.
    The numbers of right rows are binomial: rows that are all right say little about an accuracy
    below a high confidence, which a normal law with their variance would deny.
    """
    f, weights = gaps.confidences, gaps.weights
    # Accuracies depart from the confidences to where there is more room for them.
    direction = torch.where(f < 0.5, 1.0, -1.0).to(f)
    room = torch.maximum(f, 1 - f)
    observed = float((weights * gaps.means.abs()).sum())

    def along(shape: Tensor) -> float:
        most = (room / shape).max()

        def errors(share: float) -> Tensor:
            return torch.minimum(room, share * most * shape)

        def excess(share: float) -> float:
            hits = hits_of((f + direction * errors(share)).clamp(0, 1))
            # T has few values where rows are few: an equal one, but for rounding, is not larger.
            return float(_sizes(gaps, hits).sort().values[rank]) - observed - ROUNDING

        return float((weights * errors(_crossing(excess))).sum())

    variances = gaps.variances + SURPRISE / gaps.labelled.square()
    return max(along(variances.sqrt()), along(variances))


def _binomial(rows: Tensor, uniform: Tensor) -> _Quantiles:
    """Quantiles (bins, draws) of binomials with so many rows (bins,), as a function of their p."""
    n = rows[:, None]
    hits = torch.arange(int(rows.max()) + 1, dtype=rows.dtype).expand(len(rows), -1)
    misses = (n - hits).clamp(min=0)
    ways = torch.lgamma(n + 1) - torch.lgamma(hits + 1) - torch.lgamma(misses + 1)
    ways = ways.masked_fill(hits > n, -torch.inf)

    def quantiles(p: Tensor) -> Tensor:
        logarithms = ways + torch.xlogy(hits, p[:, None]) + torch.xlogy(misses, 1 - p[:, None])
        cumulated = logarithms.exp().cumsum(dim=1)
        return torch.searchsorted(cumulated, uniform).to(rows).minimum(n)

    return quantiles


def _crossing(function: Callable[[float], float]) -> float:
    """The point of [0, 1] from which on an increasing function is not negative."""
    low, high = 0.0, 1.0
    if function(low) >= 0:
        return low
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if function(middle) >= 0 else (middle, high)
    return high
