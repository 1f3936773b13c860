"""The vocabulary of metrics: the name, unit, range and direction of each.

Training, tables, the terminal, reports and figures all read ``METRICS``. To add a metric
everywhere, compute it in ``Metrics`` and add one entry here.
"""

import math
from dataclasses import dataclass

NONE = "–"  # shown for a missing number
MOST_DIGITS = 12  # decimals of an interval
NOTHING = 1e-9  # an interval within is shown as zero
ROUNDING = 1e-6  # smaller differences of float32 losses are rounding errors


@dataclass(frozen=True)
class Metric:
    """How one metric is named and shown.

    Attributes:
        words: Its name in a sentence.
        heading: Its name as a row, column or axis label.
        percent: Whether it is a share, shown in percent.
        higher_is_better: Whether higher values are better.
    """

    words: str
    heading: str
    percent: bool
    higher_is_better: bool

    @property
    def unit(self) -> float:
        """The factor for display."""
        return 100.0 if self.percent else 1.0

    @property
    def highest(self) -> float:
        """The largest possible value; the smallest is 0."""
        return 1.0 if self.percent else math.inf

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and largest possible value, in the unit shown."""
        return 0.0, self.unit * self.highest

    @property
    def decimals(self) -> int:
        """Decimals shown."""
        return 1 if self.percent else 3


def _share(words: str, heading: str | None = None, *, higher: bool = True) -> Metric:
    return Metric(words, heading or words, True, higher)


def _loss(words: str) -> Metric:
    return Metric(words, words, False, False)


METRICS: dict[str, Metric] = {
    "accuracy": _share("accuracy"),
    "balanced_accuracy": _share("balanced accuracy"),
    "worst_class_accuracy": _share("worst-class accuracy", "accuracy, worst class"),
    "macro_f1": _share("macro F1"),
    "auc": _share("AUC"),
    "cross_entropy": _loss("cross-entropy"),
    "brier": _loss("Brier score"),
    "ece": _share("ECE", higher=False),
    "adaptive_ece": _share("ECE, equal-mass bins", higher=False),
    "debiased_ece": _share("ECE, debiased (l2)", higher=False),
}

ESTIMATED: dict[str, Metric] = {
    "recall": _share("recall"),
    "precision": _share("precision"),
    "tpr": _share("true-positive rate"),
    "fpr": _share("false-positive rate", higher=False),
    "error": _share("error", higher=False),
    "wins": _share("wins minus losses"),
}
"""Metrics that exist only as estimates: for one class, or for two models."""

MAIN = ("accuracy", "cross_entropy", "brier", "ece")
"""The main metrics, used where there is room for only a few."""


def metric_named(name: str) -> Metric:
    """A metric's entry; an unknown metric keeps its own name and counts as a loss.

    >>> metric_named("ece").words, metric_named("my_score").words
    ('ECE', 'my score')
    """
    return METRICS.get(name) or ESTIMATED.get(name) or _loss(name.replace("_", " "))


def metric_text(name: str, of: str = "") -> str:
    """A metric as a heading, with its unit.

    Args:
        name: Name of the metric.
        of: Words after the name, such as its class.

    >>> metric_text("accuracy"), metric_text("brier"), metric_text("worst_class_accuracy")
    ('accuracy, %', 'Brier score', 'accuracy, worst class, %')
    >>> metric_text("recall", " of 'ill'")
    "recall of 'ill', %"
    """
    metric = metric_named(name)
    return f"{metric.heading}{of}, %" if metric.percent else f"{metric.heading}{of}"


def higher_is_better(name: str) -> bool:
    """Whether higher is better; an unknown metric counts as a loss."""
    return metric_named(name).higher_is_better


def written(name: str, value: float, *, signed: bool = False, decimals: int | None = None) -> str:
    """A metric's value in its unit, as every table shows it.

    Args:
        name: Name of the metric.
        value: Value as measured: shares are between 0 and 1.
        signed: Whether to show a plus sign, for a difference.
        decimals: Number of decimals of shares, if not the default.

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
    metric = metric_named(name)
    digits = decimals if decimals is not None and metric.percent else metric.decimals
    return _rounded(metric.unit * value, digits, signed=signed)


def _rounded(number: float, digits: int, *, signed: bool) -> str:
    text = f"{number:+.{digits}f}"
    if float(text) == 0:  # a difference that rounds to zero has no sign
        text = text.lstrip("+-")
    return (text if signed else text.removeprefix("+")).replace("-", "−")


def interval_digits(name: str, low: float, high: float, *marks: float) -> int:
    """The decimals that an interval needs, in the unit that the metric is shown in.

    Two digits of the interval's width, and more if needed to show on which side of a mark, such as
    zero, an end lies.

    Args:
        name: Name of the metric.
        low: Lower end of the interval, as measured.
        high: Upper end of the interval, as measured.
        marks: Numbers that the ends must not be rounded to.

    >>> interval_digits("accuracy", 0.638, 0.849), interval_digits("brier", 0.0001, 0.002, 0.0)
    (0, 4)
    """
    unit = metric_named(name).unit
    ends = [unit * end for end in (low, high) if math.isfinite(end)]
    if len(ends) == 2 and max(map(abs, ends)) < NOTHING:
        return 3
    width = max(ends) - min(ends) if len(ends) == 2 else 0.0
    widest = width or max((abs(end) for end in ends), default=0.0)
    digits = 0
    if widest > 0:
        digits = min(max(0, 1 - math.floor(math.log10(widest))), MOST_DIGITS)
    while digits < MOST_DIGITS and any(
        end != unit * mark and round(end, digits) == round(unit * mark, digits)
        for end in ends
        for mark in marks
    ):
        digits += 1
    return digits


def interval_text(
    name: str, low: float, high: float, *marks: float, signed: bool = False
) -> tuple[str, str]:
    """Both ends of an interval in the metric's unit, with the decimals that it needs.

    >>> " to ".join(interval_text("brier", 0.0001, 0.0023, 0.0, signed=True))
    '+0.0001 to +0.0023'
    >>> " to ".join(interval_text("accuracy", 0.772, 1.0))
    '77 to 100'
    """
    digits = interval_digits(name, low, high, *marks)
    one, other = (digits_text(name, end, digits, signed=signed) for end in (low, high))
    return one, other


def digits_text(name: str, value: float, digits: int, *, signed: bool = False) -> str:
    """A metric's value in its unit with a given number of decimals, such as its interval's."""
    if not math.isfinite(value):
        return written(name, value)
    return _rounded(metric_named(name).unit * value, digits, signed=signed)


def with_error(name: str, value: float, error: float) -> str:
    """A difference and its standard error, with two digits of the error.

    >>> with_error("cross_entropy", -0.00042, 0.00021), with_error("cross_entropy", 2e-9, 1e-9)
    ('−0.00042 ± 0.00021', '0.000 ± 0.000')
    """
    if abs(value) < ROUNDING and error < ROUNDING:
        value, error, digits = 0.0, 0.0, 3
    else:
        digits = interval_digits(name, 0.0, error or abs(value))
    shown = digits_text(name, value, digits, signed=True)
    return f"{shown} ± {digits_text(name, error, digits)}"


def amount(name: str, value: float, *, signed: bool = False, decimals: int | None = None) -> str:
    """The size of a difference in a sentence; differences of shares are in points.

    >>> amount("accuracy", 0.0252, signed=True), amount("cross_entropy", 0.1)
    ('+2.5 points', '0.100')
    """
    text = written(name, value, signed=signed, decimals=decimals)
    return f"{text} points" if metric_named(name).percent and text != NONE else text
