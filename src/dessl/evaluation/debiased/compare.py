"""Which of two models is better, from few labelled and many unlabelled rows.

The paired difference L_a − L_b of each labelled row is debiased by what the models themselves
expect of it, as one model's L is by its H. The variance is that of the residuals, with four more
rows whose labels are drawn as the models believe: two models that agree on all labelled rows are
not thereby equal.
"""

from typing import NamedTuple

from dessl import _checks
from dessl._checks import ArrayLike
from dessl.evaluation.debiased.estimate import (
    ALTERNATIVES,
    LabelledOnly,
    checked_confidence,
    warn_of_few_labels,
)
from dessl.evaluation.debiased.fit import Fit, fitted
from dessl.evaluation.debiased.intervals import (
    Alternative,
    imagined_moments,
    student_bounds,
    tail_of,
    within,
)
from dessl.evaluation.debiased.proxies import MetricName, Sample, checked_metric, sampled

IMAGINED_ROWS = 4


class ModelComparison(NamedTuple):
    """The metric of model a minus that of model b.

    Attributes:
        difference: The debiased estimate.
        low: Lower confidence bound; the least possible value for ``alternative="smaller"``.
        high: Upper confidence bound; the greatest possible value for ``alternative="larger"``.
        p_value: Of the hypothesis that the models are equal (or, one-sided, that a's metric is not
            larger, not smaller), by the same t that makes the interval.
        labelled_only: Value and interval without the unlabelled rows.
        lam: λ.
        correlation: Of L_a − L_b and its proxy over the labelled rows.
        n_labelled: m.
        n_unlabelled: n_u.
        metric: Its name; for a loss, a negative difference speaks for model a.
        confidence: Nominal coverage.
        alternative: Which bounds were asked for.
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


def compare_models(
    metric: MetricName,
    probabilities_a_labelled: ArrayLike,
    probabilities_b_labelled: ArrayLike,
    y: ArrayLike,
    probabilities_a_unlabelled: "ArrayLike | None" = None,
    probabilities_b_unlabelled: "ArrayLike | None" = None,
    *,
    confidence: float = 0.95,
    alternative: Alternative = "two-sided",
) -> ModelComparison:
    """Estimate the difference of two models' metrics on the same rows, with interval and p-value.

    The interval is Student's t. Where fewer than about five labelled rows tell the models apart it
    is as approximate as any.

    Args:
        metric: As in :func:`estimate_metric`.
        probabilities_a_labelled: Model a's probabilities of the labelled rows, (m, classes), m ≥ 3.
        probabilities_b_labelled: Model b's, of the same rows.
        y: Their labels, (m,).
        probabilities_a_unlabelled: Model a's probabilities of the unlabelled rows, (n_u, classes).
        probabilities_b_unlabelled: Model b's, of the same rows. Without any unlabelled rows this
            is a paired t-interval with four imagined rows.
        confidence: Nominal coverage, in (0, 1).
        alternative: ``"larger"``: look for evidence that a's metric is larger than b's, so only a
            lower bound; ``"smaller"``: that it is smaller; or ``"two-sided"``.

    >>> a, b = [[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]] * 10, [[0.6, 0.4]] * 30
    >>> result = compare_models("accuracy", a, b, [0, 1, 0] * 10, a * 9, b * 9)
    >>> print(f"{result.difference:.2f} in [{result.low:.2f}, {result.high:.2f}]")
    0.33 in [0.17, 0.50]
    >>> result.p_value < 0.001
    True
    """
    kind = checked_metric(metric)
    confidence = checked_confidence(confidence)
    _checks.one_of("alternative", alternative, ALTERNATIVES)
    if (probabilities_a_unlabelled is None) != (probabilities_b_unlabelled is None):
        raise ValueError("unlabelled rows need the probabilities of both models; got one model's.")
    both = (probabilities_a_unlabelled, probabilities_b_unlabelled)
    unlabelled = tuple(matrix for matrix in both if matrix is not None)
    sample = sampled(kind, (probabilities_a_labelled, probabilities_b_labelled), y, unlabelled)
    warn_of_few_labels(kind, len(sample.loss))
    tail = tail_of(confidence, alternative)
    span = kind.high - kind.low
    fit, alone = fitted(sample), fitted(sample, lam=0.0)
    bounds, alone_bounds = (
        within(student_bounds(one, row_variance(one, sample), tail), tail, -span, span)
        for one in (fit, alone)
    )
    return ModelComparison(
        min(span, max(-span, fit.value)),
        *bounds,
        _p_value(fit, sample, alternative),
        LabelledOnly(alone.value, *alone_bounds),
        fit.lam,
        fit.correlation,
        len(sample.loss),
        len(sample.unlabelled.h),
        metric,
        confidence,
        alternative,
    )


def row_variance(fit: Fit, sample: Sample) -> float:
    """V(r) with the imagined rows added to the labelled ones' sum of squares."""
    imagined, _ = imagined_moments(sample, fit.beliefs)
    return fit.row_variance + IMAGINED_ROWS * imagined / len(sample.loss)


def _p_value(fit: Fit, sample: Sample, alternative: Alternative) -> float:
    from scipy import special

    error = fit.standard_error(row_variance(fit, sample))
    if error == 0:  # the models give every row the same losses whatever its label
        return 1.0
    t = fit.value / error
    if alternative == "two-sided":
        return 2 * float(special.stdtr(fit.degrees, -abs(t)))
    return float(special.stdtr(fit.degrees, -t if alternative == "larger" else t))
