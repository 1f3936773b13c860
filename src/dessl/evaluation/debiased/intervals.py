"""Confidence bounds around a debiased mean.

The score bounds solve for θ, with the variance that rows would have if θ were the truth:

    (θ̂ − θ)² = q² [ V(θ)/m + V(B)/n_u ],   V(θ) = v + γ (θ − θ̂) − ω (θ − θ̂)²

with q normal. For L in {0, 1}, V(θ) = s·θ(1 − θ) with s = V(r)/V(L), the share of L's variance that
H leaves unexplained: with λ = 0 that is Wilson's interval, otherwise Wilson's for m/s labels.
For any other L, v = V(r), γ = E[r³]/E[r²] is the rate at which variance grows with the mean where a
few large losses make the mean (for 0–1 losses it is 1 − 2θ, Wilson's own), and ω = 0. With few
labels the large losses may not be among them: twenty more rows, with labels drawn as the model
believes, enter γ (not v, and not θ̂). A timid model imagines more large losses than there are, which
would draw the lower bound in: there γ is the labelled rows' own if that is less. And large losses
that are not there take no more variance away than they bring: V(θ) is at least the part of v that
residuals below 0 make where θ < θ̂, those above 0 where θ > θ̂.
"""

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from dessl.evaluation.debiased.fit import Fit
from dessl.evaluation.debiased.proxies import Metric, Sample

Alternative = Literal["two-sided", "larger", "smaller"]
Method = Literal["score", "leverage_t", "cross_fit", "bootstrap"]

IMAGINED_ROWS = 20


class Bounds(NamedTuple):
    """A confidence interval."""

    low: float
    high: float


class Tail(NamedTuple):
    """How much probability lies beyond a bound, and which bounds are asked for."""

    probability: float
    low: bool
    high: bool

    def rank(self, draws: int) -> int:
        """Which of so many sorted draws, counted from 0, has the tail's probability below it."""
        rank = math.floor(self.probability * (draws + 1) + 1e-9)  # 0.05/2 · 1000 is 25, if rounded
        if rank == 0:
            least = math.ceil(1 / self.probability - 1e-9) - 1
            raise ValueError(
                f"draws must be at least {least} to see a tail of probability "
                f"{self.probability:.3g}; got {draws}. Raise draws, or lower confidence."
            )
        return rank - 1


def tail_of(confidence: float, alternative: Alternative) -> Tail:
    """Both tails share 1 − confidence, or the one that is asked for takes all of it.

    >>> tail_of(0.9, "larger")
    Tail(probability=0.09999999999999998, low=True, high=False)
    """
    if alternative == "two-sided":
        return Tail((1 - confidence) / 2, low=True, high=True)
    return Tail(1 - confidence, low=alternative == "larger", high=alternative == "smaller")


def within(bounds: Bounds, tail: Tail, low: float, high: float) -> Bounds:
    """Cut bounds to the range of the metric; a bound that was not asked for is the range's end."""
    return Bounds(
        min(high, max(low, bounds.low)) if tail.low else low,
        max(low, min(high, bounds.high)) if tail.high else high,
    )


def score_bounds(fit: Fit, sample: Sample, metric: Metric, tail: Tail) -> Bounds:
    """Return bounds that hold near the ends of the range too, where rows hardly vary."""
    from scipy import special

    quantile = float(special.ndtri(1 - tail.probability))
    bounds = _score_bounds(fit, sample, metric, abs(quantile))
    # The one bound of a confidence below one half lies on the other side of θ̂.
    return bounds if quantile >= 0 else Bounds(bounds.high, bounds.low)


def _score_bounds(fit: Fit, sample: Sample, metric: Metric, quantile: float) -> Bounds:
    if metric.binary:
        centre = min(1.0, max(0.0, fit.value))
        variance = float(sample.loss.var())
        share = min(1.0, fit.row_variance / variance) if variance else 1.0
        growth = share * (1 - 2 * centre)
        roots = _roots(fit, quantile, share * centre * (1 - centre), growth, share)
        return Bounds(centre + roots.low, centre + roots.high)
    v = fit.leverage_variance
    own, growth = _growth(fit, sample)
    low = _roots(fit, quantile, v, min(own, growth), 0.0).low
    high = _roots(fit, quantile, v, growth, 0.0).high
    below, above = (quantile * fit.standard_error(part) for part in _halves(fit))
    return Bounds(fit.value + min(low, -below), fit.value + max(high, above))


