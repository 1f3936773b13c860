"""Which of two models is better, from few labelled and many unlabelled rows.

The paired difference D = L_a − L_b of each labelled row is debiased by its expectation under the
models, just as one model's L is by its H. Its variance comes from all rows, labelled or not
(:mod:`dessl.evaluation.debiased.paired_variance`).

For accuracy and error, models that predict the same class have the same L for any label. There
no bound is farther from 0 than the share of rows on which they may differ, which all rows help to
estimate.
"""

import math
from typing import Literal, NamedTuple

import torch

from dessl import _checks
from dessl._checks import ArrayLike
from dessl.evaluation.debiased.design import (
    Design,
    best_design,
    designed,
    likely_weights,
)
from dessl.evaluation.debiased.estimate import LabelledOnly
from dessl.evaluation.debiased.fit import Fit, fitted
from dessl.evaluation.debiased.groups import Groups
from dessl.evaluation.debiased.inputs import (
    ALTERNATIVES,
    HowLabelled,
    MetricRequest,
    checked_clip,
    checked_confidence,
    checked_shift,
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
from dessl.evaluation.debiased.paired_variance import paired_variance
from dessl.evaluation.debiased.proxies import CLIP, Metric, MetricName, Sample
from dessl.evaluation.verdict import CONFIDENCE, OVER_LABELS, Comparison

ComparedName = MetricName | Literal["wins"]

OTHER_FOLDS = 4  # that are not held out


class ModelComparison(NamedTuple):
    """The metric of model a minus that of model b.

    Attributes:
        difference: The debiased estimate.
        low: Lower confidence bound; the minimum possible value for ``alternative="smaller"``.
        high: Upper confidence bound; the maximum possible value for ``alternative="larger"``.
        p_value: p-value of the null hypothesis that the models are equal (one-sided: that a's
            metric is not larger, or not smaller), from the same t as the interval.
        labelled_only: Value and interval without the unlabelled rows.
        lam: λ.
        correlation: Correlation of L_a − L_b and its proxy over the labelled rows.
        n_labelled: Number m of labelled rows.
        n_unlabelled: Number n_u of unlabelled rows.
        metric: Name of the metric; for a loss, a negative difference favours model a.
        confidence: Nominal coverage.
        alternative: Which bounds were requested.
        clip: The largest cross-entropy of a row; None for other metrics.
        effective_labels: The number of independent, equally weighted labels with the same
            precision.
        shift_p_value: p-value of the test whether unlabelled rows look like labelled ones; NaN if
            not tested.
        n_groups: Number of groups with labelled rows; None if each row is its own.
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
    n_groups: int | None = None


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
    groups: "ArrayLike | None" = None,
    groups_unlabelled: "ArrayLike | None" = None,
    check_shift: bool = True,
    confidence: float = 0.95,
    alternative: Alternative = "two-sided",
) -> ModelComparison:
    """Estimate the difference of two models' metrics on the same rows, with interval and p-value.

    The interval is Student's t. For the Brier score and the cross-entropy it is approximate if few
    labelled rows distinguish the models, like any interval.

    Args:
        metric: Same as in :func:`estimate_metric`; or ``"wins"``: the share of rows for which a
            gives the label more probability than b does, minus the share for which it gives less.
        probabilities_a_labelled: Model a's probabilities of the labelled rows, (m, classes), m ≥ 3.
        probabilities_b_labelled: Model b's probabilities of the same rows.
        y: Their labels, (m,).
        probabilities_a_unlabelled: Model a's probabilities of the unlabelled rows, (n_u, classes).
        probabilities_b_unlabelled: Model b's probabilities of the same rows. Without unlabelled
            rows the result is a paired t-interval with two pseudo-rows.
        positive: Same as in :func:`estimate_metric`, like the arguments down to ``check_shift``.
        threshold: For ``"tpr"`` and ``"fpr"``.
        clip: The largest cross-entropy of a row; it must be finite.
        propensity: The probability with which each labelled row was chosen for labelling, (m,).
        strata: The stratum of each labelled row, (m,).
        strata_unlabelled: The strata of the unlabelled rows, (n_u,).
        groups: The group of each labelled row, (m,), if rows belong together.
        groups_unlabelled: The groups of the unlabelled rows, (n_u,).
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
    request = MetricRequest(metric, positive, threshold, checked_clip(metric, clip))
    how = HowLabelled(propensity, strata, strata_unlabelled, groups, groups_unlabelled)
    labelled = (probabilities_a_labelled, probabilities_b_labelled)
    sample, kind, design = prepared(request, labelled, y, unlabelled, how)
    shift = checked_shift(sample, design, check_shift)
    tail = tail_of(confidence, alternative)
    fit, alone = compared_fit(sample, design), compared_fit(sample.alone, design)
    found = None if design is None else design.groups
    reach = _reach(kind, tail, sample, found)
    return ModelComparison(
        min(reach, max(-reach, fit.value)),
        *compared_bounds(fit, sample, kind, tail, found),
        _p_value(fit, paired_variance(fit, sample, kind), alternative),
        LabelledOnly(alone.value, *compared_bounds(alone, sample.alone, kind, tail, found)),
        fit.lam,
        fit.correlation,
        len(sample.loss),
        len(sample.unlabelled.h),
        metric,
        confidence,
        alternative,
        request.clip if metric == "cross_entropy" else None,
        fit.independent,
        shift.p_value,
        None if found is None else found.labelled,
    )


def held_out_comparison(
    method: str,
    probabilities: ArrayLike,
    complete_case: ArrayLike,
    y: ArrayLike,
    *,
    gain: float = 0.0,
    splits: int = 1,
    propensity: "ArrayLike | None" = None,
) -> Comparison:
    """Compare a method's Brier score with the complete case's on labels held out in training.

    The models of different folds share most of their training rows, so that their errors are
    correlated: V(r) is multiplied by 1 + splits/4, a fold being a quarter of the other rows (the
    corrected resampled t-test of Nadeau and Bengio, Machine Learning 52, 2003).

    Args:
        method: Its name.
        probabilities: Its probabilities of rows that it was not trained on, (m, classes), m ≥ 3.
        complete_case: The complete case's probabilities of the same rows.
        y: Their labels, (m,).
        gain: By how much the Brier score of the complete case is lower than that of
            ``complete_case``: these come from its members one at a time.
        splits: Number of folds that were held out in turn.
        propensity: The probability with which each row was chosen for labelling, (m,).

    >>> sure, unsure = [[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]] * 10, [[0.6, 0.4]] * 30
    >>> found = held_out_comparison("a", sure, unsure, [0, 1, 0] * 10)
    >>> round(found.difference, 2), found.clear, found.n
    (-0.36, True, 30)
    """
    request, how = MetricRequest("brier"), HowLabelled(propensity)
    sample, kind, design = prepared(request, (probabilities, complete_case), y, (), how)
    fit = compared_fit(sample, design)
    fit = fit._replace(value=fit.value + gain)
    variance = (1 + splits / OTHER_FOLDS) * paired_variance(fit, sample, kind)
    bounds = student_bounds(fit, variance, tail_of(CONFIDENCE, "two-sided"))
    p_value = _p_value(fit, variance, "two-sided")
    return Comparison(
        "brier", method, "complete case", fit.value, *bounds, p_value, CONFIDENCE, OVER_LABELS,
        len(sample.loss),
    )  # fmt: skip


def compared_fit(sample: Sample, design: Design | None) -> Fit:
    """The debiased difference."""
    if design is None:
        return fitted(sample)
    if design.groups is not None:
        return _grouped_fit(sample, design)
    some = len(sample.unlabelled.h) > 0
    fit = best_design(sample, design) if some else designed(sample, design)
    # The variance comes from all rows, not only from the heavy ones.
    fewer = 1 + int(design.strata.max()) + bool(fit.lam)
    degrees = max(1.0, float(len(sample.loss) - fewer))
    return fit._replace(degrees=degrees, likely=likely_weights(sample, design) if some else None)


def _grouped_fit(sample: Sample, design: Design) -> Fit:
    """The debiased difference of rows with groups: that of rows, with a larger variance.

    The variance of rows uses all rows on which the models may differ; sums over groups show by how
    much it is too small. They estimate this factor roughly, so that it is at least 1.
    """
    units = best_design(sample, design)
    alone = design._replace(groups=None)
    rows = designed(sample, alone, lam=units.lam)
    whole, parts = (fit.standard_error(fit.leverage_variance) ** 2 for fit in (units, rows))
    inflation = max(1.0, whole / parts) if parts else 1.0
    if design.at_random:
        fit = fitted(sample, lam=units.lam)
    else:
        likely = likely_weights(sample, alone) if len(sample.unlabelled.h) else None
        fit = rows._replace(likely=likely)
    return fit._replace(
        degrees=units.degrees,
        inflation=inflation,
        unlabelled_variance=inflation * fit.unlabelled_variance,
        shared=units.shared,
    )


def _reach(metric: Metric, tail: Tail, sample: Sample, groups: Groups | None) -> float:
    """The largest possible difference: for hits, an upper bound of the share of differing rows.

    Rows of one group may all differ together: groups are counted as rows, each by its size.
    """
    span = metric.high - metric.low
    if not metric.binary or metric.smooth:
        return span
    from scipy import special

    # The second moment is 0 if every label gives both models the same L.
    squares = torch.cat([sample.labelled.moments[1], sample.unlabelled.moments[1]])
    n = float(len(squares))
    if groups is not None:
        n = groups.effective(torch.ones_like(squares))
    differ = n * float((squares > 0).double().mean())
    # The exact upper bound of a Poisson mean: 3.7 rows at 97.5 % if no row differs.
    level = max(tail.probability, 1 - tail.probability)
    return min(span, float(special.gammaincinv(differ + 1, level)) / n)


def compared_bounds(
    fit: Fit, sample: Sample, metric: Metric, tail: Tail, groups: Groups | None = None
) -> Bounds:
    """Student's t bounds, within reach; a bound not requested is the end of the range."""
    reach, span = _reach(metric, tail, sample, groups), metric.high - metric.low
    variance = paired_variance(fit, sample, metric)
    bounds = student_bounds(fit, variance, tail)
    near = Bounds(*(min(reach, max(-reach, bound)) for bound in bounds))
    return within(near, tail, -span, span)


def _p_value(fit: Fit, variance: float, alternative: Alternative) -> float:
    from scipy import special

    error = fit.standard_error(variance)
    if error == 0:  # the models have the same loss on every row for any label
        return 1.0
    t = fit.value / error
    if alternative == "two-sided":
        return 2 * float(special.stdtr(fit.degrees, -abs(t)))
    return float(special.stdtr(fit.degrees, -t if alternative == "larger" else t))
