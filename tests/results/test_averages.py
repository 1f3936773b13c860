"""Means with their intervals."""

import math

import numpy as np
import pytest
from scipy import stats

from dessl.results.averages import average, number


def test_the_interval_is_students() -> None:
    values = [0.93, 0.951, 0.944, 0.91, 0.972]
    found = average(values)
    low, high = stats.t.interval(0.95, 4, loc=np.mean(values), scale=stats.sem(values))
    assert found.mean - found.half_width == pytest.approx(low, rel=1e-12)
    assert found.mean + found.half_width == pytest.approx(high, rel=1e-12)


def test_what_is_missing_or_infinite_gives_no_interval() -> None:
    assert average([0.5, math.nan]).half_width is None
    assert average([0.5, math.nan]).n == 1
    infinite = average([1.0, math.inf])
    assert (infinite.mean, infinite.half_width, infinite.n) == (math.inf, None, 2)


def test_numbers_are_read_as_records_write_them() -> None:
    assert math.isnan(number(None))
    assert number("-Infinity") == -math.inf
    assert number(3) == 3.0
