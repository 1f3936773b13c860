"""Schedules of the learning rate and λ: the share of their peak at each step.

A schedule is a few numbers and a function share(step, steps); the scheduled value at a step is its
peak times that share. A schedule can be written as a dict of its name and numbers, and read back by
:func:`schedule_from`.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast

from dessl import _checks


class Schedule(Protocol):
    """A share of a peak at each step of a run."""

    def __call__(self, step: int, steps: int) -> float:
        """Return the share at a step (the first is 0) of a run of ``steps`` steps."""


ScheduleLike: TypeAlias = Schedule | str | Mapping[str, Any]
"""A schedule, its name, or a dict of its name and numbers."""


@dataclass(frozen=True)
class Constant:
    """Always 1.

    >>> Constant()(5, 10)
    1.0
    """

    def __call__(self, step: int, steps: int) -> float:  # noqa: ARG002 (a Schedule)
        """Return 1."""
        return 1.0


CONSTANT = Constant()


@dataclass(frozen=True)
class Cosine:
    """(1 + cos(πk/K)) / 2: from 1 to 0.

    >>> Cosine()(5, 10)
    0.5
    """

    def __call__(self, step: int, steps: int) -> float:
        """Return the share at step k of K."""
        return (1 + math.cos(math.pi * step / steps)) / 2


@dataclass(frozen=True)
class FixMatchCosine:
    """FixMatch's cos(7πk/16K): from 1 to 0.195, never 0.

    >>> round(FixMatchCosine()(10, 10), 4)
    0.1951
    """

    def __call__(self, step: int, steps: int) -> float:
        """Return the share at step k of K."""
        return math.cos(7 * math.pi * step / (16 * steps))


@dataclass(frozen=True)
class Linear:
    """1 − (1 − end) k/K: linearly down to ``end``.

    >>> Linear(end=0.5)(5, 10)
    0.75
    """

    end: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "end", _checks.number("end", self.end, low=0, high=1))

    def __call__(self, step: int, steps: int) -> float:
        """Return the share at step k of K."""
        return 1 - (1 - self.end) * step / steps


@dataclass(frozen=True)
class Steps:
    """Multiplies by ``factor`` at each entry of ``at`` (shares of the run).

    >>> steps = Steps(at=(0.5, 0.8), factor=0.1)
    >>> [round(steps(k, 10), 3) for k in (0, 5, 9)]
    [1.0, 0.1, 0.01]
    """

    at: tuple[float, ...] = (0.8,)
    factor: float = 0.2

    def __post_init__(self) -> None:
        if isinstance(self.at, int | float | str):
            raise TypeError(f"at must hold shares of the run, such as (0.5, 0.8); got {self.at!r}.")
        shares = tuple(_checks.number("at", share, low=0, high=1) for share in self.at)
        object.__setattr__(self, "at", shares)
        factor = _checks.number("factor", self.factor, low=0, open_high=True)
        object.__setattr__(self, "factor", factor)

    def __call__(self, step: int, steps: int) -> float:
        """Return the share at a step."""
        # k/K is rounded as the decimal share was; share · K may land just above a whole step.
        return self.factor ** sum(step / steps >= share for share in self.at)


@dataclass(frozen=True)
class WarmUp:
    """(k + 1)/warm_up for the first ``warm_up`` steps, then another schedule for the rest.

    >>> warm = WarmUp(4, then=Cosine())
    >>> [warm(k, 12) for k in (0, 3, 4, 8)]
    [0.25, 1.0, 1.0, 0.5]
    """

    warm_up: int
    then: ScheduleLike = CONSTANT

    def __post_init__(self) -> None:
        warm_up = _checks.whole_number("warm_up", self.warm_up, low=1)
        object.__setattr__(self, "warm_up", warm_up)
        object.__setattr__(self, "then", schedule_from(self.then))

    def __call__(self, step: int, steps: int) -> float:
        """Return the share at a step."""
        if step < self.warm_up:
            return (step + 1) / self.warm_up
        return schedule_from(self.then)(step - self.warm_up, max(1, steps - self.warm_up))


@dataclass(frozen=True)
class Ramp:
    """exp(−5(1 − x)²), x = k/(until·K) up to 1: how λ rises in Laine & Aila (2017).

    Args:
        until: Share of the run after which it stays at 1.

    >>> [round(Ramp(until=0.5)(k, 10), 4) for k in (0, 5, 10)]
    [0.0067, 1.0, 1.0]
    """

    until: float = 0.4

    def __post_init__(self) -> None:
        until = _checks.number("until", self.until, low=0, high=1, open_low=True)
        object.__setattr__(self, "until", until)

    def __call__(self, step: int, steps: int) -> float:
        """Return the share at a step."""
        return math.exp(-5 * (1 - min(1.0, step / (self.until * steps))) ** 2)


@dataclass(frozen=True)
class LinearRamp:
    """k/(until·K) up to 1.

    >>> [LinearRamp(until=0.5)(k, 20) for k in (0, 5, 15)]
    [0.0, 0.5, 1.0]
    """

    until: float = 0.4

    def __post_init__(self) -> None:
        until = _checks.number("until", self.until, low=0, high=1, open_low=True)
        object.__setattr__(self, "until", until)

    def __call__(self, step: int, steps: int) -> float:
        """Return the share at a step."""
        return min(1.0, step / (self.until * steps))


SCHEDULES: dict[str, type[Any]] = {
    "constant": Constant,
    "cosine": Cosine,
    "fixmatch_cosine": FixMatchCosine,
    "linear": Linear,
    "steps": Steps,
    "warm_up": WarmUp,
    "ramp": Ramp,
    "linear_ramp": LinearRamp,
}


def schedule_from(description: object) -> Schedule:
    """Return the schedule given as an object, a name, or a dict of its name and numbers.

    >>> schedule_from({"name": "warm_up", "warm_up": 10, "then": {"name": "linear", "end": 0.1}})
    WarmUp(warm_up=10, then=Linear(end=0.1))
    """
    if type(description) in SCHEDULES.values():  # a subclass would have no name to be noted by
        return cast("Schedule", description)
    if isinstance(description, str):
        description = {"name": description}
    if not isinstance(description, Mapping) or "name" not in description:
        raise TypeError(
            f"a schedule must be one of dessl.schedules, a name ({', '.join(SCHEDULES)}) or a dict "
            f"with a name and numbers; got {description!r}."
        )
    _checks.one_of("the name of a schedule", description["name"], tuple(SCHEDULES))
    kind = SCHEDULES[description["name"]]
    numbers = {key: value for key, value in description.items() if key != "name"}
    known = [field.name for field in dataclasses.fields(kind)]
    if unknown := sorted(set(numbers) - set(known)):
        raise ValueError(
            f"the schedule {description['name']!r} takes {', '.join(known) or 'no numbers'}; "
            f"got {', '.join(unknown)}."
        )
    if kind is WarmUp and "warm_up" not in numbers:
        raise ValueError(
            "the schedule 'warm_up' needs its number of steps, such as "
            "{'name': 'warm_up', 'warm_up': 100}."
        )
    made: Schedule = kind(**numbers)
    return made


def schedule_dict(schedule: ScheduleLike) -> dict[str, Any]:
    """Return a schedule as a JSON-ready dict of its name and numbers.

    >>> schedule_dict(WarmUp(10, Linear()))
    {'name': 'warm_up', 'warm_up': 10, 'then': {'name': 'linear', 'end': 0.0}}
    """
    schedule = schedule_from(schedule)
    name = next(name for name, kind in SCHEDULES.items() if type(schedule) is kind)
    described: dict[str, Any] = {"name": name}
    for field in dataclasses.fields(SCHEDULES[name]):
        value = getattr(schedule, field.name)
        if field.name == "then":
            value = schedule_dict(value)
        described[field.name] = list(value) if isinstance(value, tuple) else value
    return described
