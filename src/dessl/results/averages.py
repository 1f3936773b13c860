"""Average: the mean of a metric over runs, with its 95 % t-interval."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dessl.evaluation import mean_interval
from dessl.results.record import Record


@dataclass(frozen=True)
class Average:
    """A mean over n runs.

    Attributes:
        mean: NaN if there was nothing to average.
        half_width: Half-width of the 95 % t-interval; None with fewer than two finite values.
        n: Number of runs.
    """

    mean: float
    half_width: float | None
    n: int

    @property
    def low(self) -> float:
        """The interval's lower end; NaN if there is no interval."""
        return math.nan if self.half_width is None else self.mean - self.half_width

    @property
    def high(self) -> float:
        """The interval's upper end; NaN if there is no interval."""
        return math.nan if self.half_width is None else self.mean + self.half_width


def average(values: Sequence[float]) -> Average:
    """The average of values, which may be infinite; NaNs are skipped.

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


def number(value: Any) -> float:
    """A number as records write it: null is NaN, "Infinity" is ∞.

    >>> number(0.5), number(None), number("Infinity")
    (0.5, nan, inf)
    """
    return math.nan if value is None else float(value)


def values_of(records: Iterable[Record], metric: str) -> list[float]:
    """A metric of each record; NaN if missing."""
    return [number(record.metrics.get(metric)) for record in records]


def over_steps(
    records: Iterable[Record], value: Callable[[dict[str, Any]], float | None]
) -> list[tuple[float, float]]:
    """The mean over runs of a value at each evaluation, for steps that all runs reached.

    Args:
        records: Records of one method.
        value: Returns the value of an event's entries, or None if they have none.
    """
    records = list(records)
    found: defaultdict[int, list[float]] = defaultdict(list)
    for record in records:
        for event in record.history:
            found[int(event["step"])].append(number(value(event)))
    whole = {step: values for step, values in found.items() if len(values) == len(records)}
    return [(float(step), sum(values) / len(values)) for step, values in sorted(whole.items())]
