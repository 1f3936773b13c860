"""How a metric is named and written: shares in per cent, losses as they are."""

import math
from dataclasses import dataclass

from dessl.training.plan import HIGHER_IS_BETTER

NONE = "–"  # a number that there is not


@dataclass(frozen=True)
class Measure:
    """One metric's name in words, and whether it is a share of one."""

    text: str
    percent: bool


MEASURES: dict[str, Measure] = {
    "accuracy": Measure("accuracy", percent=True),
    "balanced_accuracy": Measure("balanced accuracy", percent=True),
    "worst_class_accuracy": Measure("accuracy, worst class", percent=True),
    "macro_f1": Measure("macro F1", percent=True),
    "auc": Measure("AUC", percent=True),
    "cross_entropy": Measure("cross-entropy", percent=False),
    "brier": Measure("Brier score", percent=False),
    "ece": Measure("calibration error (ECE)", percent=True),
    "adaptive_ece": Measure("ECE, equal-mass bins", percent=True),
    "debiased_ece": Measure("ECE, debiased (l2)", percent=True),
}


def metric_text(metric: str) -> str:
    """A metric in words, with its unit; one that is not known goes by its own name.

    >>> metric_text("accuracy"), metric_text("brier"), metric_text("my_score")
    ('accuracy, %', 'Brier score', 'my score')
    """
    measure = measure_of(metric)
    return f"{measure.text}, %" if measure.percent else measure.text


def measure_of(metric: str) -> Measure:
    """A metric's measure."""
    return MEASURES.get(metric, Measure(metric.replace("_", " "), percent=False))


def shown_range(metric: str) -> tuple[float, float]:
    """What a metric can be, in the unit in which it is shown."""
    return (0.0, 100.0) if measure_of(metric).percent else (0.0, math.inf)


def higher_is_better(metric: str) -> bool:
    """Whether more of a metric is better; for one that is not known, no."""
    return HIGHER_IS_BETTER.get(metric, False)


def written(metric: str, value: float, *, signed: bool = False, decimals: int = 1) -> str:
    """A metric's value as tables show it, per cents with so many decimals.

    >>> written("accuracy", 0.9123), written("brier", -0.0123, signed=True)
    ('91.2', '−0.012')
    >>> written("brier", -0.0001), written("accuracy", 0.0, signed=True)
    ('0.000', '0.0')
    >>> written("accuracy", float("nan")), written("cross_entropy", float("inf"))
    ('–', '∞')
    """
    if math.isnan(value):
        return NONE
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    percent = measure_of(metric).percent
    shown, digits = (100 * value, decimals) if percent else (value, 3)
    text = signed_text(shown, digits)
    return (text if signed else text.removeprefix("+")).replace("-", "−")


def signed_text(value: float, digits: int) -> str:
    """A number with its sign, and without one where it rounds to nothing.

    >>> signed_text(0.25, 1), signed_text(-0.25, 3), signed_text(-0.0001, 3)
    ('+0.2', '-0.250', '0.000')
    """
    text = f"{value:+.{digits}f}"
    return text.lstrip("+-") if float(text) == 0 else text
