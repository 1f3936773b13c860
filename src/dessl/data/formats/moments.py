"""Columns of moments, dates or times of day, as features: elapsed days, month, time of day.

A moment with a time zone is read twice: elapsed days are in UTC, and the calendar features use
local time, as written in the cell.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dessl._checks import quoted
from dessl.data.errors import DataError
from dessl.data.formats.advice import Advice
from dessl.data.formats.cells import MISSING_NUMBERS, Column, arrow_module
from dessl.data.formats.clock import DAY
from dessl.data.formats.columns import ColumnFeatures
from dessl.data.formats.tables import Table

SHARE = 0.9  # of the cells of a column of moments
Moment: TypeAlias = tuple[float, float]  # seconds since 1970, in UTC and in local time
MISSING: Moment = (math.nan, math.nan)


class Moments(NamedTuple):
    """Seconds (n,) since 1970, in UTC and in local time; NaN for a missing moment."""

    utc: NDArray[np.float64]
    wall: NDArray[np.float64]


def _year(moments: Moments) -> NDArray[Any]:
    return moments.wall.astype("M8[s]").astype("M8[Y]").astype(np.int64) + 1970.0


def _month(moments: Moments) -> NDArray[Any]:
    return moments.wall.astype("M8[s]").astype("M8[M]").astype(np.int64) % 12 + 1.0


def _turn_of_year(moments: Moments) -> NDArray[Any]:
    """The share of the year that is over, as an angle."""
    days = moments.wall.astype("M8[s]").astype("M8[D]")
    years = days.astype("M8[Y]")
    first, following = years.astype("M8[D]"), (years + np.timedelta64(1, "Y")).astype("M8[D]")
    share: NDArray[Any] = (days - first) / (following - first)
    return 2 * np.pi * share


def _weekday(moments: Moments) -> NDArray[Any]:
    """0 for Monday to 6 for Sunday; 1970 began on a Thursday."""
    return (np.floor(moments.wall / DAY) + 3) % 7


def _turn_of_day(moments: Moments) -> NDArray[Any]:
    return 2 * np.pi * (moments.wall % DAY) / DAY


Parts: TypeAlias = Mapping[str, Callable[[Moments], NDArray[Any]]]
TIME_PARTS: Parts = {
    "time of day, sine": lambda moments: np.sin(_turn_of_day(moments)),
    "time of day, cosine": lambda moments: np.cos(_turn_of_day(moments)),
}
DATE_PARTS: Parts = {
    "elapsed days": lambda moments: moments.utc / DAY,
    "year": _year,
    "month": _month,
    "day of year, sine": lambda moments: np.sin(_turn_of_year(moments)),
    "day of year, cosine": lambda moments: np.cos(_turn_of_year(moments)),
    "weekday, sine": lambda moments: np.sin(2 * np.pi * _weekday(moments) / 7),
    "weekday, cosine": lambda moments: np.cos(2 * np.pi * _weekday(moments) / 7),
    "weekend": lambda moments: (_weekday(moments) >= 5).astype(np.float64),
    **TIME_PARTS,
}


@dataclass(frozen=True)
class MomentColumn:
    """One feature for each part of a moment that varied in training.

    Attributes:
        name: Name of the column.
        median: Seconds since 1970; replaces a missing moment.
        parts: Names of parts, such as those of ``DATE_PARTS``.
        means: Mean subtracted from each part, so that float32 keeps the digits.
        indicator: Whether a last feature says that the cell was empty.
    """

    name: str
    median: float
    parts: tuple[str, ...]
    means: tuple[float, ...]
    indicator: bool

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One name for each feature the column becomes."""
        names = tuple(f"{self.name}: {part}" for part in self.parts)
        return (*names, f"{self.name} is missing") if self.indicator else names

    def features_of(self, moments: Moments, parts: Parts) -> ColumnFeatures:
        """(n, parts, and one more with an indicator) of moments (n,)."""
        missing = np.isnan(moments.utc)
        filled = Moments(*(np.where(missing, self.median, one) for one in moments))
        values = [
            parts[part](filled) - mean for part, mean in zip(self.parts, self.means, strict=True)
        ]
        if self.indicator:
            return ColumnFeatures(np.stack([*values, missing], axis=1), 0)
        return ColumnFeatures(np.stack(values, axis=1), int(missing.sum()))


class FittedParts(NamedTuple):
    """What is fitted to a column of moments; see :class:`MomentColumn`."""

    median: float
    parts: tuple[str, ...]
    means: tuple[float, ...]
    indicator: bool


def fitted_parts(moments: Moments, parts: Parts) -> FittedParts | None:
    """The parts of moments (n,) that vary; None if nothing does."""
    present = ~np.isnan(moments.utc)
    seen = Moments(moments.utc[present], moments.wall[present])
    values = {name: part(seen) for name, part in parts.items()}
    varying = tuple(name for name, value in values.items() if np.ptp(value) > 1e-9)
    if not varying and present.all():
        return None
    means = tuple(float(values[name].mean()) for name in varying)
    return FittedParts(float(np.median(seen.utc)), varying, means, not present.all())


def are_moments(column: Column, moment: Callable[[str], Moment | None]) -> bool:
    """Whether nine in ten of a column's non-empty texts are moments."""
    texts = column.texts.to_pylist()
    right = np.array([moment(text) is not None for text in texts])[column.codes]
    full = np.array([text not in MISSING_NUMBERS for text in texts])[column.codes]
    return bool(right.sum() >= SHARE * full.sum())


def moments_of(
    table: Table,
    column: Column,
    moment: Callable[[str], Moment | None],
    *,
    expected: str,
    advice: Advice,
) -> Moments:
    """The cells of a column as moments; empty cells, NA and the like are missing.

    Args:
        table: Table named in error messages.
        column: One of its columns.
        moment: Seconds of a text in UTC and in local time; None if it is not a moment.
        expected: What the cells should be, in an error message.
        advice: What to do if the column is something else.

    Raises:
        DataError: A cell is not a moment; the message names its row, column and value.
    """
    if column.numbers is None:
        found = [
            MISSING if text in MISSING_NUMBERS else moment(text)
            for text in column.texts.to_pylist()
        ]
        codes = column.codes
        bad = np.array([one is None for one in found])[codes]
    else:  # a column without any value may have been stored as numbers
        found, codes = [MISSING], np.zeros(len(column), np.int64)
        bad = ~np.isnan(column.numbers)
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError.of(
            table.source,
            expected=expected,
            got=f"{quoted(column.cell(row))} in data row {row + 1}",
            do=advice.not_a_date(column.name),
        )
    seconds = np.array(found, np.float64)
    return Moments(seconds[codes, 0], seconds[codes, 1])


def matching(texts: Any, pattern: str) -> NDArray[np.bool_]:
    """Which texts match a regular expression, (n,)."""
    found = arrow_module().compute.match_substring_regex(texts, pattern)
    return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)
