from pathlib import Path

import numpy as np
import pytest

from dessl.data.errors import DataError
from dessl.data.formats.arrays import class_indices, digit_names, same_count


def test_indices_count_from_the_first_class() -> None:
    labels = np.array([[1.0], [10.0], [3.0]])
    assert class_indices(Path("y"), labels, 10, first=1).tolist() == [0, 9, 2]
    assert class_indices(Path("y"), labels, 10, first=1).dtype == np.int64


@pytest.mark.parametrize("bad", [0, 11, 2.5, np.nan, np.inf, -1e300])
def test_labels_outside_the_classes_are_refused(bad: float) -> None:
    with pytest.raises(DataError, match=r"y: expected labels from 1 to 10; got label .* at row 2"):
        class_indices(Path("y"), np.array([1, 10, bad]), 10, first=1)


def test_counts_must_agree() -> None:
    same_count(Path("y"), np.zeros((3, 2)), np.zeros(3))
    with pytest.raises(DataError, match="2 labels for 3 rows"):
        same_count(Path("y"), np.zeros((3, 2)), np.zeros(2))
    assert digit_names() == tuple("0123456789")
