"""Score bounds of a debiased mean: solve for θ, with the variance as a function of θ.

    (θ̂ − θ)² = q² [ V(θ)/m + V(B)/n_u ],   V(θ) = v + γ (θ − θ̂) − ω (θ − θ̂)²

with q a normal quantile. For L in {0, 1}, V(θ) = s·θ(1 − θ) with s = V(r)/V(L), the share of L's
variance that H leaves unexplained: with λ = 0 this is Wilson's interval, otherwise Wilson's for m/s
labels; if all rows are correct, or all wrong, it is the exact bound.
For any other L, v = V(r), ω = 0, and γ = E[r³]/E[r²] is the rate at which the variance grows with
the mean if a few large losses dominate the mean (for 0–1 losses it is 1 − 2θ, as in Wilson's). The
labelled rows may lack the large losses: one pseudo-row per five labelled rows, and at least ten,
with labels drawn from the model's probabilities, enter γ (but not v or θ̂). An underconfident model
expects more large losses than occur, which would make the lower bound too tight: there γ is that
of the labelled rows if it is smaller.

The labelled rows may also miss part of V(H): they may not include any of a few very confident rows
that appear among the unlabelled ones. If L followed H with slope 1 there, as for a calibrated
model, V(r) would increase by (1 − λ)² times the missing part of V(H). We assume a slope halfway
between λ and 1, which adds a quarter of that to v.

The estimate v is too small in samples that lack large losses, and then the upper bound misses. Its
q is therefore from Student's t, with m − 2 degrees of freedom. The same holds for both bounds of
0–1 losses with λ > 0 and fewer than 50 labels, or with weights. A rate has the variance of n coin
tosses, n = θ̂(1 − θ̂)/V(θ̂): its bounds are Wilson's for n/s tosses. The precision of an AUC or an
average over classes depends on its smallest class: for k rows of it, V(θ̂) is multiplied by
k/(k − 1), and q is Student's t with k − 1 degrees of freedom. AUC bounds are on the logit scale.

θ̂ is skewed like the rows, so by the Cornish–Fisher expansion its quantile is q + κ(q² − 1)/6
with κ its skewness: both bounds shift by γ(q² − 1)/6m, scaled by the labelled rows' share of θ̂'s
variance. The expansion assumes many losses. If L is not 0 or 1 and a few large losses dominate the
mean, the lower bound shifts by three quarters of that: for means of a Poisson number of losses,
with sizes uniform or mostly small, a lower bound with a tail of 5 % then misses 3.3 to 5.1 % of the
time, against 2.3 to 5.0 % with the full shift (simulated, 0.6 to 30 losses expected).

λ is fitted to the rows it corrects, so θ̂ is too low on average if a few large losses raise both λ
and mean_L H (:attr:`Fit.shortfall`). The bounds of such losses are centred on θ̂ plus that amount.
A negative shortfall comes from one row far from the others in H, which shrinking λ and clipping it
to [0, 1] already corrects; it is then ignored.

Rows labelled by design have unequal weights, and row i moves θ̂ by c_i: V(θ̂) = Σ c², γ = Σ c³/Σ c²
with c in units of the mean weight, and the pseudo-rows have the weights of the labelled rows. A few
rows with large weights dominate Σ c². Of its own variance Σ c⁴, the part (Σ c³)²/Σ c² is due to θ,
which V(θ) follows; the rest makes q Student's t with 2 (Σ c²)²/(Σ c⁴ − (Σ c³)²/Σ c²) degrees of
freedom. That holds for 0–1 losses too, and for rows drawn by strata, whose residuals are about
the stratum's mean: a stratum whose rows are all correct adds to γ through its pseudo-rows. If L is
not 0 or 1, the bound away from the rare losses shifts by only half of the skewness term: the
skewness comes from a few heavy rows, and the expansion assumes many. If the labelled rows are
skewed in the opposite direction to the pseudo-rows, that bound uses the labelled rows' own γ.

If large losses are so rare that a sample may well have none, the upper bound cannot miss: it is far
enough even then. For such a θ only the lower bound can miss, so it gets the probability of both
tails (:func:`_shared`). If small losses are rare, the roles are swapped.

A cross-entropy may be dominated by one loss in a hundred that is fifty times the others, next to
much ordinary noise. θ̂ then deviates from θ for reasons that do not change V: of a deviation, only
the labelled rows' share of θ̂'s variance goes with a larger V(θ), so γ of the lower bound is
multiplied by that share. And ordinary noise misses on both sides: a jump of size j with rate ν adds
νj², νj³ and νj⁴ to the moments, so (Σ r³)²/(Σ r² Σ r⁴) is the share of V(r) that is due to jumps,
and only that share of the other tail's probability is passed on. With weights, which spread the
sizes of jumps, the same holds with c for r, but from a confidence of 95 % only: below that, the
other bound can miss, and how many jumps are expected is estimated too roughly to tell when.
"""