def _roots(fit: Fit, quantile: float, v: float, gamma: float, omega: float) -> Bounds:
    """Both d = θ − θ̂ that solve (1 + ω·scale) d² − γ·scale·d − scale·v − q²·V(B)/n_u = 0."""
    scale = quantile**2 / len(fit.residuals)
    a, b = 1 + omega * scale, gamma * scale
    root = math.sqrt(b * b + 4 * a * (scale * v + quantile**2 * fit.unlabelled_variance))
    return Bounds((b - root) / (2 * a), (b + root) / (2 * a))


def _scaled(fit: Fit) -> Tensor:
    return fit.residuals / (1 - fit.leverage).sqrt()


def _halves(fit: Fit) -> tuple[float, float]:
    """The parts of V(r) that residuals below and above 0 make."""
    squares, below = _scaled(fit).square(), fit.residuals < 0
    return float((squares * below).mean()), float((squares * ~below).mean())


def _growth(fit: Fit, sample: Sample) -> tuple[float, float]:
    """γ = E[r³]/E[r²] over the labelled rows, and over them and the imagined ones."""
    scaled = _scaled(fit)
    squares, cubes = float(scaled.square().sum()), float((scaled**3).sum())
    second, third = (IMAGINED_ROWS * moment for moment in imagined_moments(sample, fit.beliefs))
    own = cubes / squares if squares else 0.0
    return own, (cubes + third) / (squares + second) if squares + second else 0.0


def imagined_moments(sample: Sample, beliefs: Tensor) -> tuple[float, float]:
    """Return the central moments E[r²], E[r³] of r = L − B with labels as the model believes."""
    first, second, third = torch.cat([sample.labelled.moments, sample.unlabelled.moments], dim=1)
    # r = L − u with u = B + E[L − B], the line about which residuals are taken.
    u = beliefs + (first - beliefs).mean()
    squares = second - 2 * u * first + u.square()
    cubes = third - 3 * u * second + 3 * u.square() * first - u**3
    return max(0.0, float(squares.mean())), float(cubes.mean())


def student_bounds(fit: Fit, row_variance: float, tail: Tail) -> Bounds:
    """θ̂ ∓ t · standard error."""
    from scipy import special

    half = float(special.stdtrit(fit.degrees, 1 - tail.probability))
    half *= fit.standard_error(row_variance)
    return Bounds(fit.value - half, fit.value + half)


def bootstrap_bounds(fit: Fit, tail: Tail, draws: int, generator: torch.Generator) -> Bounds:
    """Return studentised bootstrap bounds: λ stays, leverage-corrected residuals are redrawn.

    A redrawn sample without variance has an infinite t: with many of them the bound is the end of
    the metric's range.
    """
    scaled = _scaled(fit)
    scaled = scaled - scaled.mean()
    m = len(scaled)
    index = torch.randint(m, (draws, m), generator=generator, device=generator.device)
    redrawn = scaled[index.cpu()]
    t = _sorted_t(redrawn)
    rank = tail.rank(draws)
    error = fit.standard_error(fit.leverage_variance)
    upper_t, lower_t = float(t[draws - 1 - rank]), float(t[rank])
    return Bounds(fit.value - upper_t * error, fit.value - lower_t * error)


def _sorted_t(redrawn: Tensor) -> Tensor:
    m = redrawn.shape[1]
    mean, squares = redrawn.mean(dim=1), redrawn.square().mean(dim=1)
    variance = squares - mean.square()
    error = (variance.clamp(min=0) / (m - 1)).sqrt()
    varies = variance > 1e-12 * squares  # less is rounding
    return torch.where(varies, mean / error, mean.sign() * math.inf).nan_to_num(0.0).sort().values
