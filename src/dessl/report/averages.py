"""Means over the runs of a method, with their intervals where there are two runs or more."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from dessl.evaluation import mean_interval
from dessl.report.facts import RunFacts, RunResult


class Average(NamedTuple):
    """A mean and the ends of its 95 % interval; NaN where there is none."""

    mean: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the interval."""
        return (self.high - self.low) / 2


def average(values: Sequence[float]) -> Average:
    """The mean of finite values with its t-interval; NaN where one is not finite.

    >>> average([1.0]), average([])
    (Average(mean=1.0, low=nan, high=nan), Average(mean=nan, low=nan, high=nan))
    """
    if not values or not all(math.isfinite(value) for value in values):
        return Average(math.nan, math.nan, math.nan)
    if len(values) == 1:
        return Average(values[0], math.nan, math.nan)
    found = mean_interval(values)
    return Average(found.mean, found.low, found.high)


def runs_of(facts: RunFacts, method: str) -> list[RunResult]:
    """The runs of one method, by seed."""
    return sorted((run for run in facts.runs if run.method == method), key=lambda run: run.seed)


class Watched(Protocol):
    """A run with what its evaluations found."""

    @property
    def history(self) -> Sequence[dict[str, Any]]:
        """One event for each evaluation."""


def over_steps(
    runs: Iterable[Watched], value: Callable[[dict[str, Any]], float | None]
) -> list[tuple[float, float]]:
    """The mean over runs of what an evaluation found, at each step that every run came to.

    Args:
        runs: Of one method.
        value: From an event's entries to a number, or None where it has none.
    """
    runs = list(runs)
    found: defaultdict[int, list[float]] = defaultdict(list)
    for run in runs:
        for event in run.history:
            number = value(event)
            found[int(event["step"])].append(math.nan if number is None else float(number))
    whole = {step: values for step, values in found.items() if len(values) == len(runs)}
    return [(float(step), sum(values) / len(values)) for step, values in sorted(whole.items())]
