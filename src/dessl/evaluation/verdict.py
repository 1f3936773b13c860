"""Verdict: the outcome of a comparison with the complete case, as a category and a sentence.

With the 95 % interval of the difference, turned so that above 0 is better, and a margin m,

    −m        0        m
     |    [---|---]    |            no practical difference: the interval lies within the margin
     |        | [------|---]        better: it lies above 0
    [|------] |        |            worse: it lies below 0
     |   [----|--------|--]         cannot tell yet: none of the above

and "not used" if the user gets the complete case itself. An interval that lies within the margin
and excludes 0 shows a difference too small to matter: no practical difference. A comparison with a
baseline that learnt nothing has no verdict.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dessl import _checks
from dessl._entries import Measured
from dessl._html import GREEN, GREY, RED, card
from dessl.evaluation.metrics.vocabulary import (
    digits_text,
    higher_is_better,
    interval_digits,
    metric_named,
)

Outcome = Literal[
    "better", "no practical difference", "not used", "worse", "cannot tell yet", "no verdict"
]
OUTCOMES: dict[Outcome, str] = {
    "better": "Better than the complete case",
    "no practical difference": "No practical difference from the complete case",
    "not used": "Unlabelled data was not used: this model is the complete case",
    "worse": "Worse than the complete case",
    "cannot tell yet": "Cannot tell yet",
    "no verdict": "No verdict",
}
"""The outcomes in words, for headings and the start of a sentence."""

CONFIDENCE = 0.95  # of intervals
MARGIN = 0.01  # one point of accuracy; 0.01 of a Brier score or cross-entropy
POWER = 0.8  # probability that the number of labels given settles the question
MOST_NEEDED = 10_000_000
MANY = 100  # above this multiple of the labels at hand, it is not worth settling
STEP = 1.02  # ratio between successive numbers of labels tried

OVER_SEEDS = "paired t-test over seeds"
OVER_ROWS = "debiased, paired over rows"
OVER_GROUPS = "debiased, paired over rows, groups as units"
OVER_LABELS = "paired over labels held out in training"


@dataclass(frozen=True)
class Comparison:
    """The difference of a metric between two methods.

    Attributes:
        metric: Name of the metric; for a loss, a negative difference favours ``method``.
        method: Name of the method.
        against: Name of the method it is compared with.
        difference: Estimated difference; NaN if a value is missing or infinite.
        low: Lower end of the interval; this and the next fields are NaN without an interval.
        high: Upper end of the interval.
        p_value: Two-sided p-value of no difference.
        confidence: Confidence level of the interval.
        test: ``OVER_SEEDS``, ``OVER_ROWS``, ``OVER_GROUPS`` or ``OVER_LABELS``.
        n: Number of seeds, or of labelled rows.
        lam: λ of ``method``, if it matters.
        p_better: One-sided p-value for ``method`` being better.
        p_worse: One-sided p-value for ``method`` being worse.
        p_wilcoxon: Two-sided p-value of Wilcoxon's signed-rank test.
        n_groups: Number of groups with labelled rows; None if each row is its own.
    """

    metric: str
    method: str
    against: str
    difference: Measured
    low: Measured
    high: Measured
    p_value: Measured
    confidence: float
    test: str
    n: int
    lam: Measured = math.nan
    p_better: Measured = math.nan
    p_worse: Measured = math.nan
    p_wilcoxon: Measured = math.nan
    n_groups: int | None = None

    @property
    def units(self) -> int:
        """How many independent labels (or seeds) there are: rows of one group count once."""
        return self.n_groups or self.n

    @property
    def clear(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low > 0 or self.high < 0

    @property
    def better(self) -> bool:
        """Whether the difference favours ``method``."""
        return (self.difference > 0) == higher_is_better(self.metric)

    def outcome(self, margin: float = MARGIN) -> Outcome:
        """The outcome that the interval supports.

        Args:
            margin: Smallest difference that matters, in the metric's own scale: 0.01 is one point
                of accuracy. With 0, every difference matters.

        >>> one = Comparison("brier", "a", "b", -0.02, -0.03, -0.005, 0.01, 0.95, OVER_ROWS, 50)
        >>> one.outcome(), one.outcome(margin=0.05)
        ('better', 'no practical difference')
        """
        _checks.number("margin", margin, low=0, open_high=True)
        if max(-self.low, self.high) <= margin:
            return "no practical difference"
        if not self.clear:
            return "cannot tell yet"
        return "better" if self.better else "worse"

    def needed(self, margin: float = MARGIN) -> int | None:
        """How many more :attr:`units` would settle the question; None if that is unknown.

        With n' of them the standard error is √(n / n') times that observed. The number returned is
        the least for which the interval of a difference D ~ Normal(observed, error²) excludes zero
        or lies within the margin with probability 0.8, rounded up to two digits. If labels have
        groups, it is a number of groups: more labels of the same groups would not do.

        Args:
            margin: Same as in :meth:`outcome`.

        >>> one = Comparison("brier", "a", "b", -0.02, -0.06, 0.02, 0.3, 0.95, OVER_ROWS, 50)
        >>> one.needed()
        350
        """
        from scipy import special

        known = self.units
        if known < 2 or not 0 < self.high - self.low < math.inf:
            return None
        level = (1 + self.confidence) / 2
        error = (self.high - self.low) / 2 / float(special.stdtrit(known - 1, level))
        steps = math.ceil(math.log(MOST_NEEDED / known, STEP)) if known < MOST_NEEDED else 0
        n = np.unique(np.ceil(known * STEP ** np.arange(1, steps + 1)))
        enough = n[decided(self.difference, error * np.sqrt(known / n), n, margin, level) >= POWER]
        return _rounded_up(int(enough[0]) - known) if len(enough) else None

    def change(self, *marks: float) -> str:
        """The change, its interval and its p-value, in words.

        Args:
            marks: Numbers besides zero that rounding must keep apart from the interval's ends.
        """
        metric, marks = self.metric, (0.0, *marks)
        digits = interval_digits(metric, self.low, self.high, *marks)
        low, high, estimate = (
            digits_text(metric, value, digits, signed=True)
            for value in (self.low, self.high, self.difference)
        )
        points = " points" if metric_named(metric).percent else ""
        direction = "higher" if higher_is_better(metric) else "lower"
        units = {OVER_SEEDS: "seeds", OVER_LABELS: "labels held out in training"}
        about = "approximate " if self.test == OVER_LABELS else ""
        words = metric_named(metric).words
        words = f"the {words}" if words[0].isupper() else words
        kinds = ("pool", "student", "student with answers")
        method = f"the {self.method}" if self.method in kinds else self.method
        return (
            f"{method} changed {words} by {estimate}{points} "
            f"({about}{100 * self.confidence:g} % interval {low} to {high}, "
            f"{shown_p(self.p_value)}, "
            f"{self.n} {units.get(self.test, 'held-out labels')}{of_groups(self.n_groups)}; "
            f"{direction} is better)"
        )


@dataclass(frozen=True)
class Verdict:
    """How the model compares with the complete case.

    Attributes:
        outcome: One of the five outcomes, or "no verdict".
        sentence: The outcome in words, with its interval.
        margin: Smallest difference that matters; None if nothing was compared.
        needed: About how many more labels would settle the question; None if it is settled, or if
            no number would settle it.
        needed_groups: Of how many new groups these labels must be; None if rows have no groups.
    """

    outcome: Outcome
    sentence: str
    margin: float | None = None
    needed: int | None = None
    needed_groups: int | None = None

    def _repr_html_(self) -> str:
        colour = {"better": GREEN, "worse": RED}.get(self.outcome, GREY)
        return card(OUTCOMES[self.outcome], note=self.sentence, colour=colour)


def verdict(
    comparison: Comparison,
    *,
    margin: float = MARGIN,
    share: float = 1.0,
    labelled: int = 0,
    rows: int | None = None,
) -> Verdict:
    """Return the verdict of one comparison with the complete case.

    Args:
        comparison: A method, such as one that used unlabelled data, minus the complete case.
        margin: Smallest difference that matters, in the metric's own scale.
        share: Share of new labels that would be held out for evaluation.
        labelled: Number of labels so far.
        rows: Number of rows of the data, to say if it has too few; None if that does not matter.

    >>> better = Comparison("accuracy", "DePseudoLabel", "complete case", 0.02, 0.01, 0.03, 0.002,
    ...                     0.95, OVER_SEEDS, 5)
    >>> print(verdict(better).sentence)
    Better than the complete case: DePseudoLabel changed accuracy by +2.0 points (95 % interval
    +1.0 to +3.0, p = 0.002, 5 seeds; higher is better).
    """
    outcome = comparison.outcome(margin)
    found = f"{OUTCOMES[outcome]}: {comparison.change(-margin, margin)}"
    if outcome == "no practical difference":
        metric = metric_named(comparison.metric)
        points = " points" if metric.percent else ""
        within = f"within the margin of ±{metric.unit * margin:g}{points}"
        return Verdict(outcome, f"{found}, {within}.", margin)
    if outcome != "cannot tell yet":
        return Verdict(outcome, f"{found}.", margin)
    count = comparison.needed(margin)
    if count is None or count > MANY * comparison.units:
        return Verdict(outcome, f"{found}. {_undecidable(comparison)}", margin)
    labels, groups = _labels_needed(comparison, count, share)
    short = "" if rows is None else too_few_rows(labelled + labels, rows)
    sentence = f"{found}. {_request(comparison, count, share)}{short}"
    return Verdict(outcome, sentence, margin, labels, groups)


def _labels_needed(comparison: Comparison, units: int, share: float) -> tuple[int, int | None]:
    """Labels in all, and of how many groups, if these units are the share to hold out."""
    count = _rounded_up(math.ceil(units / share))
    if not comparison.n_groups:
        return count, None
    return _rounded_up(math.ceil(count * comparison.n / comparison.n_groups)), count


def _request(comparison: Comparison, units: int, share: float) -> str:
    """How many more labels would settle the question, in a sentence."""
    labels, groups = _labels_needed(comparison, units, share)
    unit = "seeds" if comparison.test == OVER_SEEDS else "labels"
    unit = f"groups (about {labels:,} labels)" if groups else unit
    some = f", {units:,} of {'the groups' if groups else 'them'} held out," if share < 1 else ""
    more = f"About {groups or labels:,} more {unit}{some} would settle it"
    return more + ("; more labels of the same groups would not." if groups else ".")


def of_groups(n_groups: int | None) -> str:
    """Say of how many groups labels are; nothing if rows have no groups.

    >>> "248 labels" + of_groups(31), of_groups(None)
    ('248 labels of 31 groups', '')
    """
    return f" of {n_groups:,} groups" if n_groups else ""


def too_few_rows(labels: int, rows: int) -> str:
    """Say that the data has fewer rows than the labels needed; "" if it has enough.

    >>> too_few_rows(1600, 260), too_few_rows(100, 260)
    (' The data has only 260 rows: collect more.', '')
    """
    return f" The data has only {rows:,} rows: collect more." if labels > rows else ""


def not_used(why: str) -> Verdict:
    """Return the verdict if the user gets the complete case itself.

    Args:
        why: The reason, as a sentence.
    """
    return Verdict("not used", f"{OUTCOMES['not used']}. {why}")


def no_verdict(failure: str, why: str) -> Verdict:
    """Return "no verdict": the baseline learnt nothing to compare with.

    Args:
        failure: What went wrong, as a clause.
        why: More of it and what to do, as a sentence.
    """
    return Verdict("no verdict", f"{OUTCOMES['no verdict']}: {failure}. {why}")


def decided(
    difference: float,
    errors: NDArray[np.float64],
    n: NDArray[np.float64],
    margin: float,
    level: float,
) -> NDArray[np.float64]:
    """Return the probability that an interval excludes zero or lies within the margin.

    Its centre is D ~ Normal(difference, error²) and its half width t error, t being the quantile at
    ``level`` with n − 1 degrees of freedom.

    >>> decided(0.03, np.array([0.01]), np.array([10_000.0]), 0.0, 0.975).round(2).tolist()
    [0.85]
    """
    from scipy import special

    half = special.stdtrit(n - 1, level) * errors

    def below(end: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(special.ndtr((end - difference) / errors), dtype=np.float64)

    clear = below(-half) + 1 - below(half)
    room = np.maximum(margin - half, 0.0)
    equal = below(room) - below(-room)
    return np.where(room >= half, 1.0, clear + equal)


def _undecidable(comparison: Comparison) -> str:
    if math.isnan(comparison.low):
        return "There is no interval: add seeds or labels."
    return (
        "No realistic number of labels would settle it with this margin: use either model, or set "
        "a larger margin."
    )


def _rounded_up(count: int) -> int:
    """Round up to two significant digits.

    >>> _rounded_up(321), _rounded_up(7)
    (330, 7)
    """
    unit = int(10 ** max(0, len(str(count)) - 2))
    return -(-count // unit) * unit


def shown_p(p_value: float) -> str:
    """Return a p-value as sentences show it.

    >>> shown_p(0.0421), shown_p(1e-9)
    ('p = 0.042', 'p < 0.001')
    """
    text = short_p(p_value)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def short_p(p_value: float) -> str:
    """Return a p-value as tables show it.

    >>> short_p(0.0421), short_p(1e-9), short_p(0.0498)
    ('0.042', '< 0.001', '0.0498')
    """
    if p_value < 0.001:
        return "< 0.001"
    near = p_value != 0.05 and round(p_value, 3) == 0.05  # show on which side it lies
    return f"{p_value:.{4 if near else 3}f}"
