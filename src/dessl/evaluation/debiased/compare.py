"""Which of two models is better, from few labelled and many unlabelled rows.

The paired difference L_a − L_b of each labelled row is debiased by its expectation under the
models, as one model's L is by its H. The variance is that of the residuals plus four pseudo-rows
with labels drawn from the models' probabilities: two models that agree on all labelled rows need
not be equal. For accuracy and error, models that predict the same class have the same L whatever
the label. There the pseudo-rows include at least one on which the models differ, and no bound is
farther from 0 than the share of rows on which they may differ, which all rows help to estimate.
"""

import math
from typing import Literal, NamedTuple

import torch

from dessl import _checks
from dessl._checks import ArrayLike
from dessl.evaluation.debiased.design import Design, best_design, designed
from dessl.evaluation.debiased.estimate import LabelledOnly
from dessl.evaluation.debiased.fit import Fit, fitted
from dessl.evaluation.debiased.inputs import (
    ALTERNATIVES,
    Asked,
    HowLabelled,
    checked_clip,
    checked_confidence,
    noticed_shift,
    prepared,
)
from dessl.evaluation.debiased.intervals import (
    Alternative,
    Bounds,
    Tail,
    student_bounds,
    tail_of,
    within,
)
from dessl.evaluation.debiased.proxies import (
    CLIP,
    Metric,
    MetricName,
    Sample,
    imagined_moments,
    moments_about,
)

ComparedName = MetricName | Literal["wins"]

IMAGINED_ROWS = 4
LEAST_DEGREES = 2.0  # of freedom; the pseudo-rows are known


class ModelComparison(NamedTuple):
    """The metric of model a minus that of model b.

    Attributes:
        difference: The debiased estimate.
        low: Lower confidence bound; the minimum possible value for ``alternative="smaller"``.
        high: Upper confidence bound; the maximum possible value for ``alternative="larger"``.
        p_value: For the null hypothesis that the models are equal (one-sided: that a's metric is
            not larger, or not smaller), from the same t as the interval.
        labelled_only: Value and interval without the unlabelled rows.
        lam: λ.
        correlation: Of L_a − L_b and its proxy over the labelled rows.
        n_labelled: m.
        n_unlabelled: n_u.
        metric: Its name; for a loss, a negative difference favours model a.
        confidence: Nominal coverage.
        alternative: Which bounds were requested.
        clip: The largest cross-entropy of a row; None for other metrics.
        effective_labels: The number of equally weighted labels that are worth as much.
        shift_p_value: Of the test whether unlabelled rows look like labelled ones; NaN if it was
            not made.
    """

    difference: float
    low: float
    high: float
    p_value: float
    labelled_only: LabelledOnly
    lam: float
    correlation: float
    n_labelled: int
    n_unlabelled: int
    metric: str
    confidence: float
    alternative: str
    clip: float | None = None
    effective_labels: float = math.nan
    shift_p_value: float = math.nan


def compare_models(
    metric: ComparedName,
    probabilities_a_labelled: ArrayLike,
    probabilities_b_labelled: ArrayLike,
    y: ArrayLike,
    probabilities_a_unlabelled: "ArrayLike | None" = None,
    probabilities_b_unlabelled: "ArrayLike | None" = None,
    *,
    positive: int | None = None,
    threshold: float | None = None,
    clip: float = CLIP,
    propensity: "ArrayLike | None" = None,
    strata: "ArrayLike | None" = None,
    strata_unlabelled: "ArrayLike | None" = None,
    check_shift: bool = True,
    confidence: float = 0.95,
    alternative: Alternative = "two-sided",
) -> ModelComparison:
    """Estimate the difference of two models' metrics on the same rows, with interval and p-value.

    The interval is Student's t. For the Brier score and the cross-entropy it is approximate if few
    labelled rows distinguish the models, as any interval is.

    Args:
        metric: As in :func:`estimate_metric`; or ``"wins"``: the share of rows to whose label a
            gives more probability than b, minus the share where it gives less.
        probabilities_a_labelled: Model a's probabilities of the labelled rows, (m, classes), m ≥ 3.
        probabilities_b_labelled: Model b's, of the same rows.
        y: Their labels, (m,).
        probabilities_a_unlabelled: Model a's probabilities of the unlabelled rows, (n_u, classes).
        probabilities_b_unlabelled: Model b's, of the same rows. Without unlabelled rows the result
            is a paired t-interval with four pseudo-rows.
        positive: As in :func:`estimate_metric`, as all arguments down to ``check_shift``.
        threshold: For ``"tpr"`` and ``"fpr"``.
        clip: The largest cross-entropy of a row; it must be finite.
        propensity: The probability with which each labelled row was chosen for labelling, (m,).
        strata: The stratum of each labelled row, (m,).
        strata_unlabelled: The strata of the unlabelled rows, (n_u,).
        check_shift: Whether to test that unlabelled rows look like labelled ones.
        confidence: Nominal coverage, in (0, 1).
        alternative: ``"larger"``: test whether a's metric is larger than b's, lower bound only;
            ``"smaller"``: whether it is smaller, upper bound only; or ``"two-sided"``.

    >>> a, b = [[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]] * 10, [[0.6, 0.4]] * 30
    >>> result = compare_models("accuracy", a, b, [0, 1, 0] * 10, a * 9, b * 9)
    >>> print(f"{result.difference:.2f} in [{result.low:.2f}, {result.high:.2f}]")
    0.33 in [0.17, 0.41]
    >>> result.p_value < 0.001
    True
    """
    confidence = checked_confidence(confidence)
    _checks.one_of("alternative", alternative, ALTERNATIVES)
    if (probabilities_a_unlabelled is None) != (probabilities_b_unlabelled is None):
        raise ValueError("unlabelled rows need the probabilities of both models; got one model's.")
    if clip == math.inf:
        raise ValueError(
            "clip must be finite: the difference of two unbounded losses has no valid interval. "
            "Omit clip for the default of 4.6."
        )
    both = (probabilities_a_unlabelled, probabilities_b_unlabelled)
    unlabelled = tuple(matrix for matrix in both if matrix is not None)
    asked = Asked(metric, positive, threshold, checked_clip(metric, clip))
    how = HowLabelled(propensity, strata, strata_unlabelled)
    labelled = (probabilities_a_labelled, probabilities_b_labelled)
    sample, kind, design = prepared(asked, labelled, y, unlabelled, how)
    shift = noticed_shift(sample, design, check_shift)
    tail = tail_of(confidence, alternative)
    fit, alone = compared_fit(sample, design), compared_fit(sample.alone, design)
    reach = _reach(kind, tail, sample)
    return ModelComparison(
        min(reach, max(-reach, fit.value)),
        *compared_bounds(fit, sample, kind, tail),
        _p_value(fit, row_variance(fit, sample, kind), alternative),
        LabelledOnly(alone.value, *compared_bounds(alone, sample.alone, kind, tail)),
        fit.lam,
        fit.correlation,
        len(sample.loss),
        len(sample.unlabelled.h),
        metric,
        confidence,
        alternative,
        asked.clip if metric == "cross_entropy" else None,
        fit.labels,
        shift.p_value,
    )