import math
from typing import Literal, NamedTuple

from torch import Tensor

from dessl.evaluation.debiased.fit import Fit
from dessl.evaluation.debiased.intervals import Bounds, Tail
from dessl.evaluation.debiased.proxies import Metric, Sample, imagined_moments, moments_about

IMAGINED_SHARE = 0.2  # pseudo-rows per labelled row,
LEAST_IMAGINED = 10  # and their minimum number
UNSEEN_SLOPE = 0.5  # assumed slope where there are no labelled rows, as a fraction from λ to 1
IMAGINED_WEIGHTED = 0.15  # pseudo-rows per labelled row if rows have weights
LOWER_SKEW = 0.75  # fraction of the skewness shift applied to a lower bound, L not 0 or 1
SHORT_SKEW = 0.5  # the same if rows have weights, which make the large losses fewer
LARGEST_TAIL = 0.15  # of one bound; with a larger one, a single count matters,
LARGEST_WEIGHTED = 0.05  # or a single heavy row
FEW_LABELS = 50  # with fewer, V(r) of 0–1 losses is too uncertain for a normal quantile
ROUNDING = 1e-12  # fraction of a squared loss that may be rounding


class _Side(NamedTuple):
    """The parameters of one bound; bounds and other values of θ are given as θ − θ̂.

    Attributes:
        sign: −1 for the lower bound, 1 for the upper.
        labels: Number m of labels.
        unlabelled_variance: V(B)/n_u.
        v: The variance of rows at θ̂.
        gamma: How fast this variance grows with θ.
        omega: How fast that growth slows down.
        skew: Fraction of the shift for θ̂'s skewness that is applied.
        rate: The estimate θ̂ if L is 0 or 1, otherwise None.
        degrees: Degrees of freedom of v, whose q is Student's t; infinite for a normal q.
        rare: The share of v that is due to rare losses, which one of the bounds cannot miss.
    """

    sign: Literal[-1, 1]
    labels: float
    unlabelled_variance: float
    v: float
    gamma: float
    omega: float
    skew: float = 1.0
    rate: float | None = None
    degrees: float = math.inf
    rare: float = 1.0

    @property
    def long(self) -> bool:
        """Whether the rare losses are on this side."""
        return self.sign * self.gamma > 0

    def at(self, probability: float) -> float:
        """The bound whose tail has this probability, at most one half."""
        from scipy import special

        if self.degrees < math.inf:
            quantile = -float(special.stdtrit(self.degrees, probability))
        else:
            quantile = -float(special.ndtri(probability))
        solved = self.bound(quantile)
        if self.rate not in (0, 1) or not self.long:
            return solved
        exact = self.sign * _most_unseen(probability, self.labels)
        # With equal L there is no slope; otherwise the unlabelled rows moved θ̂ to the end.
        return max(exact, solved, key=abs) if self.unlabelled_variance else exact

    def bound(self, quantile: float) -> float:
        """The bound for a quantile of θ̂'s distribution, never on the other side of θ̂.

        For 0–1 losses with few labels the shift, of order q², outgrows the root, which is limited
        to [0, 1]: beyond that point the shift is held constant.
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
        """The distance of θ̂'s quantile from the normal one: κ(q² − 1)/6 standard errors."""
        return self.share * self.gamma * (quantile**2 - 1) / (6 * self.labels)

    @property
    def share(self) -> float:
        """The labelled rows' share of θ̂'s variance; the mean of many unlabelled ones is normal."""
        if self.v <= ROUNDING * self.gamma**2:
            return 0.0
        return self.v / (self.v + self.labels * self.unlabelled_variance)

    def turn(self, probability: float) -> float:
        """The θ beyond which the other bound, whose tail has this probability, can miss.

        The number of rare losses is Poisson with mean n: a sample has none with probability e⁻ⁿ. If
        that exceeds the tail probability, no sample has too few of them; and the bound of a sample
        without any covers every θ up to n = q². 0–1 losses are counted, and the bound is exact if
        all are equal; for other losses, n = mv/γ² losses of equal size γ would have this variance
        and skewness.
        """
        from scipy import special

        if self.rate is None:
            rare = min(-math.log(probability), float(special.ndtri(probability)) ** 2)
            return self.gamma * rare / self.labels - self.v / self.gamma
        unseen = _most_unseen(probability, self.labels)
        return (unseen if self.gamma > 0 else 1 - unseen) - self.rate


