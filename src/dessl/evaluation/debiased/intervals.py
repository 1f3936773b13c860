"""Confidence bounds around a debiased mean.

The score bounds solve for θ, with the variance that rows would have if θ were the truth:

    (θ̂ − θ)² = q² [ V(θ)/m + V(B)/n_u ],   V(θ) = v + γ (θ − θ̂) − ω (θ − θ̂)²

with q normal. For L in {0, 1}, V(θ) = s·θ(1 − θ) with s = V(r)/V(L), the share of L's variance that
H leaves unexplained: with λ = 0 that is Wilson's interval, otherwise Wilson's for m/s labels.
For any other L, v = V(r), γ = E[r³]/E[r²] is the rate at which variance grows with the mean where a
few large losses make the mean (for 0–1 losses it is 1 − 2θ, Wilson's own), and ω = 0. With few
labels the large losses may not be among them: twenty more rows, with labels drawn as the model
believes, enter γ (not v, and not θ̂). A timid model imagines more large losses than there are, which
would draw the lower bound in: there γ is the labelled rows' own if that is less.

θ̂ itself is skewed as rows are, so its quantile is not q but, by Cornish and Fisher's expansion,
q + κ(q² − 1)/6 with κ its skewness: both bounds move by γ(q² − 1)/6m, for the part of θ̂'s variance
that is the labelled rows'.

Where large losses are so rare that a sample may well hold none, the upper bound cannot miss: it is
far enough even then. For such a θ the lower bound alone may miss, and takes both tails' probability
(:func:`_with_both_tails`). Where small losses are rare it is the other way round. The upper bound
of a loss that has no bound itself stays where the equation puts it.
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
ROUNDING = 1e-12  # share of a squared loss that may be rounding


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


class _Law(NamedTuple):
    """V(θ) = v + γ(θ − θ̂) − ω(θ − θ̂)², of the rows' residuals."""

    v: float
    gamma: float
    omega: float


def score_bounds(fit: Fit, sample: Sample, metric: Metric, tail: Tail) -> Bounds:
    """Return bounds that hold near the ends of the range too, where rows hardly vary."""
    centre = min(metric.high, max(metric.low, fit.value)) if metric.binary else fit.value
    below, above = _laws(fit, sample, metric, centre)
    quantile = _normal_quantile(tail.probability)
    low, high = _low(fit, below, abs(quantile)), _high(fit, above, abs(quantile))
    bounded = metric.high < math.inf
    if not bounded:  # losses larger than any that was seen or imagined: no drawing in
        high = _roots(fit, above, abs(quantile)).high
    if quantile < 0:  # the one bound of a confidence below one half lies on the other side of θ̂
        return Bounds(centre + high, centre + low)
    if tail.low and tail.high and bounded:
        low, high = _with_both_tails(fit, metric, (below, above), tail, Bounds(low, high), centre)
    return Bounds(centre + low, centre + high)


def _normal_quantile(probability: float) -> float:
    from scipy import special

    return float(special.ndtri(1 - probability))


def _laws(fit: Fit, sample: Sample, metric: Metric, centre: float) -> tuple[_Law, _Law]:
    """The laws that the lower and the upper bound suppose."""
    if metric.binary:
        variance = float(sample.loss.var())
        share = min(1.0, fit.row_variance / variance) if variance else 1.0
        law = _Law(share * centre * (1 - centre), share * (1 - 2 * centre), share)
        return law, law
    v = fit.leverage_variance
    own, growth = _growth(fit, sample)
    return _Law(v, min(own, growth), 0.0), _Law(v, growth, 0.0)


def _low(fit: Fit, law: _Law, quantile: float) -> float:
    return min(0.0, _roots(fit, law, quantile).low - _skew(fit, law, quantile))


def _high(fit: Fit, law: _Law, quantile: float) -> float:
    return max(0.0, _roots(fit, law, quantile).high - _skew(fit, law, quantile))


def _roots(fit: Fit, law: _Law, quantile: float) -> Bounds:
    """Both d = θ − θ̂ that solve (1 + ω·scale) d² − γ·scale·d − scale·v − q²·V(B)/n_u = 0."""
    scale = quantile**2 / len(fit.residuals)
    a, b = 1 + law.omega * scale, law.gamma * scale
    root = math.sqrt(b * b + 4 * a * (scale * law.v + quantile**2 * fit.unlabelled_variance))
    return Bounds((b - root) / (2 * a), (b + root) / (2 * a))


def _skew(fit: Fit, law: _Law, quantile: float) -> float:
    """How much farther θ̂'s quantile is than a normal law's: κ(q² − 1)/6 standard errors."""
    return _share(fit, law) * law.gamma * (quantile**2 - 1) / (6 * len(fit.residuals))


def _share(fit: Fit, law: _Law) -> float:
    """Share of the labelled rows in θ̂'s variance; the mean of many unlabelled ones is normal."""
    rows = law.v / len(fit.residuals)
    return rows / (rows + fit.unlabelled_variance) if law.v > ROUNDING * law.gamma**2 else 0.0


def _with_both_tails(
    fit: Fit, metric: Metric, laws: tuple[_Law, _Law], tail: Tail, bounds: Bounds, centre: float
) -> Bounds:
    """Let one bound have both tails' probability for every θ that the other cannot miss.

    Rare losses, n of them expected, are a Poisson law's: none is seen with probability e⁻ⁿ. If that
    is more than a tail's, no count is too small to be believed; and the bound of a sample without
    any holds all θ up to n = q²/(1 + ωq²/m). So θ with n up to the lesser of the two are missed on
    one side only. For hits and misses n counts these; for other losses it is m·v/γ², the number
    of losses of one size that would make such a variance and skewness. What the unlabelled rows'
    mean has of θ̂'s variance can miss on either side, and keeps its share of the other tail.
    """
    below, above = laws
    m, q = len(fit.residuals), _normal_quantile(tail.probability)
    wider = max(0.0, _normal_quantile((1 + _share(fit, below)) * tail.probability))
    (low, high), rare = bounds, -math.log(tail.probability)
    if metric.binary:
        rare = min(rare, q**2 / (1 + q**2 / m))
        fewest, most = rare / m - centre, 1 - rare / m - centre
    else:
        rare = min(rare, q**2)
        fewest, most = (rare * g / m - law.v / g if (g := law.gamma) else 0.0 for law in laws)
    if below.gamma > 0:
        low = min(_low(fit, below, wider), max(low, fewest))
    if above.gamma < 0:
        high = max(_high(fit, above, wider), min(high, most))
    return Bounds(low, high)


def _growth(fit: Fit, sample: Sample) -> tuple[float, float]:
    """γ = E[r³]/E[r²] over the labelled rows, and over them and the imagined ones."""
    scaled = _scaled(fit)
    squares, cubes = float(scaled.square().sum()), float((scaled**3).sum())
    second, third = (IMAGINED_ROWS * moment for moment in imagined_moments(sample, fit.beliefs))
    own = cubes / squares if squares else 0.0
    return own, (cubes + third) / (squares + second) if squares + second else 0.0


def _scaled(fit: Fit) -> Tensor:
    return fit.residuals / (1 - fit.leverage).sqrt()


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
