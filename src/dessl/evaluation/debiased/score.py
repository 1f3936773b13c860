"""The score bounds of a debiased mean, which solve for θ with the variance that θ would bring.

    (θ̂ − θ)² = q² [ V(θ)/m + V(B)/n_u ],   V(θ) = v + γ (θ − θ̂) − ω (θ − θ̂)²

with q a normal quantile. For L in {0, 1}, V(θ) = s·θ(1 − θ) with s = V(r)/V(L), the share of L's
variance that H leaves unexplained: with λ = 0 that is Wilson's interval, otherwise Wilson's for m/s
labels; and where all rows are right, or all wrong, the exact bound.
For any other L, v = V(r), γ = E[r³]/E[r²] is the rate at which variance grows with the mean where a
few large losses make the mean (for 0–1 losses it is 1 − 2θ, Wilson's own), and ω = 0. The large
losses may not be among the labels: for each five labelled rows one more, and at least ten, with
labels drawn as the model believes, enter γ (not v, and not θ̂). A timid model imagines more large
losses than there are, which would draw the lower bound in: there γ is the labelled rows' own if
that is less.

Nor need the labelled rows show all of V(H). Of a few rows of which a model is very sure there may
be none among them; unlabelled rows tell that they are there. If L followed H with slope 1 out
there, as a calibrated model believes, V(r) would be larger by (1 − λ)² times what is not seen of
V(H); it is taken to follow half as far beyond λ, and v has a quarter of that.

Of v, which is estimated, too little is seen in samples that lack large losses, and there it is the
upper bound that misses. Its q is therefore Student's t, with m − 2 degrees of freedom.

θ̂ itself is skewed as rows are, so its quantile is not q but, by Cornish and Fisher's expansion,
q + κ(q² − 1)/6 with κ its skewness: both bounds move by γ(q² − 1)/6m, for the part of θ̂'s variance
that is the labelled rows'. The expansion is for many losses. Where L is not 0 or 1 and a few large
losses make the mean, the lower bound moves by three quarters of that: for means of a Poisson number
of losses, evenly spread in size or mostly small, a lower bound with a tail of 5 % is then missed by
3.3 to 5.1 %, and by 2.3 to 5.0 % if it moves by all of it (simulated, 0.6 to 30 losses expected).
The upper bound of a loss without bound stays where it is: losses larger than any that was seen or
imagined may be missing.

λ was fitted to the rows that it corrects, so that θ̂ is too low on average where a few large losses
make λ large in the samples in which mean_L H is (:attr:`Fit.shortfall`). The bounds of such losses
are taken about θ̂ plus that. Where it is negative, one row far from the others in H made it so, and
shrinking λ and keeping it within [0, 1] has done the correction's work; then it is not taken.

Where large losses are so rare that a sample may well hold none, the upper bound cannot miss: it is
far enough even then. For such a θ the lower bound alone may miss, and takes both tails' probability
(:func:`_shared`). Where small losses are rare it is the other way round.
"""

import math
from typing import Literal, NamedTuple

from dessl.evaluation.debiased.fit import Fit
from dessl.evaluation.debiased.intervals import Bounds, Tail
from dessl.evaluation.debiased.proxies import Metric, Sample, imagined_moments

IMAGINED_SHARE = 0.2  # imagined rows for each labelled one,
LEAST_IMAGINED = 10  # and at least so many
UNSEEN_SLOPE = 0.5  # how far from λ to 1 the slope is taken to be where no labelled row lies
LOWER_SKEW = 0.75  # share of the shift for skewness that a lower bound takes, L not 0 or 1
LARGEST_TAIL = 0.15  # that one bound may have; a larger one is missed by a sample's first count
ROUNDING = 1e-12  # share of a squared loss that may be rounding


