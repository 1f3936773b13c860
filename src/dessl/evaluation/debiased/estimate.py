"""A metric from few labelled and many unlabelled rows, with a confidence interval.

    mean_L L + λ ( mean_U H − mean_L H )

is unbiased for the metric for any model; if its expected losses H correlate with its
losses L, the interval is shorter than from the labelled rows alone. Rows must be labelled at
random, which is tested (:mod:`dessl.evaluation.debiased.shift`), or with known probabilities
(:mod:`dessl.evaluation.debiased.design`), and must not have been used for training.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from dessl import _checks
from dessl._checks import ArrayLike
from dessl.evaluation.debiased.design import Design, best_design, designed, warn_of_unseen_errors
from dessl.evaluation.debiased.fit import LAM_RANGE, Fit, cross_fitted, fitted, steepest, with_curve
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
    Method,
    Tail,
    bootstrap_bounds,
    student_bounds,
    tail_of,
    within,
)
from dessl.evaluation.debiased.proxies import CLIP, Metric, MetricName, Sample
from dessl.evaluation.debiased.rates import RATES
from dessl.evaluation.debiased.score import rows_of_smallest_class, score_bounds
from dessl.evaluation.metrics.predictions import checked_pair
from dessl.evaluation.metrics.scoring import true_class

METHODS = ("score", "leverage_t", "cross_fit", "bootstrap")
ROUNDING = 1e-12
LEAST_RANKED = 20  # rows of an AUC's smaller class, times classes, to use unlabelled rows


class LabelledOnly(NamedTuple):
    """The same interval from the labelled rows alone."""

    value: float
    low: float
    high: float


class MetricEstimate(NamedTuple):
    """An estimated metric.

    Attributes:
        value: The debiased estimate, clipped to the range of the metric.
        low: Lower confidence bound; the minimum possible value for ``alternative="smaller"``.
        high: Upper confidence bound; the maximum possible value for ``alternative="larger"``.
        labelled_only: Value and interval without the unlabelled rows, by the same method.
        lam: λ; 0 if H does not help.
        bend: μ, if the estimate follows a curve λ H + μ G in H
            (:mod:`dessl.evaluation.debiased.fit`); 0 for a straight line.
        correlation: ρ(L, H) over the labelled rows.
        n_labelled: Number m of labelled rows.
        n_unlabelled: Number n_u of unlabelled rows.
        metric: Name of the metric.
        confidence: Nominal coverage.
        alternative: Which bounds were requested.
        method: How the interval was computed.
        clip: The largest cross-entropy of a row; None for other metrics.
        effective_labels: The number of independent, equally weighted labels with the same
            precision; m unless propensities, strata or groups were given.
        shift_p_value: p-value of the test whether unlabelled rows look like labelled ones; NaN if
            not tested.
        n_groups: Number of groups with labelled rows; None if each row is its own.
    """

    value: float
    low: float
    high: float
    labelled_only: LabelledOnly
    lam: float
    bend: float
    correlation: float
    n_labelled: int
    n_unlabelled: int
    metric: str
    confidence: float
    alternative: str
    method: str
    clip: float | None = None
    effective_labels: float = math.nan
    shift_p_value: float = math.nan
    n_groups: int | None = None


def estimate_metric(
    metric: MetricName,
    probabilities_labelled: ArrayLike,
    y: ArrayLike,
    probabilities_unlabelled: "ArrayLike | None" = None,
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
    method: Method = "score",
    draws: int = 999,
    generator: torch.Generator | None = None,
) -> MetricEstimate:
    """Estimate a metric of a classifier, with a confidence interval.

    Args:
        metric: A mean over rows: ``"accuracy"``, ``"error"``, ``"brier"`` (the multiclass sum, 0 to
            2) or ``"cross_entropy"`` (each row's loss is capped at ``clip``). Or a rate:
            ``"balanced_accuracy"``, ``"macro_f1"``, ``"auc"``, and ``"recall"``, ``"precision"``,
            ``"tpr"`` or ``"fpr"`` of one class.
        probabilities_labelled: Predicted probabilities of the labelled rows, (m, classes), m ≥ 3.
        y: Their labels, (m,). Classes without labelled rows are allowed, except for averages over
            classes.
        probabilities_unlabelled: Predicted probabilities of the unlabelled rows, (n_u, classes).
            If None or empty, the result uses the labelled rows alone.
        positive: The class of a rate of one class; with two classes, class 1 by default. The AUC of
            more classes is by default the mean of the one-versus-rest AUCs.
        threshold: For ``"tpr"`` and ``"fpr"``: the probability from which a row counts as positive.
        clip: The largest cross-entropy of a row, by default −log 0.01 ≈ 4.6. With ``math.inf`` the
            estimate is of the uncapped mean, for which there is a lower bound only: no upper bound
            is valid, because rows with a huge loss may be rarer than one in m.
        propensity: The probability with which each labelled row was chosen for labelling, (m,), if
            not all were equal. Only ratios matter. All rows together are then the population.
        strata: The stratum of each labelled row, (m,), if fixed numbers of rows were labelled in
            each; with ``strata_unlabelled``, or with ``propensity`` if strata are classes.
        strata_unlabelled: The strata of the unlabelled rows, (n_u,).
        groups: The group of each labelled row, (m,), if rows belong together, such as those of one
            patient: text or numbers. Intervals are then for independent groups of dependent rows
            (:mod:`dessl.evaluation.debiased.groups`). A group must lie within one stratum.
        groups_unlabelled: The groups of the unlabelled rows, (n_u,).
        check_shift: Whether to test that unlabelled rows look like labelled ones, and to warn
            (:class:`ShiftWarning`) if the p-value is below 0.01.
        confidence: Nominal coverage, in (0, 1).
        alternative: ``"two-sided"``; ``"larger"``: lower bound only, to show that the metric
            exceeds some value; ``"smaller"``: upper bound only.
        method: ``"score"``: bounds that stay valid for models that are nearly always right and for
            skewed losses; without unlabelled rows, Wilson's interval with a small correction for
            skewness. The two tails are unequal if one of the bounds cannot miss. For the Brier
            score and the cross-entropy, L may follow H along a curve.
            ``"leverage_t"``: Student's t on leverage-corrected residuals.
            ``"cross_fit"``: Student's t, each row's λ from the other four fifths of the rows.
            ``"bootstrap"``: studentised bootstrap.
            The last three use the ``"score"`` bounds if all labelled rows have the same loss,
            because their variance estimate is then zero.
        draws: Number of bootstrap samples.
        generator: Source of the bootstrap samples; seeded with 0 by default.

    >>> sure, unsure = [[0.9, 0.1]] * 45, [[0.6, 0.4]] * 15
    >>> y = [0] * 45 + [0, 0, 1] * 5
    >>> estimate = estimate_metric("accuracy", sure + unsure, y, (sure + unsure) * 20)
    >>> print(f"{estimate.value:.3f} in [{estimate.low:.3f}, {estimate.high:.3f}]")
    0.917 in [0.840, 0.958]
    >>> print(f"[{estimate.labelled_only.low:.3f}, {estimate.labelled_only.high:.3f}]")
    [0.826, 0.963]
    """
    confidence = checked_confidence(confidence)
    _checks.one_of("alternative", alternative, ALTERNATIVES)
    _checks.one_of("method", method, METHODS)
    _checks.whole_number("draws", draws, low=99)
    unlabelled = () if probabilities_unlabelled is None else (probabilities_unlabelled,)
    request = MetricRequest(metric, positive, threshold, checked_clip(metric, clip))
    how = HowLabelled(propensity, strata, strata_unlabelled, groups, groups_unlabelled)
    sample, kind, design = prepared(request, (probabilities_labelled,), y, unlabelled, how)
    if design is not None and method == "cross_fit":
        raise ValueError(
            "method='cross_fit' takes no propensity, strata or groups. Use method='score'."
        )
    if design is not None and metric not in RATES:
        values, labels = (one.cpu() for one in checked_pair(probabilities_labelled, y))
        warn_of_unseen_errors(design, values.argmax(1) == labels)
    shift = checked_shift(sample, design, check_shift)
    source = torch.Generator().manual_seed(0) if generator is None else generator
    tail = tail_of(confidence, alternative)
    fit, alone = _fits(sample, kind, design, method)
    bounds = bounds_of(fit, sample, kind, tail, method, draws, source)
    alone_bounds = bounds_of(alone, sample.alone, kind, tail, method, draws, source)
    beyond = 0.0
    if request.uncapped:
        beyond = beyond_cap(probabilities_labelled, y, design)
        bounds, alone_bounds = (Bounds(one.low, math.inf) for one in (bounds, alone_bounds))
    return MetricEstimate(
        min(kind.high, max(kind.low, fit.value)) + beyond,
        *bounds,
        LabelledOnly(alone.value + beyond, *alone_bounds),
        fit.lam,
        fit.bend,
        fit.correlation,
        len(sample.loss),
        len(sample.unlabelled.h),
        metric,
        confidence,
        alternative,
        method,
        request.clip if metric == "cross_entropy" else None,
        fit.independent,
        shift.p_value,
        None if design is None or design.groups is None else design.groups.labelled,
    )


def _fits(sample: Sample, metric: Metric, design: Design | None, method: Method) -> tuple[Fit, Fit]:
    """The debiased fit, and that of the labelled rows alone."""
    if design is None:
        return chosen_fit(sample, metric, method), fitted(sample.alone)
    fit, alone = best_design(sample, design), designed(sample.alone, design)
    auc_of_groups = design.groups is not None and metric.logit
    if auc_of_groups and rows_of_smallest_class(fit, sample, metric) < LEAST_RANKED:
        fit = designed(sample, design, lam=0.0)  # as chosen_fit does for independent rows
    return fit, alone


def chosen_fit(sample: Sample, metric: Metric, method: Method) -> Fit:
    """The debiased fit, or the labelled rows' mean if debiasing does not reduce the variance.

    A single labelled row may determine the slope: its leverage then makes the debiased variance
    larger than that of the labelled rows alone. Cross-fitting has no such row, and stays unbiased.
    For ``"score"`` the line may be curved, if that shrinks the held-out residuals. For accuracy
    and error the line stays straight, because a few misses would determine the curve; its slope
    may exceed the limit for other metrics. An AUC with very few rows of a class does not use
    unlabelled rows: its influences, and therefore H, are too uncertain.
    """
    if method == "cross_fit":
        return cross_fitted(sample)
    counted = metric.binary and method == "score"  # its bounds use the row variance
    most = steepest(sample) if counted and not metric.smooth else LAM_RANGE[1]
    fit, alone = fitted(sample, most=most), fitted(sample, lam=0.0)

    def error(one: Fit) -> float:
        return one.standard_error(one.row_variance if counted else one.leverage_variance)

    few = metric.logit and sample.n_labels < LEAST_RANKED
    best = fit if error(fit) < error(alone) and not few else alone
    if metric.binary or method != "score":
        return best
    return min(
        best, with_curve(sample, best), key=lambda one: one.standard_error(one.left_out_variance)
    )


def bounds_of(
    fit: Fit,
    sample: Sample,
    metric: Metric,
    tail: Tail,
    method: Method,
    draws: int,
    generator: torch.Generator,
) -> Bounds:
    """Bounds by the chosen method, clipped to the metric's range."""
    if method == "score" or _all_equal(sample.loss):
        bounds = score_bounds(fit, sample, metric, tail)
    elif method == "bootstrap":
        bounds = bootstrap_bounds(fit, tail, draws, generator)
    else:
        bounds = student_bounds(fit, fit.leverage_variance, tail)
    return within(bounds, tail, metric.low, metric.high)


def _all_equal(loss: Tensor) -> bool:
    """Whether all labelled rows have the same loss, up to rounding of sums over classes."""
    return float(loss.max() - loss.min()) <= ROUNDING * max(1.0, float(loss.max()))


def beyond_cap(probabilities: ArrayLike, y: ArrayLike, design: Design | None) -> float:
    """The mean of the labelled rows' loss above the default cap."""
    values, labels = (one.cpu() for one in checked_pair(probabilities, y))
    excess = (-torch.log(true_class(values, labels)) - CLIP).clamp(min=0)
    return float(excess.mean() if design is None else design.weights @ excess)
