"""Rows in one form, whatever their order and however often they came."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dessl.estimator.weights import COPIES, Copies, copies, warn_of_rounding, weighted_rows

NONE = np.empty(0)


def test_rows_without_weights_are_taken_as_they_came() -> None:
    """Columns of few values: a rare class must not be rounded away."""
    x = np.repeat([[0.0], [1.0], [0.0], [1.0]], [4000, 900, 7, 13], axis=0)
    codes = np.repeat([0, 1], [4900, 20])
    rows = weighted_rows(x, codes, np.ones(4920))
    assert len(rows.x) == 4920
    for level in (0, 1):
        for code in (0, 1):
            many = ((x[:, 0] == level) & (codes == code)).sum()
            assert ((rows.x[:, 0] == level) & (rows.codes == code)).sum() == many


def test_equal_labelled_rows_do_not_push_unlabelled_rows_out() -> None:
    x = np.concatenate([np.repeat([[0.0], [1.0]], 500, axis=0), np.arange(30.0)[:, None]])
    codes = np.repeat([0, 1, -1], [500, 500, 30])
    rows = weighted_rows(x, codes, np.ones(1030))
    assert np.bincount(rows.codes + 1).tolist() == [30, 500, 500]


@given(st.floats(1e-300, 1e300), st.floats(1e-300, 1e300))
@example(2.4e16, 6e-292)  # each multiple is a float, and their sum is not
def test_labelled_and_unlabelled_rows_stay_whatever_they_weigh(light: float, heavy: float) -> None:
    x, codes = np.arange(8.0)[:, None], np.array([0, 0, 1, 1, -1, -1, -1, -1])
    weights = np.where(codes < 0, heavy, light) * np.array([1, 1, 1, 1.7, 1, 1, 1, 1])
    rows = weighted_rows(x, codes, weights)
    assert set(rows.x[:, 0]) == set(range(8))
    share = (rows.x[rows.codes >= 0] == 3).mean()
    assert share == pytest.approx(1.7 / 4.7, abs=0.03)


def test_equal_rows_are_merged_only_where_their_labels_agree() -> None:
    x = np.array([[1.0], [1.0], [1.0]])
    rows = weighted_rows(x, np.array([0, 1, 0]), np.ones(3))
    assert rows.codes.tolist() == [0, 0, 1]
    assert rows.groups.tolist() == [0, 0, 1]


def test_the_order_of_labelled_rows_does_not_matter() -> None:
    generator = np.random.default_rng(0)
    x, codes = generator.normal(size=(20, 2)), np.arange(20) % 2
    order = generator.permutation(20)
    first, second = (weighted_rows(x[o], codes[o], np.ones(20)) for o in (np.arange(20), order))
    assert all(np.array_equal(a, b) for a, b in zip(first[:3], second[:3], strict=True))
    assert np.array_equal(first.ids, order[second.ids])


def test_one_class_with_weight_is_refused() -> None:
    with pytest.raises(ValueError, match=r"2 classes .*sample_weight"):
        weighted_rows(np.ones((3, 1)), np.array([0, 1, -1]), np.array([1.0, 0.0, 1.0]))


def test_weights_of_zero_and_of_unlabelled_rows() -> None:
    """A row of weight 0 is no row; unlabelled rows are weighted among themselves."""
    x, codes = np.arange(12.0)[:, None], np.array([0, 1, 0, 1, 0, -1, -1, -1, -1, -1, -1, -1])
    weights = np.array([1.0, 1.0, 0.0, 2.5, 0.0, 5.0, 0.0, 15.0, 10.0, 0.0, 5.0, 15.0])
    rows = weighted_rows(x, codes, weights)
    counts = np.bincount(rows.x[:, 0].astype(int))
    assert counts.tolist() == [7, 7, 0, 16, 0, 5, 0, 15, 10, 0, 5, 15]
    assert np.array_equal(rows.codes, codes[rows.x[:, 0].astype(int)])
    assert rows.copies == 10
    whole = weighted_rows(x, codes, np.where(codes < 0, 3.0, 1.0) * (weights > 0))
    assert np.bincount(whole.x[:, 0].astype(int)).tolist() == [1, 1, 0, 1, 0, 3, 0, 3, 3, 0, 3, 3]
    assert whole.copies == 1


def test_a_class_of_light_rows_stays_and_the_user_is_told() -> None:
    x, codes = np.arange(22.0)[:, None], np.repeat([0, 1], 11)
    with pytest.warns(UserWarning, match="7 of 22 labelled rows"):
        rows = weighted_rows(x, codes, np.where(codes == 0, 60.3, 1.0))
    assert np.bincount(rows.codes).tolist() == [216, 4]  # 216.4 and 3.6 to the nearest
    weights = np.where(codes == 0, 1.0, 1e-4)
    told = "the class 'b' has 0.0045 of the labelled weight"
    with pytest.warns(UserWarning, match=told) as caught:
        rows = weighted_rows(x, codes, weights, np.array(["'a'", "'b'"]))
    assert np.bincount(rows.codes).tolist() == [220, 1]
    assert len(caught) == 1


@given(arrays(np.int64, (25, 3), elements=st.integers(0, 2)), st.booleans())
def test_rows_keep_the_numbers_that_they_came_with(drawn: np.ndarray, weighted: bool) -> None:
    x, codes = drawn[:, :1] / 2, np.concatenate([[0, 1], drawn[2:, 1] - 1])
    weights = 1.0 + drawn[:, 2] * weighted
    rows = weighted_rows(x, codes, weights)
    assert len(set(rows.ids)) == len(rows.ids)
    known = rows.ids < 25
    assert np.array_equal(x[rows.ids[known]], rows.x[known])
    assert np.array_equal(codes[rows.ids[known]], rows.codes[known])
    assert np.array_equal(np.sort(rows.ids[~known]), 25 + np.arange((~known).sum()))
    if not weighted:
        assert set(rows.ids) == set(range(25)) or (codes >= 0).all()  # all twice is all once


def counted(weights: np.ndarray, codes: np.ndarray | None = None, n_rows: int = 0) -> Copies:
    own = np.zeros(len(weights), np.int64) if codes is None else codes
    return copies(weights, NONE, codes=own, n_rows=n_rows or len(weights))


@given(arrays(np.int64, st.integers(1, 30), elements=st.integers(1, 9)))
def test_whole_weights_are_repeated_in_exact_proportion(weights: np.ndarray) -> None:
    counts, per_row = counted(weights.astype(float) * 0.37)
    if per_row == 1:
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
    counts, per_row = counted(weights, codes)
    wanted = weights / weights.sum() * (COPIES * n if per_row == COPIES else counts.sum())
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
    counts, per_row = counted(weights, codes, n_rows=4920)
    assert counts.tolist() == [4001, 900, 7, 12]
    assert per_row == COPIES
    assert counted(np.array([1.0, 72.0]), np.array([0, 1]), n_rows=25).counts.tolist() == [1, 72]


def test_a_share_that_is_met_is_no_cause_for_a_warning() -> None:
    weights, codes = np.array([1.0, 1.6, 3.0]), np.array([0, 1, 3])
    warn_of_rounding(counted(weights, codes).counts, weights, codes, np.arange(4))


def test_many_classes_are_not_all_named() -> None:
    weights = np.concatenate([[1e6], np.ones(9)])
    codes = np.arange(10)
    counts = counted(weights, codes).counts
    assert counts[1:].tolist() == [1] * 9
    with pytest.warns(UserWarning, match=r"the class 5 has .*; 4 more classes are affected"):
        warn_of_rounding(counts, weights, codes, codes)
