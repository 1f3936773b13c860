from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def labels(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("image_labels")


def record(form: str, draw: int, accuracy: float | None) -> dict:
    metrics = {"accuracy": accuracy, "cross_entropy": 0.5, "brier": 0.2}
    run = {"form": form, "network": "fast_cifar", "labels": 250, "draw": draw}
    return {**run, "metrics": metrics, "diverged": None if accuracy is not None else "yes"}


def test_the_table_has_each_draw_the_mean_and_what_diverged(labels: ModuleType) -> None:
    records = [record("de_fixmatch", 1, 0.9), record("de_fixmatch", 0, 0.8)]
    records += [record("bounded_star", 0, None)]
    text = labels.table(records)
    assert "| DeFixMatch | 80.0, 90.0 | 85.0 ± 63.5 | 0.500 ± 0.000 |" in text
    assert "| DeFixMatch*, bound |  |  |  |  | 1 of 1 |" in text
    assert "minus" not in text


def test_differences_are_paired_over_draws(labels: ModuleType) -> None:
    pairs = [(0, 0.8, 0.7), (1, 0.9, 0.7), (2, 0.9, None)]
    records = [
        record(form, draw, value)
        for draw, *values in pairs
        for form, value in zip(("de_fixmatch", "fixmatch"), values, strict=True)
    ]
    assert "- DeFixMatch minus FixMatch: accuracy 15.0 ± 63.5, cross-entropy" in labels.table(
        records
    )


def test_the_draw_that_selected_a_form_is_left_out(labels: ModuleType) -> None:
    records = [record("softmatch", 0, 0.9), record("fixmatch_star", 0, 0.8)]
    assert "minus" not in labels.table(records)
    records += [record("softmatch", 1, 0.7), record("fixmatch_star", 1, 0.8)]
    assert "- DeSoftMatch minus FixMatch*: accuracy -10.0, cross-entropy 0.000 (1 draws)" in (
        labels.table(records)
    )


def test_runs_go_draw_by_draw(labels: ModuleType) -> None:
    whole = labels.runs_of(labels.arguments([]))
    assert len(whole) == len({run.file for run in whole}) == 5 * 4 * len(labels.FORMS)
    assert [run.draw for run in whole] == sorted(run.draw for run in whole)


def test_no_run_is_started_after_one_that_failed(
    labels: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [labels.Run("fixmatch", "fast_cifar", number, 0) for number in range(20)]
    started: list[int] = []

    def answer(command: list[str], **_: object) -> CompletedProcess[str]:
        number = labels.arguments(command[2:]).labels[0]
        started.append(number)
        return CompletedProcess(command, int(number == 3), "said\nmore", f"{number} is bad")

    monkeypatch.setattr(labels.subprocess, "run", answer)
    options = labels.arguments(["--jobs", "1"])
    with pytest.raises(RuntimeError, match=r"fixmatch-fast_cifar-3-0.json: 3 is bad"):
        labels.in_processes(runs, options, tmp_path)
    assert started == [0, 1, 2, 3]
    started.clear()
    labels.in_processes(runs, labels.arguments(["--jobs", "2", "--minutes", "0"]), tmp_path)
    assert started == []


@pytest.mark.slow
def test_processes_share_the_runs(labels: ModuleType, tmp_path: Path) -> None:
    forms = ["fixmatch", "softmatch", "complete_case"]
    labels.main(["--smoke", "--jobs", "2", "--forms", *forms, "--runs", str(tmp_path)])
    assert {path.name.partition("-")[0] for path in tmp_path.iterdir()} == set(forms)


@pytest.mark.slow
def test_a_run_is_measured_once_and_collected(
    labels: ModuleType,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(labels, "RESULTS", tmp_path / "results" / "found.json")
    (tmp_path / "results").mkdir()
    command = ["--smoke", "--forms", "smooth_star", "--runs", str(tmp_path / "runs")]
    labels.main(command)
    assert "smooth_star-fast_cifar-40-0.json" in capsys.readouterr().out
    labels.main(command)
    assert "smooth_star-fast_cifar" not in capsys.readouterr().out
    labels.main(["--runs", str(tmp_path / "runs"), "--collect"])
    assert "1 runs," in (tmp_path / "results" / "found.md").read_text()
    assert list(labels.read_results()) == ["smooth_star-fast_cifar-40-0.json"]