def score_bounds(fit: Fit, sample: Sample, metric: Metric, tail: Tail) -> Bounds:
    """Return bounds that are also valid near the ends of the range, where rows hardly vary."""
    if metric.logit and (found := _logit_bounds(fit, sample, metric, tail)):
        return found
    if fit.designed and not metric.smooth and fit.loss_variance:
        return _weighted_bounds(fit, sample, metric, tail)
    centre = _rate(fit.value) if metric.binary else fit.value + max(0.0, fit.shortfall)
    p = tail.probability
    below, above = _sides(fit, sample, metric, centre)
    if p > 0.5:  # a one-sided bound with confidence below one half is on the other side of θ̂
        return Bounds(centre + above.at(1 - p), centre + below.at(1 - p))
    sharing = tail.low and tail.high
    low, high = (_shared(side, p) if sharing else side.at(p) for side in (below, above))
    return Bounds(min(fit.value, centre + low), centre + high)


def _weighted_bounds(fit: Fit, sample: Sample, metric: Metric, tail: Tail) -> Bounds:
    """Bounds if rows were labelled by design."""
    long = _weighted_side(fit, sample)
    short, p = long, tail.probability
    if not metric.binary:
        moved = _moved(fit)
        own = float((moved**3).sum() / moved.square().sum())
        gamma = long.gamma if own * long.gamma > 0 else own
        short = long._replace(gamma=gamma, skew=SHORT_SKEW, rare=_rare_share(moved))
    below, above = (short, long) if long.gamma >= 0 else (long, short)
    below, above = below._replace(sign=-1), above._replace(sign=1)
    if p > 0.5:
        return Bounds(fit.value + above.at(1 - p), fit.value + below.at(1 - p))
    sharing = tail.low and tail.high and not metric.binary
    low, high = (
        _shared(side, p, LARGEST_WEIGHTED) if sharing else side.at(p) for side in (below, above)
    )
    return Bounds(fit.value + low, fit.value + high)


def _logit_bounds(fit: Fit, sample: Sample, metric: Metric, tail: Tail) -> Bounds | None:
    """Student's t bounds of an AUC's logit; None if the AUC is too close to 0 or 1."""
    from scipy import special

    spread = fit.value * (1 - fit.value)
    rows = rows_of_smallest_class(fit, sample, metric)
    variance = fit.leverage_variance / fit.labels + fit.unlabelled_variance
    error = math.sqrt(variance * rows / (rows - 1))
    if not fit.loss_variance or error > spread:
        return None
    half = -float(special.stdtrit(rows - 1, tail.probability)) * error / spread
    middle = float(special.logit(fit.value))
    return Bounds(*(float(special.expit(middle + one)) for one in (-half, half)))


def rows_of_smallest_class(fit: Fit, sample: Sample, metric: Metric) -> float:
    """The number of independent labels that the smallest class has, at least 2."""
    return max(2.0, min(metric.units, fit.labels * sample.n_labels / len(sample.loss)))


def _rate(value: float) -> float:
    """A share in [0, 1]; exactly 0 or 1 if it differs only by rounding."""
    nearest = float(round(value))
    return min(1.0, max(0.0, nearest if abs(value - nearest) < ROUNDING else value))


def _most_unseen(probability: float, labels: float) -> float:
    """The largest share of rows that a sample misses entirely with at least this probability."""
    return -math.expm1(math.log(probability) / labels)


def _shared(side: _Side, probability: float, largest: float = LARGEST_TAIL) -> float:
    """Return one of two bounds whose tails have this probability each.

    For θ that the other bound cannot miss, this one may miss with the probability of both tails,
    except for the unlabelled rows' share of θ̂'s variance, which can miss on either side. Beyond
    those θ it has its own tail only. So an interval contains every interval from the same rows
    whose 1 − confidence is at least twice as large; closer ones are not always nested.
    """
    own = side.at(probability)
    both_tails = (1 + side.share * side.rare) * probability
    # Not if the rare losses are on this side, nor for confidences so low that one row matters.
    if side.long or side.gamma == 0 or both_tails > largest:
        return own
    turn, both = side.turn(probability), side.at(both_tails)
    return side.sign * max(side.sign * both, min(side.sign * own, side.sign * turn))


