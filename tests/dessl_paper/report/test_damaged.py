import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dessl.cli.main import main

Entries = dict[str, Any]


def said_of(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What dessl report says in refusing a folder."""
    with pytest.raises(SystemExit) as left:
        main(["report", str(folder)])
    assert left.value.code == 2
    return " ".join(capsys.readouterr().err.split())


def change_file(path: Path, change: Callable[[Entries], object]) -> None:
    entries = json.loads(path.read_text(encoding="utf-8"))
    change(entries)
    path.write_text(json.dumps(entries), encoding="utf-8")


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1000")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda entries: entries["methods"][0].pop("lams"), "Method is missing lams"),
        (lambda entries: entries.update(metrics=None), "metrics None"),
        (lambda entries: entries.update(data="x"), "data 'x'"),
        (lambda entries: entries.pop("name"), "Experiment is missing name"),
    ],
)
def test_a_damaged_experiment_is_named(
    smoke: Callable[[str], Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[Entries], object],
    complaint: str,
) -> None:
    folder = shutil.copytree(smoke("mnist"), tmp_path / "mnist")
    change_file(folder / "experiment.json", change)
    said = said_of(folder, capsys)
    assert f"{folder / 'experiment.json'}: expected JSON of an experiment; got {complaint}" in said
    assert "The file is damaged" in said


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda entries: entries["training"].update(steps="many"), "steps 'many'"),
        (lambda entries: entries["training"].update(seconds="long"), "seconds 'long'"),
        (lambda entries: entries["metrics"].update(accuracy="abc"), "metrics 'abc'"),
        (lambda entries: entries.update(lam=None), "lam None"),
        (lambda entries: entries.update(lam=float("nan")), "lam nan"),
        (lambda entries: entries["settings"].update(data="x"), "data 'x'"),
        (lambda entries: entries["history"][0].pop("step"), "evaluated_at None"),
        (lambda entries: entries["history"][0].update(validation={"brier": []}), "validation []"),
    ],
)
def test_a_damaged_record_is_named(
    smoke: Callable[[str], Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[Entries], object],
    complaint: str,
) -> None:
    folder = shutil.copytree(smoke("mnist"), tmp_path / "mnist")
    file = sorted((folder / "runs").glob("*.json"))[-1]
    change_file(file, change)
    assert f"{file}: expected JSON of a run; got {complaint}" in said_of(folder, capsys)


def test_what_is_only_seen_in_use_names_the_folders_files(
    smoke: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(smoke("toy"), tmp_path / "toy")
    for file in (folder / "runs").glob("*.json"):
        change_file(file, lambda entries: entries["arrays"].pop("grid"))
    said = said_of(folder, capsys)
    assert f"{folder / 'experiment.json'} or {folder / 'runs'}: expected what dessl wrote" in said
    assert "KeyError: 'grid'" in said


@pytest.mark.parametrize("metric", ["ssl_largest_bias_in_errors", "least_ratio"])
def test_of_numbers_that_are_not_there_nothing_is_said(
    smoke: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], metric: str
) -> None:
    folder = shutil.copytree(smoke("risk-quality"), tmp_path / "risk-quality")
    (file,) = (folder / "runs").glob("*.json")
    change_file(file, lambda entries: entries["metrics"].pop(metric))
    assert f"KeyError: '{metric}'" in said_of(folder, capsys)
