"""Axes: where a value lies between two ends, and at which round numbers a tick stands."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True)
class Axis:
    """A straight scale from ``low`` to ``high``, with its ticks: positions and their texts."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]

    @classmethod
    def of(
        cls,
        values: Iterable[float],
        *,
        include: Iterable[float] = (),
        within: tuple[float, float] = (-math.inf, math.inf),
        about: int = 5,
    ) -> Self:
        """The axis that holds every finite value, with ends and ticks at round numbers.

        Args:
            values: What is to be shown; NaN and ∞ are not.
            include: Values that must be on it too.
            within: What values can be at all; the ends stay inside, as the values do.
            about: How many ticks.

        >>> axis = Axis.of([0.12, 0.88])
        >>> axis.low, axis.high, [text for _, text in axis.ticks]
        (0.0, 1.0, ['0', '0.2', '0.4', '0.6', '0.8', '1'])
        """
        shown = [value for value in (*values, *include) if math.isfinite(value)] or [0.0, 1.0]
        low, high = min(shown), max(shown)
        if high - low <= 1e-12 * max(abs(low), abs(high)):
            room = abs(high) / 10 or 1.0
            low, high = max(low - room, within[0]), min(high + room, within[1])
        step = round_step((high - low) / about)
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        marks = [number * step for number in range(first, last + 1)]
        marks = [mark for mark in marks if within[0] <= mark <= within[1]]
        return cls(marks[0], marks[-1], tuple((mark, tick_text(mark, step)) for mark in marks))

    @classmethod
    def of_lambdas(cls, lams: Iterable[float]) -> Self:
        """The axis of log λ with a tick at each λ that has room; λ = 0 stands left of the rest.

        >>> [text for _, text in Axis.of_lambdas([0, 0.1, 1, 10]).ticks]
        ['0', '0.1', '1', '10']
        """
        known = sorted(set(lams))
        places = [lambda_place(lam, known) for lam in known]
        room = max(0.15, 0.05 * (places[-1] - places[0]))
        low, high = places[0] - room, places[-1] + room
        ticks: list[tuple[float, str]] = []
        for lam, place in zip(known, places, strict=True):
            if not ticks or place - ticks[-1][0] > (high - low) / 8:
                ticks.append((place, f"{lam:.2g}"))
        return cls(low, high, tuple(ticks))

    @classmethod
    def of_magnitudes(cls, values: Iterable[float]) -> "tuple[Self, Callable[[float], float]]":
        """The axis for values of either sign and of very different sizes, and where each stands.

        It is straight near zero and logarithmic far from it (asinh), with ticks at powers of ten.

        >>> axis, place = Axis.of_magnitudes([-0.004, 2.0])
        >>> [text for _, text in axis.ticks], round(axis.share(place(0.0)), 2)
        (['−0.01', '0', '0.01', '0.1', '1', '10'], 0.1)
        """
        shown = [value for value in values if math.isfinite(value) and value] or [1.0]
        top = math.ceil(math.log10(max(abs(value) for value in shown)))
        least = 10.0 ** (top - 3)

        def place(value: float) -> float:
            return math.asinh(value / least)

        powers = [10.0**power for power in range(top - 3, top + 1)]
        marks = [*(-power for power in powers[::-1]), 0.0, *powers]
        low = max((mark for mark in marks if mark < min(shown)), default=marks[0])
        high = min((mark for mark in marks if mark > max(shown)), default=marks[-1])
        low, high = min(low, 0.0), max(high, 0.0)
        ticks = [(place(m), f"{m:g}".replace("-", "−")) for m in marks if low <= m <= high]
        return cls(place(low), place(high), tuple(ticks)), place

    def share(self, value: float) -> float:
        """How far along the axis a value lies: 0 at its low end, 1 at its high end."""
        return (value - self.low) / (self.high - self.low)


def lambda_place(lam: float, known: list[float]) -> float:
    """Where λ stands on an axis of log λ: its logarithm; 0 stands half a step below the others.

    >>> lambda_place(0.01, [0, 0.01, 0.1]), lambda_place(0, [0, 0.01, 0.1])
    (-2.0, -2.5)
    """
    return (
        math.log10(lam)
        if lam > 0
        else math.log10(min((x for x in known if x > 0), default=1)) - 0.5
    )


def round_step(least: float) -> float:
    """The least of 1, 2, 2.5, 5 times a power of ten that is not below a number.

    >>> round_step(0.17), round_step(3.0)
    (0.2, 5.0)
    """
    power = 10.0 ** math.floor(math.log10(least))
    return next(
        factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= least * (1 - 1e-9)
    )


def tick_text(mark: float, step: float) -> str:
    """A tick's number with the decimals that its step needs, and no more.

    >>> tick_text(0.30000000000000004, 0.1), tick_text(-2.0, 1.0), tick_text(20000.0, 5000.0)
    ('0.3', '−2', '20k')
    """
    if step >= 1000:
        mark, step, unit = mark / 1000, step / 1000, "k"
    else:
        unit = ""
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    if round(step * 10**decimals, 6) % 1:  # 2.5 needs one more than 2
        decimals += 1
    text = f"{mark:.{decimals}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return ("0" if float(text) == 0 else text.replace("-", "−")) + ("" if mark == 0 else unit)
