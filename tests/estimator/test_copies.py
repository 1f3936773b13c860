"""Weights are repetitions: exact for whole multiples, the nearest otherwise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dessl.estimator.copies import COPIES, Copies, copies, warn_of_rounding

NONE = np.empty(0)


def counted(weights: np.ndarray, codes: np.ndarray | None = None, came: int = 0) -> Copies:
    own = np.zeros(len(weights), np.int64) if codes is None else codes
    return copies(weights, NONE, codes=own, came=came or len(weights))


@given(arrays(np.int64, st.integers(1, 30), elements=st.integers(1, 9)))
def test_whole_weights_are_repeated_in_exact_proportion(weights: np.ndarray) -> None:
    counts, a_row = counted(weights.astype(float) * 0.37)
    if a_row == 1:
        assert (counts * weights.sum() == weights * counts.sum()).all()
    else:
        assert (np.abs(counts - COPIES * len(weights) * weights / weights.sum()) < 1).all()


@given(
    arrays(np.float64, 30, elements=st.floats(0.001, 100)),
    arrays(np.int64, 30, elements=st.integers(0, 4)),
    st.integers(1, 30),
)
def test_rows_and_classes_are_rounded_by_less_than_one_copy(
    weights: np.ndarray, codes: np.ndarray, n: int
) -> None:
    weights, codes = weights[:n], codes[:n]
    counts, a_row = counted(weights, codes)
    wanted = weights / weights.sum() * (COPIES * n if a_row == COPIES else counts.sum())
    assert (np.abs(counts - wanted) < 1 + 1e-6).all()
    assert (np.abs(np.bincount(codes, counts - wanted)) < 1 + 1e-6).all()
    assert set(codes[counts > 0]) == set(codes)


@given(arrays(np.float64, 12, elements=st.floats(1e-300, 1e300)))
def test_no_class_is_left_out_whatever_it_weighs(weights: np.ndarray) -> None:
    codes = np.arange(12) % 4
    assert set(codes[counted(weights, codes).counts > 0]) == set(range(4))


def test_equal_rows_that_were_merged_leave_room_for_a_rare_class() -> None:
    """A table of few values: four different rows of 4,920, of weights near 1."""
    weights, codes = np.array([4000.6, 900.2, 7.1, 12.1]), np.array([0, 0, 1, 1])
    counts, a_row = counted(weights, codes, came=4920)
    assert counts.tolist() == [4001, 900, 7, 12]
    assert a_row == COPIES
    assert counted(np.array([1.0, 72.0]), np.array([0, 1]), came=25).counts.tolist() == [1, 72]


def test_a_share_that_is_met_is_no_cause_for_a_warning() -> None:
    weights, codes = np.array([1.0, 1.6, 3.0]), np.array([0, 1, 3])
    warn_of_rounding(counted(weights, codes).counts, weights, codes, np.arange(4))


def test_many_classes_are_not_all_named() -> None:
    weights = np.concatenate([[1e6], np.ones(9)])
    codes = np.arange(10)
    counts = counted(weights, codes).counts
    assert counts[1:].tolist() == [1] * 9
    with pytest.warns(UserWarning, match=r"the class 5 has .*; 4 more classes"):
        warn_of_rounding(counts, weights, codes, codes)
