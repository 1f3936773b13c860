"""A metric from few labelled and many unlabelled rows, with a confidence interval.

    mean_L L + λ ( mean_U H − mean_L H )

is unbiased for the metric whatever the model predicts; if its expected losses H correlate with its
losses L, the interval is shorter than from the labelled rows alone. Rows must be labelled at random
and must not have been used for training.
"""

import math
import warnings
from typing import NamedTuple

import torch
from torch import Tensor

from dessl import _checks
from dessl._checks import ArrayLike
from dessl.evaluation.debiased.fit import LAM_RANGE, Fit, bent, cross_fitted, fitted, steepest
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
from dessl.evaluation.debiased.proxies import (
    Metric,
    MetricName,
    Sample,
    checked_metric,
    sampled,
)
from dessl.evaluation.debiased.score import score_bounds

METHODS = ("score", "leverage_t", "cross_fit", "bootstrap")
ALTERNATIVES = ("two-sided", "larger", "smaller")
ROUNDING = 1e-12
FEW_LABELS = 200  # with fewer, the sample may miss the tail of an unbounded loss


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
        n_labelled: m.
        n_unlabelled: n_u.
        metric: Its name.
        confidence: Nominal coverage.
        alternative: Which bounds were requested.
        method: How the interval was computed.
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


def estimate_metric(
    metric: MetricName,
    probabilities_labelled: ArrayLike,
    y: ArrayLike,
    probabilities_unlabelled: "ArrayLike | None" = None,
    *,
    confidence: float = 0.95,
    alternative: Alternative = "two-sided",
    method: Method = "score",
    draws: int = 999,
    generator: torch.Generator | None = None,
) -> MetricEstimate:
    """Estimate a metric of a classifier, with a confidence interval.

    Args:
        metric: ``"accuracy"``, ``"error"``, ``"brier"`` (the multiclass sum, 0 to 2) or
            ``"cross_entropy"``, which is unbounded: with few labels no interval for it is
            reliable, and a warning says so.
        probabilities_labelled: Predicted probabilities of the labelled rows, (m, classes), m ≥ 3.
        y: Their labels, (m,). Classes without labelled rows are allowed.
        probabilities_unlabelled: Predicted probabilities of the unlabelled rows, (n_u, classes).
            If None or empty, the result uses the labelled rows alone.
        confidence: Nominal coverage, in (0, 1).
        alternative: ``"two-sided"``; ``"larger"``: lower bound only, to show that the metric
            exceeds some value; ``"smaller"``: upper bound only.
        method: ``"score"``: bounds that stay valid for models that are nearly always right and for
            skewed losses; without unlabelled rows, Wilson's interval with a small correction for
            skewness. The two tails are unequal if one of the bounds cannot miss. For metrics other
            than accuracy and error, L may follow H along a curve.
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
    kind = checked_metric(metric)
    confidence = checked_confidence(confidence)
    _checks.one_of("alternative", alternative, ALTERNATIVES)
    _checks.one_of("method", method, METHODS)
    _checks.whole_number("draws", draws, low=99)
    unlabelled = () if probabilities_unlabelled is None else (probabilities_unlabelled,)
    sample = sampled(kind, (probabilities_labelled,), y, unlabelled)
    warn_of_few_labels(kind, len(sample.loss))
    source = torch.Generator().manual_seed(0) if generator is None else generator
    tail = tail_of(confidence, alternative)
    fit, alone = chosen_fit(sample, kind, method), fitted(sample.alone)
    bounds = bounds_of(fit, sample, kind, tail, method, draws, source)
    alone_bounds = bounds_of(alone, sample.alone, kind, tail, method, draws, source)
    return MetricEstimate(
        min(kind.high, max(kind.low, fit.value)),
        *bounds,
        LabelledOnly(alone.value, *alone_bounds),
        fit.lam,
        fit.bend,
        fit.correlation,
        len(sample.loss),
        len(sample.unlabelled.h),
        metric,
        confidence,
        alternative,
        method,
    )


def chosen_fit(sample: Sample, metric: Metric, method: Method) -> Fit:
    """The debiased fit, or the labelled rows' mean if debiasing does not reduce the variance.

    A single labelled row may determine the slope: its leverage then makes the debiased variance
    larger than that of the labelled rows alone. Cross-fitting has no such row, and stays unbiased.
    For ``"score"`` the line may be curved, if that shrinks the held-out residuals. For accuracy
    and error the line stays straight, because a few misses would determine the curve; its slope
    may exceed the limit for other metrics.
    """
    if method == "cross_fit":
        return cross_fitted(sample)
    counted = metric.binary and method == "score"  # its bounds use the row variance
    most = steepest(sample) if counted else LAM_RANGE[1]
    fit, alone = fitted(sample, most=most), fitted(sample, lam=0.0)

    def error(one: Fit) -> float:
        return one.standard_error(one.row_variance if counted else one.leverage_variance)

    best = fit if error(fit) < error(alone) else alone
    if metric.binary or method != "score":
        return best
    return min(best, bent(sample, best), key=lambda one: one.standard_error(one.left_out_variance))


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
    if method == "score" or _alike(sample.loss):
        bounds = score_bounds(fit, sample, metric, tail)
    elif method == "bootstrap":
        bounds = bootstrap_bounds(fit, tail, draws, generator)
    else:
        bounds = student_bounds(fit, fit.leverage_variance, tail)
    return within(bounds, tail, metric.low, metric.high)


def _alike(loss: Tensor) -> bool:
    """Whether all labelled rows have the same loss, up to rounding of sums over classes."""
    return float(loss.max() - loss.min()) <= ROUNDING * max(1.0, float(loss.max()))


def warn_of_few_labels(metric: Metric, labels: int) -> None:
    """Warn if the sample may miss the tail of an unbounded loss."""
    if metric.high == math.inf and labels < FEW_LABELS:
        warnings.warn(
            f"cross_entropy has no upper bound, and {labels} labelled rows may not include its "
            f"rare large values: with fewer than {FEW_LABELS} the interval can be too short. "
            "'brier' is bounded.",
            stacklevel=3,
        )


def checked_confidence(confidence: float) -> float:
    """Check that confidence is in (0, 1); passing 95 for 0.95 is the usual mistake."""
    if isinstance(confidence, int | float) and confidence > 1:
        raise ValueError(f"confidence must lie in (0, 1); got {confidence}. Write 0.95 for 95 %.")
    return _checks.number(
        "confidence", confidence, low=0.0, high=1.0, open_low=True, open_high=True
    )
