"""A column of dates, such as 2024-12-31, 31.12.2024 or 12/31/2024 6:30 PM, as features."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np

from dessl._checks import quoted
from dessl.data.formats.advice import Advice
from dessl.data.formats.cells import Column
from dessl.data.formats.columns import ColumnFeatures
from dessl.data.formats.moments import (
    DATE_PARTS,
    SHARE,
    Moment,
    MomentColumn,
    Moments,
    are_moments,
    fitted_parts,
    matching,
    moments_of,
)
from dessl.data.formats.tables import Table

TIME = r"[0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]{1,9})?)?"
DATE = rf"^[0-9]{{4}}([-/])[0-9]{{2}}[-/][0-9]{{2}}([T ]{TIME}(Z|[+-][0-9]{{2}}(:?[0-9]{{2}})?)?)?$"
DOTTED = rf"^([0-9]{{1,2}})\.([0-9]{{1,2}})\.([0-9]{{4}})( {TIME})?$"
# Day and month in either order, as 12/31/2024 or 31/12/2024 6:30 PM.
SLASHED = (
    r"^([0-9]{1,2})[/-]([0-9]{1,2})[/-]([0-9]{4})"
    r"( ([0-9]{1,2}):([0-9]{2})(:[0-9]{2})?( ?([AaPp])[Mm])?)?$"
)
# Month by its English name: 31 Dec 2024, 31-Dec-2024 or December 31, 2024.
DAY_MONTH = rf"^([0-9]{{1,2}})[ -]([A-Za-z]{{3,9}})\.?,?[ -]([0-9]{{4}})( {TIME})?$"
MONTH_DAY = rf"^([A-Za-z]{{3,9}})\.? ([0-9]{{1,2}}),? ([0-9]{{4}})( {TIME})?$"
MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september",
          "october", "november", "december")  # fmt: skip
NUMBERS = {name[:length]: k + 1 for k, name in enumerate(MONTHS) for length in (3, len(name))}
NUMBERS["sept"] = 9
SHORT_YEAR = r"^[0-9]{1,2}([./-])([0-9]{1,2}|[A-Za-z]{3})[./-][0-9]{2}$"
LONGEST = 40  # characters of a date
First = Literal["", "day", "month"]


@dataclass(frozen=True)
class DateColumn(MomentColumn):
    """One feature for each of ``DATE_PARTS`` that varied in training.

    Attributes:
        first: ``"day"`` or ``"month"``, of dates such as 12/31/2024; "" if there were none.
    """

    first: First = ""

    def features(self, table: Table) -> ColumnFeatures:
        """(n, parts, and one more with an indicator)."""
        dates = _dates(table, table.columns[self.name], self.first, table.advice.later)
        return self.features_of(dates, DATE_PARTS)


def fitted_dates(table: Table, column: Column) -> DateColumn | str | None:
    """The column as dates, or why it is dropped; None if it does not have dates.

    It has dates if nine in ten of its non-empty cells are 2024-12-31, 31.12.2024, 31 Dec 2024 or
    12/31/2024, with or without a time and, after the first, a time zone. In the last way of
    writing, a number above 12 must show whether the day or the month comes first.

    Raises:
        DataError: Some of the other cells are not dates.
    """
    if column.numbers is not None:
        return None
    first = _first(column.texts)
    known = (DATE, DOTTED, DAY_MONTH, MONTH_DAY, *([SLASHED] if first else []))
    if not any(matching(column.texts, pattern).any() for pattern in known):
        return None
    if not are_moments(column, lambda text: _moment(text, first)):
        return None
    fitted = fitted_parts(_dates(table, column, first, table.advice), DATE_PARTS)
    return "constant" if fitted is None else DateColumn(column.name, *fitted, first)


def _dates(table: Table, column: Column, first: First, advice: Advice) -> Moments:
    """The dates of a column; ``first`` is what comes first in 12/31/2024."""
    expected = f"dates in column {quoted(column.name)}, as 2024-12-31 or 2024-12-31T18:30"
    return moments_of(
        table, column, lambda text: _moment(text, first), expected=expected, advice=advice
    )


def dates_of_unknown_order(texts: Any) -> bool:
    """Whether most texts are dates such as 3/4/2024, whose month is ambiguous."""
    return bool(np.mean(matching(texts, SLASHED)) >= SHARE)


def dates_of_short_years(texts: Any) -> bool:
    """Whether most texts are dates such as 31/12/24, whose parts and century are ambiguous."""
    return bool(np.mean(matching(texts, SHORT_YEAR)) >= SHARE)


def _first(texts: Any) -> First:
    """Whether the day or the month comes first in dates such as 12/31/2024; "" if unknown.

    >>> import pyarrow as arrow
    >>> _first(arrow.array(["3/4/2024", "3/31/2024"])), _first(arrow.array(["3/4/2024"]))
    ('month', '')
    """
    found = [re.match(SLASHED, text) for text in texts.filter(matching(texts, SLASHED)).to_pylist()]
    days = any(int(one[1]) > 12 for one in found if one)
    months = any(int(one[2]) > 12 for one in found if one)
    return "" if days == months else "day" if days else "month"


def _moment(text: str, first: First) -> Moment | None:
    """Seconds in UTC and in local time; None if the text is not a date.

    >>> _moment("1970-01-02T01:00+01:00", ""), _moment("2.1.1970", ""), _moment("1970-02-30", "")
    ((86400.0, 90000.0), (86400.0, 86400.0), None)
    >>> _moment("2 Jan 1970", ""), _moment("January 2, 1970 01:00", ""), _moment("2 Foo 1970", "")
    ((86400.0, 86400.0), (90000.0, 90000.0), None)
    >>> _moment("1/2/1970 1:00 PM", "month"), _moment("1/2/1970", "")
    ((133200.0, 133200.0), None)
    """
    if len(text) > LONGEST:
        return None
    if dotted := re.match(DOTTED, text):
        text = f"{dotted[3]}-{dotted[2]:0>2}-{dotted[1]:0>2}{dotted[4] or ''}"
    elif named := re.match(DAY_MONTH, text):
        text = _with_number(named[3], named[2], named[1], named[4])
    elif named := re.match(MONTH_DAY, text):
        text = _with_number(named[3], named[1], named[2], named[4])
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


def _with_number(year: str, month: str, day: str, time: str | None) -> str:
    return f"{year}-{NUMBERS.get(month.lower(), 0):02}-{day:0>2}{time or ''}"


def _as_iso(slashed: re.Match[str], first: First) -> str:
    day, month = (slashed[1], slashed[2]) if first == "day" else (slashed[2], slashed[1])
    date = f"{slashed[3]}-{month:0>2}-{day:0>2}"
    if not slashed[4]:
        return date
    hour = int(slashed[5])
    if half := (slashed[9] or "").lower():  # 12 AM is 0 and 12 PM is 12
        hour = (hour % 12 + 12 * (half == "p")) if 1 <= hour <= 12 else 99
    return f"{date}T{hour:02}:{slashed[6]}{slashed[7] or ''}"
