import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def accuracy(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("student_accuracy")


def record(accuracy: ModuleType, seed: int, truth: float) -> dict:
    one = {"accuracy": truth, "interval": [0.90, 0.85, 0.95], "averaging": 0.02}
    gold, teacher = accuracy.GOLD[0], accuracy.TEACHERS[0]
    models = dict.fromkeys(accuracy.MODELS, one)
    return {"seed": seed, "gold": gold, "teacher": teacher, "models": models}


def test_intervals_that_have_the_truth_are_counted(accuracy: ModuleType) -> None:
    # 0.94 is in [0.85, 0.95] but not in [0.83, 0.93]; 0.8 is in neither; 0.97 is above both.
    records = [record(accuracy, seed, truth) for seed, truth in enumerate((0.94, 0.8, 0.97))]
    now, before = (
        accuracy.coverage(records, "student", corrected=corrected) for corrected in (True, False)
    )
    assert (now["inside"], now["below the truth"]) == (1, 1)
    assert (before["inside"], before["below the truth"]) == (0, 2)
    assert now["mean error"] == pytest.approx(0.90 - (0.94 + 0.8 + 0.97) / 3)
    assert now["mean width"] == pytest.approx(0.1)
    share, low, high = now["coverage"]
    assert low < share < high
    page = accuracy.page(accuracy.summary(records))
    assert "| all | all | student | 3 | 33.3 % (6.1 to 79.2) | 1 |" in page  # Wilson's, by hand


def test_a_run_is_measured_once(
    accuracy: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accuracy, "TEST", 200)
    monkeypatch.setattr(accuracy, "UNLABELLED", 60)
    words = ["--runs", 1, "--file", tmp_path / "runs", "--out", tmp_path]
    monkeypatch.setattr(sys, "argv", ["student_accuracy.py", *map(str, words)])
    accuracy.main()
    found = json.loads((tmp_path / "runs").read_text())["models"]["student"]
    assert found["interval"][1] <= found["interval"][0] <= found["interval"][2]
    assert 0.2 < found["accuracy"] <= 1
    monkeypatch.setattr(accuracy, "measured", lambda seed: pytest.fail("measured again"))
    accuracy.main()
    assert (tmp_path / "student_accuracy.md").exists()