class _Side(NamedTuple):
    """What one of the bounds is made of; bounds and other places are given as θ − θ̂.

    Attributes:
        sign: −1 for the lower bound, 1 for the upper.
        labels: m.
        unlabelled_variance: V(B)/n_u.
        v: The variance of rows at θ̂.
        gamma: How fast it grows with θ.
        omega: How fast that slows down.
        skew: Share of the shift for θ̂'s skewness that the bound takes.
        rate: θ̂ where L is 0 or 1, else None.
        degrees: Degrees of freedom of v, whose q is Student's t; infinite for a normal q.
    """

    sign: Literal[-1, 1]
    labels: int
    unlabelled_variance: float
    v: float
    gamma: float
    omega: float
    skew: float = 1.0
    rate: float | None = None
    degrees: float = math.inf

    @property
    def long(self) -> bool:
        """Whether the rare losses are on this side."""
        return self.sign * self.gamma > 0

    def at(self, probability: float) -> float:
        """The bound whose tail has this probability, at most one half."""
        from scipy import special

        if self.degrees < math.inf:
            return self.bound(-float(special.stdtrit(self.degrees, probability)))
        normal = self.bound(-float(special.ndtri(probability)))
        if self.rate not in (0, 1) or not self.long:
            return normal
        exact = self.sign * _most_unseen(probability, self.labels)
        # Rows of one kind have no slope; of others unlabelled rows brought θ̂ to the end.
        return max(exact, normal, key=abs) if self.unlabelled_variance else exact

    def bound(self, quantile: float) -> float:
        """The bound for a quantile of θ̂'s law, not on the other side of θ̂.

        Of hits and misses of few labels the shift, in q², outgrows the root, which ends at 0 and 1:
        from there on the shift stays as it is.
        """

        def reach(quantile: float) -> float:
            return self.sign * (self._root(quantile) - self.skew * self._shift(quantile))

        farthest = reach(quantile)
        if self.omega and self.long:
            from scipy import optimize

            inside = optimize.minimize_scalar(lambda q: -reach(q), bounds=(0.0, quantile))
            if -inside.fun > farthest:
                shift = self.skew * self._shift(float(inside.x))
                farthest = self.sign * (self._root(quantile) - shift)
        return self.sign * max(0.0, farthest)

    def _root(self, quantile: float) -> float:
        """Solve (1 + ω·scale) d² − γ·scale·d − scale·v − q²·V(B)/n_u = 0."""
        scale = quantile**2 / self.labels
        a, b = 1 + self.omega * scale, self.gamma * scale
        square = b * b + 4 * a * (scale * self.v + quantile**2 * self.unlabelled_variance)
        return (b + self.sign * math.sqrt(square)) / (2 * a)

    def _shift(self, quantile: float) -> float:
        """How much farther θ̂'s quantile is than a normal law's: κ(q² − 1)/6 standard errors."""
        return self.share * self.gamma * (quantile**2 - 1) / (6 * self.labels)

    @property
    def share(self) -> float:
        """The labelled rows' share of θ̂'s variance; the mean of many unlabelled ones is normal."""
        if self.v <= ROUNDING * self.gamma**2:
            return 0.0
        return self.v / (self.v + self.labels * self.unlabelled_variance)

    def turn(self, probability: float) -> float:
        """Where the other bound, whose tail has this probability, begins to be able to miss.

        Rare losses, n of them expected, follow Poisson's law: none is seen with probability e⁻ⁿ. If
        that is more than a tail's, no sample has too few of them; and the bound of a sample without
        any holds every θ up to n = q². Hits and misses are counted, and the bound of a sample of
        one kind is exact; of other losses n = mv/γ² of one size γ would have this variance and
        skewness.
        """
        from scipy import special

        if self.rate is None:
            rare = min(-math.log(probability), float(special.ndtri(probability)) ** 2)
            return self.gamma * rare / self.labels - self.v / self.gamma
        unseen = _most_unseen(probability, self.labels)
        return (unseen if self.gamma > 0 else 1 - unseen) - self.rate


def score_bounds(fit: Fit, sample: Sample, metric: Metric, tail: Tail) -> Bounds:
    """Return bounds that hold near the ends of the range too, where rows hardly vary."""
    centre = min(1.0, max(0.0, fit.value)) if metric.binary else fit.value + max(0.0, fit.shortfall)
    below, above = _sides(fit, sample, metric, centre)
    p = tail.probability
    if p > 0.5:  # the one bound of a confidence below one half lies on the other side of θ̂
        return Bounds(centre + above.at(1 - p), centre + below.at(1 - p))
    sharing = tail.low and tail.high and metric.high < math.inf
    low, high = (_shared(side, p) if sharing else side.at(p) for side in (below, above))
    return Bounds(min(fit.value, centre + low), centre + high)


def _most_unseen(probability: float, labels: int) -> float:
    """The largest share of rows of which a sample holds none with at least this probability."""
    return -math.expm1(math.log(probability) / labels)


def _shared(side: _Side, probability: float) -> float:
    """Return one bound of two, whose tails have this probability each.

    For θ that the other bound cannot miss this one may miss with both tails' probability; but for
    what the unlabelled rows' mean has of θ̂'s variance, which can miss on either side. Beyond those
    θ it has its own tail's. It follows that an interval holds every one of the same rows whose
    1 − confidence is twice as large, or more; of two that are nearer, not always.
    """
    own = side.at(probability)
    both_tails = (1 + side.share) * probability
    # Not where the rare losses are on this side; nor for confidences so low that a count is a leap.
    if side.long or side.gamma == 0 or both_tails > LARGEST_TAIL:
        return own
    turn, both = side.turn(probability), side.at(both_tails)
    return side.sign * max(side.sign * both, min(side.sign * own, side.sign * turn))


def _sides(fit: Fit, sample: Sample, metric: Metric, centre: float) -> tuple[_Side, _Side]:
    m, extra = len(fit.residuals), fit.unlabelled_variance
    if metric.binary:
        variance = float(sample.loss.var())
        share = min(1.0, fit.row_variance / variance) if variance else 1.0
        v, gamma = share * centre * (1 - centre), share * (1 - 2 * centre)
        below = _Side(-1, m, extra, v, gamma, share, rate=centre)
        return below, below._replace(sign=1)
    own, growth = _growth(fit, sample)
    v = fit.leverage_variance + _unseen_variance(fit, sample)
    below = _Side(-1, m, extra, v, min(own, growth), 0.0, LOWER_SKEW)
    bounded = float(metric.high < math.inf)
    return below, below._replace(sign=1, gamma=growth, skew=bounded, degrees=m - 2)


def _growth(fit: Fit, sample: Sample) -> tuple[float, float]:
    """γ = E[r³]/E[r²] over the labelled rows, and over them and the imagined ones."""
    scaled = fit.scaled_residuals
    squares, cubes = float(scaled.square().sum()), float((scaled**3).sum())
    rows = max(LEAST_IMAGINED, IMAGINED_SHARE * len(scaled))
    second, third = (rows * moment for moment in imagined_moments(sample, fit.beliefs))
    own = cubes / squares if squares else 0.0
    return own, (cubes + third) / (squares + second) if squares + second else 0.0


def _unseen_variance(fit: Fit, sample: Sample) -> float:
    """What V(r) has where H takes values that no labelled row has."""
    unseen = max(0.0, float(sample.every_h.var()) - float(sample.labelled.h.var()))
    return (UNSEEN_SLOPE * (1 - fit.lam)) ** 2 * unseen
