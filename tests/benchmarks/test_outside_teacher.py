import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from dessl.evaluation import metrics_from_probabilities


@pytest.fixture(scope="module")
def outside(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("outside_teacher")


@pytest.fixture(scope="module")
def gaps(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("outside_teacher_gaps")


@pytest.fixture(scope="module")
def verdicts(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("outside_teacher_verdicts")


@pytest.fixture(scope="module")
def report(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("outside_teacher_report")


def test_teachers_are_what_they_are_called(outside: ModuleType) -> None:
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(4000, 3, generator=g), torch.randint(3, (4000,), generator=g)

    def metrics(kind: str):
        return metrics_from_probabilities(outside.answers_of(kind, x, y, seed=1), y)

    good, noisy, sure = metrics("good"), metrics("noisy"), metrics("overconfident")
    assert good.ece < 0.03
    assert good.accuracy > noisy.accuracy + 0.1
    assert sure.accuracy == noisy.accuracy
    assert sure.ece > 0.15
    assert metrics("shuffled").accuracy == pytest.approx(1 / 3, abs=0.03)
    assert metrics("inverted").accuracy < 0.05
    permuted = outside.answers_of("permuted", x, y, seed=1)
    assert torch.equal(permuted.roll(-1, dims=1), outside.answers_of("good", x, y, seed=1))
    biased = [metrics(f"biased {s}").accuracy for s in outside.STRENGTHS]
    assert biased == sorted(biased, reverse=True)
    assert biased[-1] < good.accuracy - 0.2
    hard = outside.answers_of("hard", x, y, seed=1)
    assert torch.equal(hard, outside.answers_of("biased 0.6", x, y, seed=1).argmax(1))
    region = metrics("region 0.4")
    assert region.accuracy == pytest.approx(good.accuracy * 0.8, abs=0.04)


def test_every_data_set_has_rows_for_its_gold_labels(outside: ModuleType) -> None:
    for name, sizes in outside.SETS.items():
        x, y = outside.rows_of(name)
        assert x.shape == (len(y), x.shape[1])
        assert len(y) - len(y) // 4 > max(sizes) + 10
        assert int(y.min()) == 0
        assert len(y.unique()) == int(y.max()) + 1


def test_the_table_counts_cells_significantly_worse_and_better(gaps: ModuleType) -> None:
    def record(draw: int, teacher: str, gap: float) -> dict:
        scores = {
            "gold only": {"cross_entropy": 1.0 + draw, "accuracy": 0.5},
            "ours": {"cross_entropy": 1.0 + draw + gap + 0.001 * draw, "accuracy": 0.6},
        }
        return {"data": "d", "n_gold": 100, "teacher": teacher, "draw": draw, "scores": scores}

    records = [record(d, t, gap) for d in range(3) for t, gap in (("good", -0.1), ("noisy", 0.2))]
    found = gaps.gaps(records, "cross_entropy")
    assert found["ours"]["d, 100, good"].mean == pytest.approx(-0.099)
    both = gaps.table(found, ("good", "noisy"))
    assert "| ours | 2 | +0.051 (" in both
    assert "| 1 | 1 | +0.201 |" in both
    assert "| ours | 1 | -0.099 | 0 | 1 | -0.099 |" in gaps.table(found, ("good",))


def test_steps_leave_out_draws_without_a_method_and_cells_of_one_draw(gaps: ModuleType) -> None:
    def record(draw: int, data: str = "d", **losses: float) -> dict:
        scores = {name: {"cross_entropy": loss} for name, loss in losses.items()}
        return {"data": data, "n_gold": 100, "teacher": "good", "draw": draw, "scores": scores}

    records = [record(draw, student=1.0, debiased=0.8 + 0.1 * draw) for draw in range(2)]
    records += [record(2, student=5.0), record(0, "alone", student=1.0, debiased=9.0)]
    found = gaps.difference(records, "debiased", "student")
    assert list(found) == ["d, 100, good"]
    assert found["d, 100, good"].mean == pytest.approx(-0.15)
    assert not gaps.better(found)  # two draws: the interval is wide


def test_verdicts_name_the_cells_that_are_worse(verdicts: ModuleType) -> None:
    def record(draw: int, teacher: str, ours: float, imitation: float) -> dict:
        losses = {"gold only": 1.0, "gold only, as long": 1.0, "teacher only": imitation}
        losses |= dict.fromkeys((verdicts.OURS, verdicts.LISTENING), ours + 0.001 * draw)
        scores = {name: {"cross_entropy": loss} for name, loss in losses.items()}
        return {"data": "d", "n_gold": 100, "teacher": teacher, "draw": draw, "scores": scores}

    cells = {"shuffled": (1.2, 3.0), "inverted": (0.9, 3.0)}
    cells |= {"biased 0.2": (0.9, 3.0), "biased 1.0": (0.9, 0.5)}
    records = [record(draw, name, *losses) for name, losses in cells.items() for draw in range(3)]
    harm = verdicts.harm(records)
    assert "alone: 1 of 2 cells** (d, 100, shuffled +0.201)" in harm
    assert "| inverted | 1 | 0 | 1 | -0.099 |" in harm
    gain = verdicts.gain(records)
    assert "in **1 of 2 cells**, significantly lower than both in **1**" in gain
    assert "than the imitation: d, 100, biased 1.0 +0.401" in gain
    assert "| biased 1.0 | 1 | 1 | 0 | 0 | -0.099 | 0 | -0.099 |" in gain
    steps = verdicts.steps(records)
    assert "| longer training, no teacher | +0.000 (0 / 0 / 4) |" in steps


def cell(teacher: str, fall: float, change: float) -> dict:
    """A run in which gold rows see a fall and test rows a change."""
    verdict = {"gold_only_loss": 1.0, "without_loss": 0.9, "standard_error": 0.1}
    verdict |= {"pooled_loss": 0.9 - fall, "accuracy": {"low": 0.0, "high": 0.4}}
    verdict |= {"accuracy_gold_rows": {"low": 0.0, "high": 0.5}}
    without, pooled = "correct, distil, pool, gate, without answers", "without a gate"
    losses = {without: 0.9, without.replace("without answers", pooled): 0.9 + change}
    listening = "with the teacher at prediction time, "
    losses |= {"gold only": 1.0, "teacher only": 2.0, "correct, distil, pool, gate": 0.9}
    losses |= {listening.rstrip(", "): 0.5}
    losses |= {listening + "without answers": 0.9, listening + "without a gate": 0.5}
    return {
        "data": "wine",
        "n_gold": 60,
        "teacher": teacher,
        "draw": 0,
        "seconds": 1.0,
        "scores": {name: {"cross_entropy": loss, "accuracy": 0.5} for name, loss in losses.items()},
        "report": {"student": verdict, "with_answers": verdict},
        "earlier": {**verdict, "pooled_loss": 0.5},
    }


def test_judges_and_gates_count_what_a_shuffled_teacher_was_believed(report: ModuleType) -> None:
    records = [cell("shuffled", -0.05, 0.02), cell("shuffled", 0.05, 0.02)]
    text = report.judges(records)
    assert "(before) | 100% (" in text
    assert "(now) | 50% (" in text
    assert "| on test rows | | | | -0.0200" in text
    records += [cell("good", 0.3, -0.4)] * 2
    by_z = report.gates(records, report.OURS, "student").splitlines()[2:]
    assert by_z[0].split(" | ")[2] == "-0.0900"  # one of two used: −.1 and −.08
    assert by_z[2].split(" | ")[2] == "-0.1000"  # none by one standard error
    assert by_z[2].split(" | ")[4].startswith("-0.3000")  # −.1, −.1, −.5, −.5


def test_shares_have_wilson_intervals(report: ModuleType) -> None:
    assert report.share([False] * 10) == "0% (0% to 28%)"
    assert report.share([True, False] * 50) == "50% (40% to 60%)"


def test_the_page_has_every_part(report: ModuleType) -> None:
    records = [{**cell(t, 0.1, 0.1), "draw": d} for t in ("shuffled", "biased 0.6") for d in (0, 1)]
    page = report.page(records)
    for part in (
        "4 runs in 2 cells of data set, gold labels and teacher (draws: 2 with 2;",
        "## Does a bad teacher harm?",
        "## When did debiasing, correcting or pooling bring the gain?",
        "## The judge",
        "mean 0.80",
        "## What the answers brought",
    ):
        assert part in page


def test_no_minutes_sum_up_what_is_there(
    outside: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for draw in (0, 1):
        file = outside.Cell("wine", 60, "shuffled", draw).file
        (tmp_path / file).write_text(json.dumps({**cell("shuffled", 0.1, 0.1), "draw": draw}))
    line = ["outside_teacher.py", "--minutes", "0", "--cells", str(tmp_path), "--out", "."]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", line)
    outside.main()
    assert len(list(tmp_path.iterdir())) == 4
    assert json.loads((tmp_path / "outside_teacher.json").read_text())["runs"] == 2


def test_cells_come_draw_after_draw_the_useless_teacher_first(outside: ModuleType) -> None:
    every = outside.cells(list(outside.SETS), [60, 100, 300], list(outside.TEACHERS), 2)
    assert [cell.draw for cell in every] == sorted(cell.draw for cell in every)
    assert len(every) == len(set(every)) == 2 * 15 * len(outside.TEACHERS)
    assert every[0].teacher == "shuffled"


def test_a_cell_has_every_method_and_both_verdicts(
    outside: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = {"hidden": (8,), "steps": 10, "student_steps": 10, "unlabelled_batch": 16}
    setting = outside.NetworkSetting(**short)
    monkeypatch.setattr(outside, "NetworkSetting", lambda: setting)
    found = outside.measured(outside.Cell("wine", 60, "good", 0))
    ours = "correct, distil, pool, gate"
    names = {"gold only", "self-taught student", "student", "teacher only", ours, "usual mix"}
    names |= {f"{ours}, without answers", f"{ours}, without a gate", "debiased, relative slope"}
    assert names <= set(found["scores"])
    now = found["report"]["student"]["gold_only_loss"]
    assert found["earlier"]["gold_only_loss"] <= now + 1e-6  # the same network may round otherwise
    error = found["report"]["student"]["standard_error"]
    kept = ours + (", without a gate" if gain(found) > error else ", without answers")
    assert found["scores"][ours] == found["scores"][kept]


def gain(found: dict) -> float:
    choice = found["report"]["student"]
    return choice["without_loss"] - choice["pooled_loss"]
