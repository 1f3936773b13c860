import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch


@pytest.fixture(scope="module")
def pool(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("outside_teacher_pool")


@pytest.fixture(scope="module")
def report(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("outside_teacher_pool_report")


def record(report: ModuleType, data: str, losses: tuple[float, ...]) -> dict:
    scores = {
        name: {"cross_entropy": loss} for name, loss in zip(report.METHODS, losses, strict=True)
    }
    return {"data": data, "n_gold": 100, "teacher": "good", "scores": scores}


def test_tables_have_means_and_differences(report: ModuleType) -> None:
    losses = ((0.5, 0.4, 0.3, 0.6, 0.35), (0.5, 0.45, 0.3, 0.6, 0.35))
    some = [record(report, "embeddings", one) for one in losses]
    other = record(report, "moons", losses[0])
    found = report.summary([*some, other])
    assert list(found["worlds"]) == ["embeddings", "teacher: good"]
    first = found["worlds"]["embeddings"]
    assert first["cross_entropy"]["student"] == pytest.approx(0.425)
    change = first["student - default"]
    assert change["mean"] == pytest.approx(-0.075)
    assert (change["cells"], change["lower"]) == (2, 2)
    assert change["low"] < -0.1
    page = report.page(found)
    assert "| embeddings | 2 | 0.500 | 0.425 | 0.300 | 0.600 |" in page
    assert "−0.075" in page
    again = report.summary([other], found["worlds"])
    assert again["worlds"] == found["worlds"]  # earlier worlds are kept


def test_worlds_have_the_teachers_of_the_trial(pool: ModuleType) -> None:
    for name, n_classes, share in (("embeddings", 4, 0.7), ("digits-trial", 10, 0.8)):
        x, y, said = pool.world(name, 0)
        assert len(x) == len(y) == len(said)
        assert len(torch.unique(y)) == n_classes
        assert float((said == y).double().mean()) == pytest.approx(share, abs=0.05)


def test_a_cell_has_all_models_and_is_not_run_twice(
    pool: ModuleType, report: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = {"hidden": (8,), "steps": 10, "student_steps": 10, "unlabelled_batch": 16}
    setting = pool.NetworkSetting(**short)
    monkeypatch.setattr(pool, "NetworkSetting", lambda: setting)
    default = pool.DeSSLClassifier
    monkeypatch.setattr(
        pool, "DeSSLClassifier", lambda random_state: default(random_state=random_state, steps=10)
    )
    words = ["--cells", tmp_path, "--out", tmp_path, "--draws", 1, "--only", "digits-trial"]
    monkeypatch.setattr(sys, "argv", ["outside_teacher_pool.py", *map(str, words)])
    pool.main()
    file = tmp_path / "digits-trial-150-confuses-classes-0.json"
    assert set(json.loads(file.read_text())["scores"]) == {*report.METHODS, *report.MORE}
    monkeypatch.setattr(pool, "measured", lambda cell: pytest.fail("measured again"))
    pool.main()
    assert (tmp_path / "outside_teacher_pool.md").exists()


def test_parts_share_all_cells_and_keep_the_teachers_of_a_draw_together(pool: ModuleType) -> None:
    wanted = pool.cells(2)
    parts = [list(pool.in_part(wanted, f"{part}/3")) for part in (1, 2, 3)]
    assert sorted(cell for part in parts for cell in part) == sorted(wanted)
    homes = [{cell[:2] + cell[3:] for cell in part} for part in parts]
    assert not homes[0] & homes[1]
    assert len(pool.cells(pool.DRAWS)) == 20 + 800 + 80 + 700


def judged(report: ModuleType, teacher: str, draw: int, student: float, kept: bool) -> dict:
    names = (*report.METHODS, *report.MORE)
    scores = {name: {"cross_entropy": 0.5, "accuracy": 0.8} for name in names}
    scores[report.STUDENT] = {"cross_entropy": student, "accuracy": 0.9}
    choice = {"kept": kept, "sure": False, "gain": [0.01, -0.01, 0.03], "standard_error": 0.0101234}
    choice |= {"gain_over_alone": None, "answers_weight": 0.5}
    choices = dict.fromkeys((report.STUDENT, report.ANSWERS), choice)
    where = {"data": "moons", "n_gold": 300, "teacher": teacher, "draw": draw}
    return {**where, "scores": scores, "choices": choices, "seconds": 3.2}


def test_cells_say_where_answers_harm_help_and_are_used(report: ModuleType) -> None:
    bad = [judged(report, "shuffled", draw, 0.6 + 0.01 * draw, draw == 0) for draw in range(4)]
    good = [judged(report, "biased 0.4", draw, 0.4 - 0.01 * draw, True) for draw in range(4)]
    found = report.summary([*bad, *good])
    used = found["worlds"]["teacher: shuffled, 300 gold labels"]["gate"][report.STUDENT]
    assert (used["runs"], used["used"], used["help"]) == (4, 1, 0)
    page = report.page(json.loads(json.dumps(found)))
    assert "| teacher: shuffled, 300 gold labels | 4 | 25% (5% to 70%) | 0% (0% to 49%) |" in page
    assert "- student − gold only: moons, 300, shuffled (+0.1150" in page
    assert "student: lower than gold only and teacher only in 1 of 1 cells, significantly" in page
    head, first, *_ = report.table_of_runs(bad).splitlines()
    assert head.startswith("data,n_gold,teacher,draw,seconds,default,student,")
    assert first.startswith("moons,300,shuffled,0,3,0.5,0.6,")
    assert first.endswith("used,0.01,0.01012,0.5,used,0.01,0.01012,0.5")
