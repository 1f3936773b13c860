"""Average: a metric's mean over splits with half of its 95 % t-interval."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dessl.evaluation import mean_interval
from dessl.results.record import Record


@dataclass(frozen=True)
class Average:
    """A mean over n splits; from one split there is no interval.

    Attributes:
        mean: NaN if there was nothing to average.
        half_width: Of the 95 % t-interval; None with fewer than two finite values.
        n: How many splits.
    """

    mean: float
    half_width: float | None
    n: int


def average(values: Sequence[float]) -> Average:
    """The average of values that may be infinite; NaN among them are left out.

    >>> found = average([0.93, 0.95, 0.94])
    >>> round(found.mean, 4), round(found.half_width, 4), found.n
    (0.94, 0.0248, 3)
    >>> average([0.5]), average([])
    (Average(mean=0.5, half_width=None, n=1), Average(mean=nan, half_width=None, n=0))
    """
    numbers = [value for value in values if not math.isnan(value)]
    if not numbers:
        return Average(math.nan, None, 0)
    if len(numbers) < 2 or not all(map(math.isfinite, numbers)):
        return Average(sum(numbers) / len(numbers), None, len(numbers))
    interval = mean_interval(numbers)
    return Average(interval.mean, interval.half_width, interval.n)


def values_of(records: Iterable[Record], metric: str) -> list[float]:
    """A metric of each record, NaN if it has none."""
    return [number(record.metrics.get(metric)) for record in records]


def number(value: object) -> float:
    """A number as records write it: null is NaN, "Infinity" infinite.

    >>> number(0.5), number(None), number("Infinity")
    (0.5, nan, inf)
    """
    if isinstance(value, int | float | str):
        return float(value)
    return math.nan
