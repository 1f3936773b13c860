"""Verdict: whether unlabelled data helped, in one word and one sentence with its interval."""

from dataclasses import dataclass
from typing import Literal

from dessl.evaluation.metrics.vocabulary import amount, metric_named, written
from dessl.results.comparisons import OVER_SEEDS, Comparison

Outcome = Literal["helped", "hurt", "no clear difference"]


@dataclass(frozen=True)
class Verdict:
    """Whether unlabelled data helped here."""

    outcome: Outcome
    sentence: str


def verdict(comparison: Comparison, labels: int, what: str = "Unlabelled data") -> Verdict:
    """Return the verdict of one comparison with the complete case.

    Args:
        comparison: Of a method, such as one that used unlabelled data, minus the complete case.
        labels: Labelled rows that the models were trained with.
        what: Made the difference.

    >>> better = Comparison("accuracy", "DePseudoLabel", "complete case", 0.02, 0.01, 0.03, 0.002,
    ...                     0.95, OVER_SEEDS, 5)
    >>> print(verdict(better, 100).sentence)
    Unlabelled data helped here: DePseudoLabel changed accuracy by +2.0 points against the complete
    case (95 % interval +1.0 to +3.0, p = 0.002, paired t-test over seeds, n = 5).
    """
    metric = comparison.metric
    low, high = (written(metric, end, signed=True) for end in (comparison.low, comparison.high))
    change = (
        f"{comparison.method} changed {metric_named(metric).words} by "
        f"{amount(metric, comparison.difference, signed=True)} against the {comparison.against} "
        f"({100 * comparison.confidence:g} % interval {low} to {high}, "
        f"{shown_p(comparison.p_value)}, {comparison.test}, n = {comparison.n})."
    )
    if not comparison.clear:
        count = labels if comparison.test == OVER_SEEDS else comparison.n
        return Verdict("no clear difference", f"No clear difference with {count} labels: {change}")
    if comparison.better:
        return Verdict("helped", f"{what} helped here: {change}")
    return Verdict("hurt", f"{what} hurt here: {change}")


def shown_p(p_value: float) -> str:
    """Return a p-value in a sentence.

    >>> shown_p(0.0421), shown_p(1e-9)
    ('p = 0.042', 'p < 0.001')
    """
    text = short_p(p_value)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def short_p(p_value: float) -> str:
    """Return a p-value as tables show it.

    >>> short_p(0.0421), short_p(1e-9)
    ('0.042', '< 0.001')
    """
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"
