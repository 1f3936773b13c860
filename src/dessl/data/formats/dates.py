"""A column of dates as features: elapsed days, year, month, day of the year and week, time of day.

A moment with a time zone is read twice: elapsed days are in UTC, and the calendar features use
local time, as written in the cell.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dessl._checks import quoted
from dessl.data.errors import DataError
from dessl.data.formats.advice import Advice
from dessl.data.formats.cells import MISSING_NUMBERS, Column, arrow_module
from dessl.data.formats.columns import ColumnFeatures
from dessl.data.formats.tables import Table

DAY = 86_400.0  # seconds
TIME = r"[0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]{1,9})?)?"
DATE = rf"^[0-9]{{4}}([-/])[0-9]{{2}}[-/][0-9]{{2}}([T ]{TIME}(Z|[+-][0-9]{{2}}(:?[0-9]{{2}})?)?)?$"
DOTTED = rf"^([0-9]{{1,2}})\.([0-9]{{1,2}})\.([0-9]{{4}})( {TIME})?$"
# Day and month in either order, as 12/31/2024 or 31/12/2024 6:30 PM.
SLASHED = (
    r"^([0-9]{1,2})[/-]([0-9]{1,2})[/-]([0-9]{4})"
    r"( ([0-9]{1,2}):([0-9]{2})(:[0-9]{2})?( ?([AaPp])[Mm])?)?$"
)
DATE_SHARE = 0.9
LONGEST = 40  # characters of a date
MISSING_DATE = (math.nan, math.nan)
First = Literal["", "day", "month"]


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


PARTS: dict[str, Callable[[Moments], NDArray[Any]]] = {
    "elapsed days": lambda moments: moments.utc / DAY,
    "year": _year,
    "month": _month,
    "day of year, sine": lambda moments: np.sin(_turn_of_year(moments)),
    "day of year, cosine": lambda moments: np.cos(_turn_of_year(moments)),
    "weekday, sine": lambda moments: np.sin(2 * np.pi * _weekday(moments) / 7),
    "weekday, cosine": lambda moments: np.cos(2 * np.pi * _weekday(moments) / 7),
    "weekend": lambda moments: (_weekday(moments) >= 5).astype(np.float64),
    "time of day, sine": lambda moments: np.sin(_turn_of_day(moments)),
    "time of day, cosine": lambda moments: np.cos(_turn_of_day(moments)),
}


@dataclass(frozen=True)
class DateColumn:
    """One feature for each part of a date that varied in training.

    Attributes:
        name: Name of the column.
        median: Seconds since 1970; replaces a missing moment.
        parts: Keys of ``PARTS``.
        means: Mean subtracted from each part, so that float32 keeps the digits.
        indicator: Whether a last feature says that the cell was empty.
        first: ``"day"`` or ``"month"``, of dates such as 12/31/2024; "" if there were none.
    """

    name: str
    median: float
    parts: tuple[str, ...]
    means: tuple[float, ...]
    indicator: bool
    first: First = ""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One name for each feature the column becomes."""
        names = tuple(f"{self.name}: {part}" for part in self.parts)
        return (*names, f"{self.name} is missing") if self.indicator else names

    def features(self, table: Table) -> ColumnFeatures:
        """(n, parts, and one more with an indicator)."""
        moments = moments_of(table, table.columns[self.name], self.first, table.advice.later)
        missing = np.isnan(moments.utc)
        filled = Moments(*(np.where(missing, self.median, part) for part in moments))
        columns = [
            PARTS[part](filled) - mean for part, mean in zip(self.parts, self.means, strict=True)
        ]
        if self.indicator:
            return ColumnFeatures(np.stack([*columns, missing], axis=1), 0)
        return ColumnFeatures(np.stack(columns, axis=1), int(missing.sum()))


def fitted_dates(table: Table, column: Column) -> DateColumn | str | None:
    """The column as dates, or why it is dropped; None if it does not have dates.

    It has dates if nine in ten of its non-empty cells are 2024-12-31, 31.12.2024 or 12/31/2024,
    with or without a time and, after the first, a time zone. In the last way of writing, a number
    above 12 must show whether the day or the month comes first.

    Raises:
        DataError: Some of the other cells are not dates.
    """
    if column.numbers is not None:
        return None
    first = _first(column.texts)
    known = (DATE, DOTTED, SLASHED) if first else (DATE, DOTTED)
    if not any(_matching(column.texts, pattern).any() for pattern in known):
        return None
    texts = column.texts.to_pylist()
    right = np.array([_moment(text, first) is not None for text in texts])[column.codes]
    full = np.array([text not in MISSING_NUMBERS for text in texts])[column.codes]
    if right.sum() < DATE_SHARE * full.sum():
        return None
    moments = moments_of(table, column, first, table.advice)
    present = ~np.isnan(moments.utc)
    seen = Moments(moments.utc[present], moments.wall[present])
    values = {name: part(seen) for name, part in PARTS.items()}
    parts = tuple(name for name, value in values.items() if np.ptp(value) > 1e-9)
    if not parts and present.all():
        return "constant"
    means = tuple(float(values[name].mean()) for name in parts)
    median = float(np.median(seen.utc))
    return DateColumn(column.name, median, parts, means, not present.all(), first)


