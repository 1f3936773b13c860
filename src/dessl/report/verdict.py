"""Whether unlabelled data helped, said plainly: with its interval, or that one cannot tell."""

from dessl.report.facts import Comparison, Verdict
from dessl.report.measures import signed_text
from dessl.training.plan import HIGHER_IS_BETTER

NAMES = {
    "accuracy": "accuracy",
    "cross_entropy": "cross-entropy",
    "brier": "Brier score",
    "ece": "calibration error",
}


def verdict(comparison: Comparison, labels: int) -> Verdict:
    """Return the verdict of one comparison with the complete case.

    Args:
        comparison: Of a method that used unlabelled data, minus one that did not.
        labels: Labelled rows that the models were trained with.

    >>> better = Comparison("accuracy", "DePseudoLabel", "complete case", 0.02, 0.01, 0.03, 0.002,
    ...                     0.95, "paired t-test over seeds", 5)
    >>> print(verdict(better, 100).sentence)
    Unlabelled data helped here: DePseudoLabel changed accuracy by +0.020 against the complete case
    (95 % interval +0.010 to +0.030, p = 0.002, paired t-test over seeds, n = 5).
    """
    difference, low, high = (
        signed_text(value, 3) for value in (comparison.difference, comparison.low, comparison.high)
    )
    change = (
        f"{comparison.method} changed {NAMES.get(comparison.metric, comparison.metric)} by "
        f"{difference} against the {comparison.against} "
        f"({100 * comparison.confidence:g} % interval {low} to "
        f"{high}, {shown_p(comparison.p_value)}, {comparison.test}, "
        f"n = {comparison.n})."
    )
    if not (comparison.low > 0 or comparison.high < 0):
        few = (
            f"from {labels} labels" if "seeds" in comparison.test else f"from {comparison.n} labels"
        )
        return Verdict("cannot tell", f"Cannot tell {few} whether unlabelled data helped: {change}")
    better = (comparison.difference > 0) == HIGHER_IS_BETTER[comparison.metric]
    if better:
        return Verdict("helped", f"Unlabelled data helped here: {change}")
    return Verdict("hurt", f"Unlabelled data hurt here: {change}")


def shown_p(p_value: float) -> str:
    """Return a p-value in words.

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
