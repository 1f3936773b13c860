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
        "gpu_gib_of_others": 0.6,
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
    assert held(speedrun, [*five, *untimed])  # an entry of its own
    (row,) = speedrun.entries(untimed)
    assert row["seconds"] == 275
    assert row["misses"] == ["timed from the start of training"]
    assert "no: timed from the start of training" in speedrun.board([row])


@pytest.mark.parametrize(
    ("change", "miss"),
    [
        ({"gpu_gib_of_others": 5.0}, "GPU shared (5.0 GiB)"),
        ({"gpu_gib_of_others": None}, "other use of the GPU not recorded"),
        ({"method": "softmatch", "labels": 250}, "method selected on the test set"),
        ({"seed": 7}, "4 of 5 seeds"),
        ({"training": {"seconds": 9, "diverged": "at step 3"}}, "1 of 5 trainings diverged"),
    ],
)
def test_a_rule_that_is_missed_is_named(
    speedrun: ModuleType, change: dict[str, Any], miss: str
) -> None:
    found = [log(seed, accuracy) for seed, accuracy in enumerate(GOOD)]
    for _, one in found if "method" in change else found[:1]:
        one.update(change)
    (row,) = speedrun.entries(found)
    assert row["misses"] == [miss]
    assert f"no: {miss} |" in speedrun.board([row])
    assert not any(speedrun.counts(row, target) for target in row["p"])


def test_a_seed_trained_twice_shows_the_number_of_trainings(speedrun: ModuleType) -> None:
    (row,) = speedrun.entries([log(0, 0.95), log(0, 0.96)])
    assert (row["seeds"], row["trainings"], row["accuracy, %"]) == (1, 2, 95.5)
    assert "| 1 (2 trainings) |" in speedrun.board([row])


@pytest.fixture
def committed(speedrun: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Write a log where entries go, and read all entries."""
    monkeypatch.setattr(speedrun, "ROOT", tmp_path)
    monkeypatch.setattr(speedrun, "ENTRIES", tmp_path / "entries")
    monkeypatch.setattr(speedrun.image_labels, "read_results", dict)
    (tmp_path / "entries" / "mine").mkdir(parents=True)
    (tmp_path / "benchmarks" / "results").mkdir(parents=True)

    def write(content: Any, where: str = "entries/mine/0.json") -> list[dict]:
        (tmp_path / where).write_text(json.dumps(content))
        return speedrun.entries(list(speedrun.logs()))

    return write


@pytest.mark.parametrize("where", ["entries/mine/0.json", "benchmarks/results/mine.json"])
def test_a_log_of_any_method_is_an_entry(committed, where: str) -> None:
    _, found = log(0, 0.95, method="my_own", title="Mine")
    (row,) = committed(found, where)
    assert row["method"] == "Mine"
    assert row["logs"] == [where]
    assert committed(found | {"judged_on": "100 held-out labels"}, where) == []


@pytest.mark.parametrize("where", ["entries/mine/0.json", "benchmarks/results/mine.json"])
@pytest.mark.parametrize("lacking", ["title", "labels", "metrics", "training", "made_with"])
def test_a_log_that_lacks_a_field_is_an_error_that_names_it(
    committed, lacking: str, where: str
) -> None:
    _, found = log(0, 0.95)
    del found[lacking]
    with pytest.raises(SystemExit, match=rf"\.json: the log lacks {lacking}.*docs/speedrun.md"):
        committed(found, where)


def test_no_file_among_the_entries_is_passed_over(committed) -> None:
    _, found = log(0, 0.95)
    del found["settings"]["plan"]["optimiser"]
    with pytest.raises(SystemExit, match=r"0\.json: the log lacks settings/plan/optimiser\."):
        committed(found)
    with pytest.raises(SystemExit, match=r"0\.json: the log lacks data, labels, method"):
        committed([1, 2])
    for change in ({"data": "cifar10 (generated)"}, {"labels": 1000}):
        with pytest.raises(SystemExit, match=r"'cifar10' and 4,000, 250 or 40 labels; got"):
            committed(log(0, 0.95, **change)[1])


def test_other_results_are_no_entries(committed) -> None:
    for content in ([1], {"data": "cifar10"}, log(0, 0.95, labels=1000)[1]):
        assert committed(content, "benchmarks/results/other.json") == []


def test_the_runs_of_image_labels_are_entries(speedrun: ModuleType) -> None:
    rows = [row for row in speedrun.entries(list(speedrun.logs())) if row["labels"] == 250]
    (best,) = [row for row in rows if row["method"] == "DeSoftMatch" and row["steps"] == 8000
               and row["network"].startswith("fast_cifar")]  # fmt: skip
    which = ("softmatch", 250, "fast_cifar")
    runs = [run for run in speedrun.image_labels.read_results().values()
            if (run["form"], run["labels"], run["network"]) == which]  # fmt: skip
    assert best["accuracy, %"] == round(
        float(np.mean([100 * run["metrics"]["accuracy"] for run in runs])), 2
    )
    assert best["longest"] == round(max(run["seconds"] for run in runs), 1)
    assert best["misses"] == [
        "timed from the start of training",
        "other use of the GPU not recorded",
        "method selected on the test set",
    ]
    assert best["logs"] == ["benchmarks/results/image_labels.json"]


def test_a_start_without_labels_is_another_entry(speedrun: ModuleType) -> None:
    plain, learnt = log(0, 0.95), log(0, 0.96)
    learnt[1]["settings"]["model"]["contrastive_steps"] = 5000
    best, other = speedrun.entries([plain, learnt])
    assert best["network"] == f"{other['network']}, after 5,000 contrastive steps"


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
    assert sum(row["trainings"] for row in rows) == len(list(speedrun.logs())) > 10
    assert all("held-out" not in one.get("judged_on", "") for _, one in speedrun.logs())
