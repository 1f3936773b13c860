import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="module")
def fresh(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("outside_teacher_fresh")


def test_every_table_is_fresh_and_has_every_teacher(
    fresh: ModuleType, script: Callable[[str], ModuleType]
) -> None:
    assert {*fresh.SETS} <= {*script("gains_fresh").FRESH}
    wanted = fresh.cells(fresh.DRAWS)
    assert len({*wanted}) == len(wanted) == 8 * 10 * 4


def test_a_cell_is_measured_with_every_model(
    fresh: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tree_students  # where the rows are read and the networks are trained

    short = {"hidden": (8,), "steps": 10, "student_steps": 10, "unlabelled_batch": 16}
    setting = tree_students.NetworkSetting(**short)
    monkeypatch.setattr(tree_students, "NetworkSetting", lambda: setting)
    monkeypatch.setattr(fresh, "SETS", ("beps",))
    monkeypatch.setattr(fresh, "GOLD_LABELS", (40,))
    monkeypatch.setattr(fresh, "TEACHERS", {"must do no harm": ("shuffled",)})
    x = np.random.default_rng(0).normal(size=(300, 3))
    tables = tmp_path / "tables.npz"
    np.savez(tables, **{"beps.x": x, "beps.y": (x[:, 0] > 0).astype(int)})
    words = ["--cells", str(tmp_path), "--tables", str(tables), "--draws", "1"]
    fresh.main(words)
    found = json.loads((tmp_path / "beps-40-shuffled-0.json").read_text())
    assert {*found["scores"]} == {method for pair in fresh.PAIRS for method in pair}
    assert {*found["kept"]} == {fresh.STUDENT, fresh.ANSWERS}


def record(fresh: ModuleType, teacher: str, draw: int, student: float) -> dict[str, Any]:
    losses = {fresh.GOLD: 0.6, fresh.TEACHER: 0.9, fresh.WITHOUT: 0.5, fresh.STUDENT: student}
    losses[fresh.ANSWERS] = student - 0.1
    scores = {name: {"cross_entropy": v, "accuracy": 1 - v} for name, v in losses.items()}
    kept = {fresh.STUDENT: draw == 0, fresh.ANSWERS: False}
    own = {"data": "beps", "n_gold": 100, "teacher": teacher, "draw": draw}
    return {**own, "scores": scores, "kept": kept}


def test_counts_are_of_paired_differences(fresh: ModuleType) -> None:
    records = [record(fresh, "biased 0.6", draw, 0.4 + 0.01 * draw) for draw in (0, 1)]
    records += [record(fresh, "shuffled", draw, 0.7 + 0.001 * draw) for draw in (0, 1)]
    found = fresh.summary(records)
    gap = found["differences"]["student − gold only"]["beps, 100, biased 0.6"]
    assert gap.mean == pytest.approx(-0.195)
    page = fresh.page(found)
    assert "| must do no harm | student − gold only | 1 | +0.101 | 0 | 1 | 0 |" in page
    assert "Of 2 runs with shuffled answers, these used them: student 1, " in page


def test_the_committed_page_is_that_of_its_numbers(fresh: ModuleType) -> None:
    results = Path(fresh.__file__).parent / "results"
    found = json.loads((results / "outside_teacher_fresh.json").read_text())
    assert fresh.page(found) == (results / "outside_teacher_fresh.md").read_text()
