"""Columns that give the label away: their values match the classes one to one.

Such a column is often the label in other words, or was filled in after the outcome was known: every
model then looks perfect, and fails on new rows. A measurement that separates the classes has many
values for each class, so it does not match them one to one. In a column of categories, several may
stand for one class, such as two drugs that only the healthy get.
"""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import lgamma, log
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dessl._checks import quoted
from dessl.data import SemiData
from dessl.data.formats.columns import CategoricalColumn
from dessl.teachers.rows import as_columns

LEAST_LABELS = 20  # with fewer, an honest predictor is often right on all of them
LEAST_OF_CLASS = 3
EXCEPTIONS = 0.01  # share of all labels
IMPURE = 0.1  # share of exceptions in one class, or among the rows with its value
CHANCE = 0.01  # largest probability of such a match among independent columns
SCREENED = 200  # labels on which all columns are tried; few columns are left for the others
SHOWN = 3  # columns named
MOST_MERGED = 10  # categories; more are as many values as a measurement has

Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Giveaway:
    """A column that matches the classes one to one.

    Attributes:
        column: Its name, or its number from 1 if it has none.
        empty: Whether not its values match the classes, but which of its cells are empty.
        rows: Number of labelled rows compared; for values, those with one.
        exceptions: Number of these rows that do not match.
        merged: Whether several values of the column stand for one class.
    """

    column: str
    empty: bool
    rows: int
    exceptions: int
    merged: bool = False


class _Place(NamedTuple):
    """A column of the user: its features, of which the last may say that the cell was empty."""

    name: str
    start: int
    stop: int
    indicator: bool
    categorical: bool = False


class _Match(NamedTuple):
    """For each class: its labels, those that match, and the rows of the class or of its value."""

    labels: Codes
    matched: Codes
    rows: Codes

    @property
    def exceptions(self) -> int:
        return int(self.labels.sum() - self.matched.sum())


def giveaways_in(data: SemiData, groups: Tensor | None = None) -> tuple[Giveaway, ...]:
    """Find columns whose values match the classes one to one; pictures have none.

    In a column of at most 10 categories, several may match one class. At most 1 % of the labelled
    rows with a value may be exceptions. There must be at least 20 such rows, at least 3 of each of
    two classes, and enough that the match is not due to chance.

    Args:
        data: The data with its labels.
        groups: (n,) group of each row; a match on all rows of a group counts once. None if rows are
            independent.

    >>> y = torch.arange(40) % 2
    >>> x = torch.stack([torch.arange(40.0), 5.0 - 2 * y], 1)
    >>> giveaways_in(SemiData(x, y))
    (Giveaway(column='column 2', empty=False, rows=40, exceptions=0, merged=False),)
    """
    if data.is_image or data.n_labelled < LEAST_LABELS:
        return ()
    flat, rows = as_columns(data.x), data.labelled_rows
    drawn = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))[:SCREENED]
    some = rows[drawn.to(rows.device)]
    screen, y = flat[some].numpy(force=True), data.y.numpy(force=True)
    some_y, all_y = y[some.numpy(force=True)], y[rows.numpy(force=True)]
    units = None if groups is None else groups[rows.cpu()].numpy()
    places, k = list(_places(data, flat.shape[1])), data.n_classes
    found = []
    for place in places:
        for empty, merged in _ways(place):
            codes = _codes(screen[:, place.start : place.stop], place, empty)
            if not _may_match(_merged(codes, some_y, k) if merged else codes, some_y, k):
                continue
            codes = _codes(_features(flat, rows, place), place, empty)
            tries = log(len(places)) + (log(k) * len(np.unique(codes)) if merged else 0.0)
            codes = _merged(codes, all_y, k) if merged else codes
            match = _match(codes, all_y, k, EXCEPTIONS)
            if match is not None and _is_giveaway(match, tries, _cases(match, codes, all_y, units)):
                n = int(match.labels.sum())
                found.append(Giveaway(place.name, empty, n, match.exceptions, merged))
                break
    return tuple(found)


def _ways(place: _Place) -> Iterator[tuple[bool, bool]]:
    """How a column may match the classes: its values, its gaps, its values taken together."""
    yield False, False
    if place.indicator:
        yield True, False
    if place.categorical:
        yield False, True


def _merged(codes: Codes, y: Codes, n_classes: int) -> Codes:
    """The most frequent class of each row's value, (n,); -1 for an empty cell."""
    distinct, value = np.unique(codes, return_inverse=True)
    counts = np.bincount(value * n_classes + y, minlength=len(distinct) * n_classes)
    return np.where(codes < 0, -1, counts.reshape(-1, n_classes).argmax(1)[value])


