"""Labelled and unlabelled rows in one table, whatever holds them."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from dessl.estimator.stacking import stacked_labels, stacked_rows

FIRST, MORE = np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [5.0, 6.0]])
ALL = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


def test_arrays_lists_and_sparse_rows_are_stacked() -> None:
    assert stacked_rows(FIRST, MORE).tolist() == ALL
    assert stacked_rows(FIRST.tolist(), MORE.tolist()).tolist() == ALL
    assert stacked_rows(sparse.csr_array(FIRST), sparse.coo_array(MORE)).toarray().tolist() == ALL
    assert stacked_rows(["a text"], ["another", "one"]).tolist() == ["a text", "another", "one"]
    assert stacked_rows(FIRST, pd.DataFrame(MORE)).tolist() == ALL


def test_two_frames_are_a_frame_with_the_same_columns() -> None:
    first, more = (pd.DataFrame(rows, columns=["a", "b"]) for rows in (FIRST, MORE))
    both = stacked_rows(first.set_axis([7]), more)
    assert both.columns.tolist() == ["a", "b"]
    assert both.index.tolist() == [0, 1, 2]
    assert both.to_numpy().tolist() == ALL
    with pytest.raises(ValueError, match=r"columns of X, \['a', 'b'\]; got \['b', 'a'\]"):
        stacked_rows(first, more[["b", "a"]])


def test_polars_frames_stay_polars() -> None:
    polars = pytest.importorskip("polars")
    first, more = (polars.DataFrame(rows, schema=["a", "b"]) for rows in (FIRST, MORE))
    assert stacked_rows(first, more).rows() == [tuple(row) for row in ALL]


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(ValueError, match=r"rows like those of X, of shape \(2,\); got \(1,\)"):
        stacked_rows(FIRST, MORE[:, :1])


@pytest.mark.parametrize("y", [[0, 1], ["no", "yes"], [True, False]])
def test_further_labels_are_none(y: list[object]) -> None:
    for given in (y, np.array(y), pd.Series(y, index=[5, 3])):
        assert stacked_labels(given, 2).tolist() == [*y, None, None]
