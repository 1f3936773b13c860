from collections.abc import Callable
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def verdicts(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("estimator_verdict")


def test_the_summary_counts_misses_by_side_and_wrong_outcomes(verdicts: ModuleType) -> None:
    interval = {"low": -0.2, "high": -0.1, "difference": -0.15}
    found = verdicts.summary(
        [
            {**interval, "truth": -0.15, "outcome": "better"},
            {**interval, "truth": 0.05, "outcome": "better"},
            {**interval, "truth": -0.3, "outcome": "no practical difference"},
            {**interval, "truth": -0.15, "outcome": "cannot tell yet"},
        ]
    )
    assert found["covered_percent"] == 50
    assert (found["truth_above_percent"], found["truth_below_percent"]) == (25, 25)
    assert found["wrong"] == {"better": 1, "worse": 0, "no practical difference": 1}


@pytest.mark.slow
def test_a_draw_has_an_interval_and_the_truth(verdicts: ModuleType) -> None:
    found = verdicts.draw(verdicts.SETTINGS["one network"], 0)
    assert found["low"] < found["high"]
    assert abs(found["truth"]) < 0.5
