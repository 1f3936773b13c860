"""Weights are repetitions: exact for whole multiples, the nearest otherwise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dessl.estimator.weights import COPIES, copies, weighted_rows


@given(arrays(np.int64, st.integers(1, 30), elements=st.integers(1, 9)))
def test_whole_weights_are_repeated_in_exact_proportion(weights: np.ndarray) -> None:
    counts = copies(weights.astype(float) * 0.37)
    assert (counts * weights.sum() == weights * counts.sum()).all() or (
        np.abs(counts - COPIES * len(weights) * weights / weights.sum()) < 1
    ).all()


@given(arrays(np.float64, st.integers(1, 30), elements=st.floats(0.01, 100)))
def test_other_weights_are_rounded_by_less_than_one_copy(weights: np.ndarray) -> None:
    counts = copies(weights)
    share = weights / weights.sum()
    assert (np.abs(counts - share * counts.sum()) < 1 + 1e-6).all()


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
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_one_class_with_weight_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 2 classes must have a sample_weight above 0"):
        weighted_rows(np.ones((3, 1)), np.array([0, 1, -1]), np.array([1.0, 0.0, 1.0]))
