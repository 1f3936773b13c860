"""A column of times of day, such as 13:15, as features: hours, and their sine and cosine.

The sine and cosine know that 23:59 is close to 00:00, the hours that it is the end of the day.
"""

from dataclasses import dataclass

from dessl._checks import quoted
from dessl.data.formats.advice import Advice
from dessl.data.formats.cells import Column
from dessl.data.formats.clock import CLOCK, seconds_of
from dessl.data.formats.columns import ColumnFeatures
from dessl.data.formats.moments import (
    TIME_PARTS,
    Moment,
    MomentColumn,
    Moments,
    Parts,
    are_moments,
    fitted_parts,
    matching,
    moments_of,
)
from dessl.data.formats.tables import Table

CLOCK_PARTS: Parts = {"hours": lambda moments: moments.wall / 3600.0, **TIME_PARTS}


@dataclass(frozen=True)
class TimeColumn(MomentColumn):
    """One feature for each of ``CLOCK_PARTS`` that varied in training; midnight is 0 seconds."""

    def features(self, table: Table) -> ColumnFeatures:
        """(n, parts, and one more with an indicator)."""
        times = _times(table, table.columns[self.name], table.advice.later)
        return self.features_of(times, CLOCK_PARTS)


def fitted_times(table: Table, column: Column) -> TimeColumn | str | None:
    """The column as times of day, or why it is dropped; None if it does not have times.

    It has times if nine in ten of its non-empty cells are 13:15, 13:15:30, 1:15 PM or 13:15:30.25.

    Raises:
        DataError: Some of the other cells are not times.
    """
    if column.numbers is not None or not matching(column.texts, CLOCK).any():
        return None
    if not are_moments(column, _time):
        return None
    fitted = fitted_parts(_times(table, column, table.advice), CLOCK_PARTS)
    return "constant" if fitted is None else TimeColumn(column.name, *fitted)


def _times(table: Table, column: Column, advice: Advice) -> Moments:
    expected = f"times of day in column {quoted(column.name)}, as 13:15 or 13:15:30"
    return moments_of(table, column, _time, expected=expected, advice=advice)


def _time(text: str) -> Moment | None:
    seconds = seconds_of(text)
    return None if seconds is None else (seconds, seconds)