def compared_fit(sample: Sample, design: Design | None) -> Fit:
    """The debiased difference."""
    if design is None:
        return fitted(sample)
    return best_design(sample, design) if len(sample.unlabelled.h) else designed(sample, design)


def row_variance(fit: Fit, sample: Sample, metric: Metric) -> float:
    """V(r) with the pseudo-rows added to the labelled rows' sum of squares."""
    imagined, _ = imagined_moments(sample, fit.beliefs)
    squares = IMAGINED_ROWS * imagined
    if metric.binary and not metric.smooth:
        squares = max(1.0, squares)
    return _weighted_variance(fit, sample) + squares / fit.labels


def _weighted_variance(fit: Fit, sample: Sample) -> float:
    """V(r); if rows have weights, the mean of what is observed and what the models lead to expect.

    Few rows with large weights decide Σ a² r². The models' s = E[r²], which differs from r² by a
    factor that rows with smaller weights also tell, gives Σ a² s · Σ a r² / Σ a s.
    """
    if fit.weights is None:
        return fit.row_variance
    a, line = fit.weights, fit.beliefs[: len(fit.weights)]
    first = sample.labelled.moments[0]
    expected, _ = moments_about(sample.labelled.moments, line + a @ (first - line))
    squares = (fit.scaled_residuals / a).square() / (len(a) * fit.labels)
    if not float(a @ expected):
        return fit.leverage_variance
    modelled = float(a.square() @ expected) * float(a @ squares) / float(a @ expected)
    return (fit.leverage_variance + fit.labels * modelled) / 2


def _certain(fit: Fit, variance: float) -> Fit:
    """The fit with the degrees of freedom of a variance to which few rows may contribute most."""
    if not fit.designed or not variance:
        return fit
    m = len(fit.residuals)
    noise = float((fit.scaled_residuals**4).sum()) / (m * variance) ** 2 - 1 / m
    if noise <= 0:
        return fit
    return fit._replace(degrees=max(LEAST_DEGREES, min(fit.degrees, 2 / noise)))


def _reach(metric: Metric, tail: Tail, sample: Sample) -> float:
    """The largest possible difference: for hits, the upper bound of the share that differs."""
    span = metric.high - metric.low
    if not metric.binary or metric.smooth:
        return span
    from scipy import special

    # The second moment is 0 if every label gives both models the same L.
    squares = torch.cat([sample.labelled.moments[1], sample.unlabelled.moments[1]])
    differ = int((squares > 0).sum())
    # The exact upper bound of a Poisson mean: 3.7 rows at 97.5 % if no row differs.
    level = max(tail.probability, 1 - tail.probability)
    return min(span, float(special.gammaincinv(differ + 1, level)) / len(squares))


def compared_bounds(fit: Fit, sample: Sample, metric: Metric, tail: Tail) -> Bounds:
    """Student's t bounds, within reach; a bound not requested is the end of the range."""
    reach, span = _reach(metric, tail, sample), metric.high - metric.low
    variance = row_variance(fit, sample, metric)
    bounds = student_bounds(_certain(fit, variance), variance, tail)
    near = Bounds(*(min(reach, max(-reach, bound)) for bound in bounds))
    return within(near, tail, -span, span)


def _p_value(fit: Fit, variance: float, alternative: Alternative) -> float:
    from scipy import special

    error = fit.standard_error(variance)
    if error == 0:  # the models have the same losses on every row whatever its label
        return 1.0
    t, fit = fit.value / error, _certain(fit, variance)
    if alternative == "two-sided":
        return 2 * float(special.stdtr(fit.degrees, -abs(t)))
    return float(special.stdtr(fit.degrees, -t if alternative == "larger" else t))
