"""A folder of results: whole, of one experiment, one data set and one way of training."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dessl.cli.main import main
from dessl.data import DataError
from dessl.results.record import Record, write_record
from dessl_paper.results import finished, read_experiment
from dessl_paper.run import begin
from dessl_paper.specification import Experiment

Tiny = Callable[..., Experiment]


def record(**other: Any) -> Record:
    entries: dict[str, Any] = {
        "experiment": "tiny", "profile": "smoke", "key": "a-1-x-lam1-seed0", "data": "a",
        "labels": 1, "method": "x", "title": "DeΠ", "risk": "ssl", "lam": 1.0, "seed": 0,
        "settings": {"plan": {"steps": 3}}, "metrics": {"accuracy": 0.5, "auc": None},
        "training": {"diverged": None}, "made_with": {"commit": None},
    }  # fmt: skip
    return Record(**(entries | other))


def test_what_is_no_experiments_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected the folder of an experiment, with experiment"):
        read_experiment(tmp_path)
    (tmp_path / "experiment.json").write_text("{}")
    with pytest.raises(
        DataError, match=r"an experiment; got Experiment is missing name,.* damaged"
    ):
        read_experiment(tmp_path)


@pytest.mark.parametrize("other", [{"experiment": "mnist"}, {"profile": "paper"}])
def test_a_record_of_another_experiment_is_refused(
    tmp_path: Path, tiny: Tiny, other: dict[str, str]
) -> None:
    begin(tmp_path, tiny(), resume=True)
    write_record(tmp_path, record())
    assert finished(tmp_path) == [record()]
    write_record(tmp_path, record(key="b-x-lam1-seed0", **other))
    (value,) = other.values()
    with pytest.raises(
        DataError, match=f"b-.*json: .* run of 'tiny' at .*; got one of .*'{value}'"
    ):
        finished(tmp_path)


def test_runs_on_real_and_on_made_up_rows_are_not_mixed(tmp_path: Path, tiny: Tiny) -> None:
    begin(tmp_path, tiny(), resume=True)
    settings = {"data": {"name": "mnist"}}
    write_record(tmp_path, record(data="mnist", settings=settings))
    write_record(
        tmp_path, record(key="b-x-lam1-seed0", data="rings", settings={"data": {"name": "rings"}})
    )
    assert len(finished(tmp_path)) == 2
    write_record(
        tmp_path, record(key="c-x-lam1-seed0", data="mnist (generated)", settings=settings)
    )
    with pytest.raises(
        DataError, match=r"for 'mnist' in all runs; got mnist and mnist \(generated"
    ):
        finished(tmp_path)


def test_runs_of_one_method_are_trained_alike_but_for_split_and_lambda(
    tmp_path: Path, tiny: Tiny
) -> None:
    begin(tmp_path, tiny(), resume=True)

    def write(seed: int, **plan: Any) -> None:
        plan = {"seed": seed, "lam": 1.0, "learning_rate": 0.1, **plan}
        key = f"a-1-x-lam{plan['lam']:g}-seed{seed}"
        settings = {"data": {"name": "a"}, "plan": plan, "curve": "test"}
        write_record(tmp_path, record(key=key, seed=seed, lam=plan["lam"], settings=settings))

    write(0)
    write(1, lam=2.0)
    write(2, patience=3)  # a setting that older runs did not have
    assert len(finished(tmp_path)) == 3
    write(3, learning_rate=9.0)
    with pytest.raises(
        DataError,
        match=r"seed3\.json: expected the plan of 'a-1-x.*learning_rate = 9\.0, not 0\.1",
    ):
        finished(tmp_path)


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
        (lambda entries: entries["methods"][0].pop("lams"), "methods[0] is missing lams"),
        (lambda entries: entries.update(metrics=None), "metrics must be a list; got None"),
        (lambda entries: entries.update(data="x"), "data must be a list; got 'x'"),
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
        (lambda entries: entries["training"].update(steps="many"), "steps must be a whole number"),
        (
            lambda entries: entries["training"].update(seconds="long"),
            "seconds must be a finite number",
        ),
        (
            lambda entries: entries["made_with"].update(processes="many"),
            "processes must be a whole number",
        ),
        (
            lambda entries: entries["metrics"].update(accuracy="abc"),
            "metrics.accuracy must be a number",
        ),
        (lambda entries: entries.update(lam=None), "lam must be a finite number; got None"),
        (lambda entries: entries.update(lam=float("nan")), "lam must be a finite number; got nan"),
        (lambda entries: entries["settings"].update(data="x"), "data must be a table"),
        (
            lambda entries: entries["history"][0].pop("step"),
            "evaluated_at[0] must be a whole number; got None",
        ),
        (
            lambda entries: entries["history"][0].update(validation={"brier": []}),
            "validation[0].brier must be a number",
        ),
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