def giveaway_reasons(found: Sequence[Giveaway], labelled: int, *, table: bool) -> list[str]:
    """Say which columns give the label away, and what to do.

    Args:
        found: Result of :func:`giveaways_in`.
        labelled: Number of labelled rows.
        table: Whether the columns are those of a table file, which can be dropped by name.
    """
    reasons = [_reason(one, labelled, table) for one in found[:SHOWN]]
    if len(found) > SHOWN:
        reasons.append(f"{len(found) - SHOWN:,} more columns give the label away in the same way.")
    return reasons


def _reason(one: Giveaway, labelled: int, table: bool) -> str:
    what = "which of its cells are empty matches" if one.empty else "its values match"
    how = "the classes, several values for one class," if one.merged else "the classes one to one"
    right = one.rows - one.exceptions
    count = f"{right:,} of {one.rows:,}" if one.exceptions else f"all {right:,}"
    which = " with a value" if one.rows < labelled else ""
    do = f": --ignore {shlex.quote(one.column)} (ignore= in Python)." if table else " from x."
    return (
        f"{quoted(one.column)} gives the label away: {what} {how} on {count} "
        f"labelled rows{which}. If it is not known when you predict, drop it{do}"
    )


def _places(data: SemiData, width: int) -> Iterator[_Place]:
    """The user's columns; features without an encoding are columns themselves."""
    columns = data.encoding.columns if data.encoding else ()
    widths = [len(column.feature_names) for column in columns]
    if sum(widths) != width:
        yield from (_Place(f"column {k + 1}", k, k + 1, False) for k in range(width))
        return
    ends = np.cumsum(widths).tolist()
    for column, own, end in zip(columns, widths, ends, strict=True):
        categorical = isinstance(column, CategoricalColumn) and own <= MOST_MERGED
        yield _Place(column.name, end - own, end, column.indicator, categorical)


def _features(flat: Tensor, rows: Tensor, place: _Place) -> NDArray[np.float32]:
    found: NDArray[np.float32] = flat[rows, place.start : place.stop].numpy(force=True)
    return found


def _codes(features: NDArray[np.float32], place: _Place, empty: bool) -> Codes:
    """A number (n,) for each value of a column, -1 for an empty cell; or 1 for those alone."""
    gaps = features[:, -1] > 0 if place.indicator else np.zeros(len(features), bool)
    if empty:
        return gaps.astype(np.int64)
    values = features[:, :-1] if place.indicator else features
    axis = 0 if values.shape[1] > 1 else None
    codes = np.unique(values, axis=axis, return_inverse=True)[1].reshape(-1)
    return np.where(gaps, -1, codes)


def _may_match(codes: Codes, y: Codes, n_classes: int) -> bool:
    """Whether a sample has few exceptions; ten times as many as allowed are not due to chance."""
    share = 10 * EXCEPTIONS + 1 / max(1, int((codes >= 0).sum()))
    match = _match(codes, y, n_classes, share)
    return match is not None and match.exceptions <= share * match.labels.sum()


def _match(codes: Codes, y: Codes, n_classes: int, share: float) -> _Match | None:
    """Compare values and classes (n,) of the rows with a value; None if the values are too many.

    A row matches if its class is the most frequent one of its value, and its value the most
    frequent one of its class. All further values are exceptions, at most ``share`` of the rows.
    """
    codes, y = codes[codes >= 0], y[codes >= 0]
    distinct, codes = np.unique(codes, return_inverse=True)
    if len(distinct) > n_classes + share * len(y):
        return None
    counts = np.bincount(codes * n_classes + y, minlength=len(distinct) * n_classes)
    counts = counts.reshape(len(distinct), n_classes)
    if not len(distinct):
        return _Match(*(np.zeros(n_classes, np.int64),) * 3)
    value, classes = counts.argmax(0), np.arange(n_classes)
    both = counts.argmax(1)[value] == classes
    labels = counts.sum(0)
    matched = np.where(both, counts[value, classes], 0)
    return _Match(labels, matched, np.maximum(labels, counts.sum(1)[value]))


def _cases(match: _Match, codes: Codes, y: Codes, units: Codes | None) -> list[int]:
    """How many independent cases of each class match: rows, or groups of rows."""
    if units is None:
        return [int(size) for size in match.matched if size]
    valued = codes >= 0
    return [len(np.unique(units[valued & (y == k)])) for k in np.flatnonzero(match.matched)]


def _is_giveaway(match: _Match, tries: float, cases: list[int]) -> bool:
    """Whether a match is no coincidence, given the logarithm of how many were tried."""
    n, common = int(match.labels.sum()), match.labels >= LEAST_OF_CLASS
    if n < LEAST_LABELS or common.sum() < 2 or match.exceptions > EXCEPTIONS * n:
        return False
    if (match.matched < (1 - IMPURE) * match.rows)[common].any():
        return False
    # The share of arrangements of the values that match the classes, in any order of the classes.
    same = sum(lgamma(size + 1) for size in [*cases, len(cases)])
    return same - lgamma(sum(cases) + 1) + tries <= log(CHANCE)
