"""The speed run: its test against SciPy's, its rules, and a board that is that of the logs."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy import stats


@pytest.fixture(scope="module")
def speedrun(script) -> ModuleType:
    return script("speedrun")


def log(seed: int, accuracy: float, seconds: float = 280.0, **more: Any) -> tuple[Path, dict]:
    settings = {
        "plan": {
            "seed": seed,
            "steps": 10,
            "optimiser": "muon",
            "learning_rate": 0.1,
            "weight_decay": 0.0,
        },
        "model": {"name": "fast_cifar"},
        "surrogate": {"name": "fixmatch"},
    }
    found = {
        "data": "cifar10",
        "labels": 4000,
        "method": "de_fixmatch",
        "title": "DeFixMatch",
        "seed": seed,
        "settings": settings,
        "metrics": {"accuracy": accuracy},
        "training": {"seconds": seconds - 5},
        "seconds_from_command": seconds,
        "made_with": {"device": "NVIDIA H200"},
    }
    return Path(__file__).parents[2] / f"run{seed}.json", found | more


@pytest.mark.parametrize("n", [2, 5, 20])
@pytest.mark.parametrize("target", [95.0, 95.44])
def test_the_p_value_is_scipys(speedrun: ModuleType, n: int, target: float) -> None:
    accuracies = np.random.default_rng(n).normal(95.4, 0.2, n)
    expected = stats.ttest_1samp(accuracies, target, alternative="greater").pvalue
    assert speedrun.p_value(accuracies.tolist(), target) == pytest.approx(expected, rel=1e-9)


def test_one_seed_has_no_p_value_and_equal_ones_are_certain(speedrun: ModuleType) -> None:
    assert speedrun.p_value([99.0], 95.0) is None
    assert speedrun.p_value([96.0] * 5, 95.0) == 0
    assert speedrun.p_value([95.0] * 5, 95.0) == 1


GOOD = [0.9560, 0.9562, 0.9558, 0.9561, 0.9559]


def held(speedrun: ModuleType, found: list[tuple[Path, dict]]) -> bool:
    return speedrun.holder(speedrun.TRACKS[0], speedrun.entries(found)) is not None


def test_a_record_takes_five_seeds_the_test_and_the_clock(speedrun: ModuleType) -> None:
    five = [log(seed, accuracy) for seed, accuracy in enumerate(GOOD)]
    assert held(speedrun, five)
    assert not held(speedrun, five[:4])
    assert not held(speedrun, [log(0, accuracy) for accuracy in GOOD])  # one seed, five times
    wide = [log(seed, accuracy) for seed, accuracy in enumerate([*GOOD[:4], 0.947])]
    assert not held(speedrun, wide)
    untimed = [(file, {k: v for k, v in one.items() if k != "seconds_from_command"})
               for file, one in five]  # fmt: skip
    assert not held(speedrun, untimed)
    (row,) = speedrun.entries(untimed)
    assert row["seconds"] == 275
    assert "timed from the start of training" in speedrun.board([row])


def test_mirrored_accuracy_does_not_count(speedrun: ModuleType) -> None:
    poor = [
        log(seed, 0.95, as_it_is={"accuracy": 0.95}, mirrored={"accuracy": accuracy})
        for seed, accuracy in enumerate(GOOD)
    ]
    assert not held(speedrun, poor)
    (row,) = speedrun.entries(poor)
    assert (row["accuracy, %"], row["mirrored, %"]) == (95.0, 95.6)


def test_the_fastest_of_those_at_the_target_holds_the_record(speedrun: ModuleType) -> None:
    slow = [log(seed, accuracy) for seed, accuracy in enumerate(GOOD)]
    fast = [log(seed, accuracy, 100.0, method="fixmatch_star", title="FixMatch*")
            for seed, accuracy in enumerate(GOOD)]  # fmt: skip
    rows = speedrun.entries([*slow, *fast])
    assert len(rows) == 2
    assert speedrun.holder(speedrun.TRACKS[0], rows)["method"] == "FixMatch*"


def test_the_committed_board_is_that_of_the_committed_logs(speedrun: ModuleType) -> None:
    rows = speedrun.entries(list(speedrun.logs()))
    again = "Run python benchmarks/speedrun.py."
    assert json.loads(speedrun.FILE.read_text(encoding="utf-8")) == rows, again
    board = speedrun.FILE.with_suffix(".md").read_text(encoding="utf-8")
    assert board == speedrun.board(rows), again
    assert sum(len(row["logs"]) for row in rows) == len(list(speedrun.logs())) > 10
    assert all("held-out" not in one.get("judged_on", "") for _, one in speedrun.logs())


def test_a_training_is_timed_from_the_command(script) -> None:
    assert script("fixmatch_ten_minutes").since_command() > 0.1  # imports alone take longer