def moments_of(table: Table, column: Column, first: First, advice: Advice) -> Moments:
    """The cells of a column as moments; empty cells, NA and the like are missing.

    Args:
        table: Table named in error messages.
        column: One of its columns.
        first: What comes first in 12/31/2024; "" if nothing shows it.
        advice: What to do if the column is not of dates.

    Raises:
        DataError: A cell is not a date; the message names its row, column and value.
    """
    texts = [] if column.numbers is not None else column.texts.to_pylist()
    found = [MISSING_DATE if text in MISSING_NUMBERS else _moment(text, first) for text in texts]
    wrong = np.array([moment is None for moment in found])
    if column.numbers is not None or wrong.any():
        bad = np.zeros(len(column), np.int64) if not texts else wrong[column.codes]
        row = int(np.argmax(bad))
        raise DataError.of(
            table.source,
            expected=f"dates in column {quoted(column.name)}, as 2024-12-31 or 2024-12-31T18:30",
            got=f"{quoted(column.cell(row))} in data row {row + 1}",
            do=advice.not_a_date(column.name),
        )
    seconds = np.array(found, np.float64)
    return Moments(seconds[column.codes, 0], seconds[column.codes, 1])


def dates_of_unknown_order(texts: Any) -> bool:
    """Whether most texts are dates such as 3/4/2024, whose month is ambiguous."""
    return bool(np.mean(_matching(texts, SLASHED)) >= DATE_SHARE)


def _first(texts: Any) -> First:
    """Whether the day or the month comes first in dates such as 12/31/2024; "" if unknown.

    >>> arrow = arrow_module()
    >>> _first(arrow.array(["3/4/2024", "3/31/2024"])), _first(arrow.array(["3/4/2024"]))
    ('month', '')
    """
    found = [
        re.match(SLASHED, text) for text in texts.filter(_matching(texts, SLASHED)).to_pylist()
    ]
    days = any(int(one[1]) > 12 for one in found if one)
    months = any(int(one[2]) > 12 for one in found if one)
    return "" if days == months else "day" if days else "month"


def _matching(texts: Any, pattern: str) -> NDArray[np.bool_]:
    found = arrow_module().compute.match_substring_regex(texts, pattern)
    return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)


def _moment(text: str, first: First) -> tuple[float, float] | None:
    """Seconds in UTC and in local time; None if the text is not a date.

    >>> _moment("1970-01-02T01:00+01:00", ""), _moment("2.1.1970", ""), _moment("1970-02-30", "")
    ((86400.0, 90000.0), (86400.0, 86400.0), None)
    >>> _moment("1/2/1970 1:00 PM", "month"), _moment("1/2/1970", "")
    ((133200.0, 133200.0), None)
    """
    if len(text) > LONGEST:
        return None
    if dotted := re.match(DOTTED, text):
        text = f"{dotted[3]}-{dotted[2]:0>2}-{dotted[1]:0>2}{dotted[4] or ''}"
    elif first and (slashed := re.match(SLASHED, text)):
        text = _as_iso(slashed, first)
    if not re.match(DATE, text):
        return None
    try:
        moment = datetime.fromisoformat(text[:10].replace("/", "-") + text[10:])
    except ValueError:
        return None
    wall = moment.replace(tzinfo=UTC).timestamp()
    offset = moment.utcoffset()
    return wall - (offset.total_seconds() if offset else 0.0), wall


def _as_iso(slashed: re.Match[str], first: First) -> str:
    day, month = (slashed[1], slashed[2]) if first == "day" else (slashed[2], slashed[1])
    date = f"{slashed[3]}-{month:0>2}-{day:0>2}"
    if not slashed[4]:
        return date
    hour = int(slashed[5])
    if half := (slashed[9] or "").lower():  # 12 AM is 0 and 12 PM is 12
        hour = (hour % 12 + 12 * (half == "p")) if 1 <= hour <= 12 else 99
    return f"{date}T{hour:02}:{slashed[6]}{slashed[7] or ''}"
