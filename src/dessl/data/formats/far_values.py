"""Numbers far from all others of their column: marks of missing cells, mistakes, other units."""

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dessl._checks import quoted
from dessl.data.errors import few
from dessl.data.formats.cells import is_number
from dessl.data.formats.columns import NumericColumn
from dessl.data.formats.encoding import EncodedColumn
from dessl.data.formats.tables import Table

REPEATED_BEYOND = 3  # ranges of all other values, for a value that occurs more than once
SINGLE_BEYOND = 100
OUTSIDE = 3  # ranges of the training values, for the values of a later table
SHIFTED = 0.8  # of the cells of a later column outside the range at all, as in another unit
LEAST_SHIFTED = 10
EXACT = ".15g"  # a mark such as -9999999 is named with all its digits
ROUNDING = 1e-3  # ranges: float32 loses digits


class Far(NamedTuple):
    """A value far from the others of its column, how often it occurs, and where the others lie."""

    value: float
    cells: int
    low: float
    high: float


def far_value(values: NDArray[np.float64]) -> Far | None:
    """The smallest or the largest of numbers (n,) if it is far from all others, or None.

    Far is three times the range of the others, or 100 times if it occurs only once.

    >>> far_value(np.array([1.0, 2.0, 3.0, -999.0, -999.0]))
    Far(value=-999.0, cells=2, low=1.0, high=3.0)
    >>> far_value(np.array([1.0, 2.0, 3.0, 40.0]))
    """
    for value in (values.min(), values.max()):
        others = values[values != value]
        if not len(others):
            return None
        low, high, count = others.min(), others.max(), len(values) - len(others)
        gap = max(low - value, value - high)
        beyond = REPEATED_BEYOND if count > 1 else SINGLE_BEYOND
        if high > low and gap > beyond * (high - low):
            return Far(float(value), count, float(low), float(high))
    return None


def warn_of_far_values(table: Table, found: dict[str, Far]) -> None:
    """Warn about the far values of columns, by their names."""
    repeated = {name: far for name, far in found.items() if far.cells > 1}
    marks = list(dict.fromkeys(f"{far.value:{EXACT}}" for far in repeated.values()))
    texts = [
        f"{far.value:{EXACT}} in {far.cells:,} cell{'s' * (far.cells > 1)} of {quoted(name)}, "
        f"all others from {far.low:g} to {far.high:g}"
        for name, far in found.items()
    ]
    warnings.warn(
        f"{table.source}: numbers far from all others: {few(texts, most=3)}. "
        f"{table.advice.far_marks(marks)}",
        UserWarning,
        stacklevel=4,
    )


def warn_of_outside(
    table: Table,
    x: NDArray[np.float32],
    columns: Sequence[EncodedColumn],
    *,
    stacklevel: int,
) -> None:
    """Warn about numbers of a later table that lie far outside the range of the training data.

    If most cells of a column lie outside, as degrees Fahrenheit after Celsius do, they need not be
    far.

    Args:
        table: The table.
        x: Its features, (n, features).
        columns: The encoded columns; older encodings do not know their ranges.
        stacklevel: As in ``warnings.warn``, counted from the caller.
    """
    texts, all_far, place = [], True, 0
    for column in columns:
        feature, place = place, place + len(column.feature_names)
        if not isinstance(column, NumericColumn) or column.low is None or column.high is None:
            continue
        values = column.mean + column.scale * x[:, feature].astype(np.float64)
        beyond = np.maximum(column.low - values, values - column.high) / (column.high - column.low)
        outside = np.flatnonzero(beyond > ROUNDING)
        if len(outside) < max(LEAST_SHIFTED, SHIFTED * len(x)):
            outside = np.flatnonzero(beyond > OUTSIDE)
        if len(outside):  # as float32, a value far from the mean has lost digits
            cell = table.columns[column.name].cell(int(outside[0])).replace(",", ".")
            shown = float(cell) if is_number(cell) else values[outside[0]]
            all_far &= bool((beyond[outside] > OUTSIDE).all())
            texts.append(
                f"{len(outside):,} of {len(x):,} in {quoted(column.name)}, such as {shown:g} "
                f"(training: {column.low:g} to {column.high:g})"
            )
    if texts:
        warnings.warn(
            f"{table.source}: numbers {'far ' * all_far}outside the range of the training data: "
            f"{few(texts, most=3)}. Predictions for such rows are not reliable: check the units.",
            UserWarning,
            stacklevel=stacklevel + 1,
        )
