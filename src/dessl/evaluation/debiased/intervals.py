"""Tails and bounds of intervals: Student's t and the bootstrap around a debiased mean."""

import math
from collections.abc import Iterator
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from dessl.evaluation.debiased.fit import Fit

Alternative = Literal["two-sided", "larger", "smaller"]
Method = Literal["score", "leverage_t", "cross_fit", "bootstrap"]

AT_ONCE = 2**20  # rows resampled at a time


class Bounds(NamedTuple):
    """A confidence interval."""

    low: float
    high: float


class Tail(NamedTuple):
    """The probability beyond a bound, and which bounds are requested."""

    probability: float
    low: bool
    high: bool

    def rank(self, draws: int) -> int:
        """The 0-based index, among the sorted draws, of the tail's quantile."""
        # 0.05/2 · 1000 is 25 only after rounding.
        rank = math.floor(self.probability * (draws + 1) + 1e-9)
        if rank == 0:
            least = math.ceil(1 / self.probability - 1e-9) - 1
            raise ValueError(
                f"draws must be at least {least} to estimate a tail of probability "
                f"{self.probability:.3g}; got {draws}. Raise draws, or lower confidence."
            )
        return rank - 1


def tail_of(confidence: float, alternative: Alternative) -> Tail:
    """Split 1 − confidence over both tails, or give it all to the one requested.

    >>> tail_of(0.9, "larger")
    Tail(probability=0.09999999999999998, low=True, high=False)
    """
    if alternative == "two-sided":
        return Tail((1 - confidence) / 2, low=True, high=True)
    return Tail(1 - confidence, low=alternative == "larger", high=alternative == "smaller")


def within(bounds: Bounds, tail: Tail, low: float, high: float) -> Bounds:
    """Clip bounds to the range of the metric; a bound not requested is the end of the range."""
    return Bounds(
        min(high, max(low, bounds.low)) if tail.low else low,
        max(low, min(high, bounds.high)) if tail.high else high,
    )


def student_bounds(fit: Fit, row_variance: float, tail: Tail) -> Bounds:
    """θ̂ ∓ t · standard error."""
    from scipy import special

    half = float(special.stdtrit(fit.degrees, 1 - tail.probability))
    half *= fit.standard_error(row_variance)
    return Bounds(fit.value - half, fit.value + half)


def bootstrap_bounds(fit: Fit, tail: Tail, draws: int, generator: torch.Generator) -> Bounds:
    """Return studentised bootstrap bounds: λ is fixed, leverage-corrected residuals are resampled.

    A resample without variance has an infinite t: with many of them the bound is the end of the
    metric's range.
    """
    scaled = fit.scaled_residuals
    scaled = scaled - scaled.mean()
    t = torch.cat([_t(redrawn) for redrawn in _redrawn(scaled, draws, generator)]).sort().values
    rank = tail.rank(draws)
    error = fit.standard_error(fit.leverage_variance)
    upper_t, lower_t = float(t[draws - 1 - rank]), float(t[rank])
    return Bounds(fit.value - upper_t * error, fit.value - lower_t * error)


def _redrawn(values: Tensor, draws: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Samples (some, m) with replacement, in batches that need little memory."""
    m = len(values)
    some = max(1, AT_ONCE // m)
    for first in range(0, draws, some):
        shape = (min(some, draws - first), m)
        index = torch.randint(m, shape, generator=generator, device=generator.device)
        yield values[index.cpu()]


def _t(redrawn: Tensor) -> Tensor:
    """Each sample's mean divided by its standard error."""
    m = redrawn.shape[1]
    mean, squares = redrawn.mean(dim=1), redrawn.square().mean(dim=1)
    variance = squares - mean.square()
    error = (variance.clamp(min=0) / (m - 1)).sqrt()
    varies = variance > 1e-12 * squares  # less is rounding
    t = torch.where(varies, mean / error, mean.sign() * math.inf)
    return t.nan_to_num(0.0, posinf=math.inf, neginf=-math.inf)
