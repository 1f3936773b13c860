from collections.abc import Callable
from types import ModuleType

import pytest


@pytest.mark.parametrize(
    ("n_unlabelled", "least", "most"), [(20, -0.5, 0.5), (25, 3.0, 6.0), (40, -2.0, 2.0)]
)
def test_targets_are_as_old_on_labelled_rows_after_whole_epochs(
    script: Callable[[str], ModuleType], n_unlabelled: int, least: float, most: float
) -> None:
    """20 labelled rows: 1, 1.25 and 2 labelled epochs in a round."""
    found = script("target_age").measured(20, n_unlabelled, seeds=6)
    assert least < found["older on labelled rows, %"] < most
    steps = found["steps of a round"]
    assert steps == n_unlabelled / 5
    assert found["age on unlabelled rows, steps"] == pytest.approx(steps, rel=0.06)