def _sides(fit: Fit, sample: Sample, metric: Metric, centre: float) -> tuple[_Side, _Side]:
    m, extra = fit.labels, fit.unlabelled_variance
    if metric.binary:
        share, counted = fit.unexplained, _counted(fit, sample, metric)
        v, gamma = share * centre * (1 - centre), share * (1 - 2 * centre)
        few = (fit.lam and counted < FEW_LABELS) or fit.designed
        degrees = max(1.0, counted - 2) if few and fit.loss_variance else math.inf
        if not metric.share and fit.loss_variance:
            rows = rows_of_smallest_class(fit, sample, metric)
            share, degrees = share * rows / (rows - 1), max(1.0, min(counted, rows) - 1)
            v, gamma = share * centre * (1 - centre), share * (1 - 2 * centre)
        if fit.shared is not None and fit.loss_variance:  # V(r) is from sums over groups
            degrees = max(1.0, min(degrees, fit.degrees, metric.units - 1))
        below = _Side(-1, counted, extra, v, gamma, share, rate=centre, degrees=degrees)
        return below, below._replace(sign=1)
    own, growth = _growth(fit, sample)
    # Rows whose H is outside that of the labelled rows add to V(r).
    unseen = max(0.0, float(sample.every_h.var()) - fit.seen_variance)
    v = fit.leverage_variance + (UNSEEN_SLOPE * (1 - fit.lam)) ** 2 * unseen
    below = _Side(-1, m, extra, v, min(own, growth), 0.0, LOWER_SKEW)
    if metric.heavy:
        rare = _rare_share(fit.scaled_residuals)
        below = below._replace(gamma=below.share * below.gamma, rare=rare)
    return below, below._replace(sign=1, gamma=growth, skew=1.0, degrees=max(1.0, m - 2))


def _weighted_side(fit: Fit, sample: Sample) -> _Side:
    """The parameters of a bound if row i moves θ̂ by c_i, for rows labelled by design."""
    if fit.weights is None:
        raise TypeError("the fit has no weights.")
    moved = _moved(fit)
    second, third, fourth = (float((moved**k).sum()) for k in (2, 3, 4))
    line = fit.beliefs[: len(fit.weights)]
    first = sample.labelled.moments[0]
    squares, cubes = moments_about(sample.labelled.moments, line + fit.weights @ (first - line))
    weights = fit.labels * fit.weights
    shared = weights if fit.shared is None else fit.labels * fit.shared
    imagined = IMAGINED_WEIGHTED * float((weights * shared) @ squares)
    more = IMAGINED_WEIGHTED * float((weights * shared.square()) @ cubes)
    gamma = (third + more) / (second + imagined)
    # The part of the variance's own variance that θ does not explain.
    unexplained = (fourth - third**2 / second) / second**2
    degrees = max(1.0, 2 / unexplained) if unexplained > ROUNDING else math.inf
    if fit.shared is not None:  # few groups: at most as many degrees as they have
        degrees = min(degrees, fit.degrees)
    v = second / fit.labels
    return _Side(1, fit.labels, fit.unlabelled_variance, v, gamma, 0.0, degrees=degrees)


def _moved(fit: Fit) -> Tensor:
    """The amount c by which each row moves θ̂, times the number of labels, (m,)."""
    return fit.scaled_residuals * math.sqrt(fit.labels / len(fit.residuals))


def _counted(fit: Fit, sample: Sample, metric: Metric) -> float:
    """The number of coin tosses with a mean as variable as that of the rows' L."""
    if not (metric.smooth and fit.loss_variance):
        return fit.labels * sample.n_labels / len(sample.loss)
    mean = _rate(fit.plain)
    tosses = fit.labels * mean * (1 - mean) / fit.loss_variance
    return tosses or fit.labels * sample.n_labels / len(sample.loss)


def _growth(fit: Fit, sample: Sample) -> tuple[float, float]:
    """γ = E[r³]/E[r²] over the labelled rows, and over those and the pseudo-rows."""
    scaled = fit.scaled_residuals
    squares, cubes = float(scaled.square().sum()), float((scaled**3).sum())
    rows = max(LEAST_IMAGINED, IMAGINED_SHARE * len(scaled))
    second, third = (rows * moment for moment in imagined_moments(sample, fit.beliefs))
    own = cubes / squares if squares else 0.0
    return own, (cubes + third) / (squares + second) if squares + second else 0.0


def _rare_share(residuals: Tensor) -> float:
    """(Σ r³)²/(Σ r² Σ r⁴), 1 if all of V(r) comes from losses of one size."""
    second, third, fourth = (float((residuals**k).sum()) for k in (2, 3, 4))
    return third**2 / (second * fourth) if second * fourth else 1.0
