"""The folder of ``dessl fit``: nothing of the user's is touched, and there is always a model."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from dessl.cli.fit_folder import own_folder, put_model
from dessl.cli.predict import run_model
from dessl.recipes import Predictor
from dessl.recipes.architecture import Architecture
from dessl.saved import SavedModel, load_model

Cli = Callable[..., tuple[int, str, str]]
MODELS = ("model", "complete-case")
SETTINGS = {"risk": "debiased", "lam": 0.5, "networks": 1, "pool": False}


def fit(cli: Cli, folder: Path, out: Path, *more: object) -> tuple[int, str, str]:
    labels = ("ill", "well", "", "")
    rows = ["age,outcome", *(f"{20 + i * 7 % 31},{labels[i % 4]}" for i in range(40))]
    (folder / "people.csv").write_text("\n".join(rows))
    options = ("--label", "outcome", "--steps", 2, "--lam", 0.5, "--networks", 1, "--no-refit")
    return cli("fit", folder / "people.csv", "--out", out, *options, *more)


def tree(folder: Path) -> dict[str, bytes | None]:
    """All that lies in a folder, with the contents of files."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("mine")


def left_alone(cli: Cli, folder: Path, out: Path, says: str, *more: object) -> None:
    before = tree(out)
    code, shown, err = fit(cli, folder, out, *more)
    assert (code, shown, err.count("\n")) == (2, "", 1), err
    assert says in err
    assert tree(out) == before


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--seed", 1), "out has a different run (--seed: 0 there, 1 now). Choose another folder"),
        (("--hold-out", 0.3, "--margin", 0.1), "(--hold-out: 0.2 there, 0.3 now)"),
        (
            ("--missing-label", "x", "--missing-label", "?", "--seed", 2),
            "(--missing-label: not given there, x, ? now; --seed: 0 there, 2 now)",
        ),
    ],
)
def test_other_options_are_named(
    cli: Cli, tmp_path: Path, more: tuple[object, ...], says: str
) -> None:
    assert fit(cli, tmp_path, tmp_path / "out")[0] == 0
    (tmp_path / "out" / "training" / "finished.json").unlink()  # as if it had been interrupted
    code, _, err = fit(cli, tmp_path, tmp_path / "out", *more)
    assert code == 2
    assert says in err
    assert not re.search("[0-9a-f]{64}", err)


def test_other_contents_of_a_file_are_named(cli: Cli, tmp_path: Path) -> None:
    assert fit(cli, tmp_path, tmp_path / "out")[0] == 0
    place = tmp_path / "people.csv"
    command = ("fit", place, "--out", tmp_path / "out", "--label", "outcome", "--steps", 2)
    command = (*command, "--lam", 0.5, "--networks", 1, "--no-refit")
    place.write_text(place.read_text().replace("20,", "19,"))
    code, _, err = cli(*command)
    assert code == 2
    assert f"(the contents of {place} changed)" in err
    (tmp_path / "out" / "training" / "options.json").unlink()  # a run of an older version
    code, _, err = cli(*command)
    assert code == 2
    assert "has a different run (different rows or labels)" in err


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (("model/mine.bin", "training/a.txt", "report.html"), "model, report.html, training not"),
        (("complete-case/mine.bin",), "has complete-case not written by dessl fit"),
        (("facts.json",), "has facts.json not written by dessl fit"),
        (("report.html",), "has report.html not written by dessl fit"),
        (("training",), "has training not written by dessl fit"),
        (
            ("training/run-1/log.txt",),
            "there is no training/settings.json). Choose another folder.",
        ),
    ],
)
def test_what_is_of_no_run_is_left_alone(
    cli: Cli, tmp_path: Path, names: tuple[str, ...], says: str
) -> None:
    write(tmp_path / "proj", *names)
    left_alone(cli, tmp_path, tmp_path / "proj", says)
    left_alone(cli, tmp_path, tmp_path / "proj", says, "--no-resume")


@pytest.mark.parametrize(
    "content",
    [
        "[1]",
        "",
        "{",
        "null",
        "{}",
        '{"risk": "debiased"}',
        '{"risk": 1, "lam": 1, "networks": 1, "pool": false}',
    ],
)
def test_settings_of_something_else_are_refused(cli: Cli, tmp_path: Path, content: str) -> None:
    write(tmp_path / "proj", "training/settings.json", "model/mine.bin")
    (tmp_path / "proj" / "training" / "settings.json").write_text(content)
    says = (
        f"expected the settings of a run of dessl fit (risk, lam, networks, pool); got {content!r}."
    )
    left_alone(cli, tmp_path, tmp_path / "proj", says)


def test_what_the_user_put_into_a_run_is_left_alone(cli: Cli, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert fit(cli, tmp_path, run)[0] == 0
    write(run, "notes.txt", "model/mine.bin")
    left_alone(cli, tmp_path, run, "and settings.json; got other files")
    (run / "model" / "mine.bin").unlink()
    (run / "model").rename(tmp_path / "elsewhere")
    (run / "model").symlink_to(tmp_path / "elsewhere")
    left_alone(cli, tmp_path, run, "Move them, or choose another folder.")
    (run / "model").unlink()
    assert fit(cli, tmp_path, run)[0] == 0  # a model that is missing is written again
    assert (run / "notes.txt").read_text() == "mine"
    assert load_model(run / "model").details == load_model(tmp_path / "elsewhere").details


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ({"model/model.safetensors": b"X"}, "model/model.safetensors is damaged"),
        ({"complete-case/settings.json": b" "}, "complete-case/settings.json is damaged"),
        (
            {"model/settings.json": None, "facts.json": b"{"},
            "model/settings.json is missing, facts.json is damaged",
        ),
        ({"report.html": None}, "report.html is missing"),
    ],
)
def test_damaged_files_of_a_finished_run_are_named_and_restored(
    cli: Cli,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    damage: dict[str, bytes | None],
    says: str,
    *,
    large: bool,
) -> None:
    run = tmp_path / "run"
    if large:
        monkeypatch.setattr("dessl.cli.fit_folder.LARGE", 0)
    assert fit(cli, tmp_path, run)[0] == 0
    models = {path: path.read_bytes() for name in MODELS for path in (run / name).iterdir()}
    finished = (run / "training" / "finished.json").read_bytes()
    for name, content in damage.items():
        if content is None:
            (run / name).unlink()
        else:
            whole = (run / name).read_bytes()
            (run / name).write_bytes(whole[:-1] + content)
    code, _, err = fit(cli, tmp_path, run)
    assert code == 0, err
    how = "trained again: it has no checkpoints" if large else "restored from its checkpoints"
    assert f"run was finished, but {says}. The run is now {how}." in err
    assert "The models are bit-identical to those that were finished before." in err
    assert models == {path: path.read_bytes() for path in models}
    assert (run / "training" / "finished.json").read_bytes() == finished
    assert "already finished" in fit(cli, tmp_path, run)[2]


def test_a_restored_model_that_differs_is_reported(cli: Cli, tmp_path: Path) -> None:
    assert fit(cli, tmp_path, tmp_path / "run")[0] == 0
    place = tmp_path / "run" / "training" / "finished.json"
    found = json.loads(place.read_text())
    found["sha256"]["model/model.safetensors"] = 64 * "0"  # as if other threads had trained it
    place.write_text(json.dumps(found))
    code, _, err = fit(cli, tmp_path, tmp_path / "run")
    assert code == 0, err
    assert "model/model.safetensors is damaged" in err
    assert "Note: the models are not bit-identical to those that were finished before" in err


def test_a_damaged_note_of_a_network_s_run_is_refused(cli: Cli, tmp_path: Path) -> None:
    assert fit(cli, tmp_path, tmp_path / "run")[0] == 0
    place = tmp_path / "run" / "training" / "complete_case-0" / "run.json"
    place.write_text("[]")
    (tmp_path / "run" / "training" / "finished.json").unlink()
    says = f"{place}: expected the plan and data of the run there, as JSON; got '[]'."
    left_alone(cli, tmp_path, tmp_path / "run", says)


def test_a_kill_at_the_very_beginning_is_gone_on_from(tmp_path: Path) -> None:
    write(tmp_path, "training/.settings.json.0a1b2c3d")
    with own_folder(tmp_path, SETTINGS, resume=True):
        there = (tmp_path / "training" / "settings.json").read_text()
    assert json.loads(there) == SETTINGS


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with (
        own_folder(tmp_path, SETTINGS, resume=True),
        pytest.raises(RuntimeError, match="another process"),
        own_folder(tmp_path, SETTINGS, resume=True),
    ):
        pass


def small(verdict: str) -> SavedModel:
    architecture = Architecture("mlp", {"n_features": 2, "n_classes": 2, "hidden": [4]})
    torch.manual_seed(0)
    model = Predictor([architecture()], torch.zeros(2), torch.ones(2))
    details = {"verdict": verdict}
    return SavedModel(model, ("no", "yes"), (2,), False, architecture, details=details)


def hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def test_a_new_model_takes_the_old_one_s_place_and_the_same_one_does_not(tmp_path: Path) -> None:
    place = tmp_path / "model"
    put_model(place, small("old"))
    number = place.stat().st_ino
    put_model(place, small("old"))
    assert place.stat().st_ino == number
    put_model(place, small("new"))
    assert load_model(place).details == {"verdict": "new"}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_rename_that_fails_leaves_the_old_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_model(tmp_path / "model", small("old"))
    rename = Path.rename

    def refuse(path: Path, target: Path) -> Path:
        if path.name == ".model.new":
            raise OSError("no")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(OSError, match="no"):
        put_model(tmp_path / "model", small("new"))
    assert load_model(tmp_path / "model").details == {"verdict": "old"}
    assert hidden(tmp_path) == []


KILLED = """
import os, shutil, signal, sys
from dataclasses import replace
from pathlib import Path
from dessl.cli.fit_folder import put_model
from dessl.saved import load_model

place, moment, rename = Path(sys.argv[1]), sys.argv[2], Path.rename

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def killed(path, target):
    if path.name.startswith("..model.new.") and moment == "as it is saved":
        die()
    if path.name == ".model.new" and moment == "between the renames":
        die()
    return rename(path, target)

Path.rename = killed
if moment == "before the old one is gone":
    shutil.rmtree = die
put_model(place, replace(load_model(place), details={"verdict": "new"}))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="Windows has no such signal")
@pytest.mark.parametrize(
    ("moment", "left", "kept"),
    [
        ("as it is saved", ["..model.new."], "old"),
        ("between the renames", [".model.new", ".model.old"], "old"),
        ("before the old one is gone", [".model.old"], "new"),
    ],
)
def test_a_kill_at_any_moment_leaves_a_model(
    tmp_path: Path, moment: str, left: list[str], kept: str
) -> None:
    place = tmp_path / "model"
    with own_folder(tmp_path, SETTINGS, resume=True):
        put_model(place, small("old"))
    command = [sys.executable, "-c", KILLED, str(place), moment]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    found = hidden(tmp_path)
    assert len(found) == len(left)
    assert all(name.startswith(start) for name, start in zip(found, left, strict=True))
    assert run_model(tmp_path, complete_case=False).details == {"verdict": kept}
    with own_folder(tmp_path, SETTINGS, resume=True):
        assert load_model(place).details == {"verdict": kept}
        assert hidden(tmp_path) == []


def test_what_a_killed_process_left_half_is_swept(tmp_path: Path) -> None:
    with own_folder(tmp_path, SETTINGS, resume=True):
        pass
    for name in (
        ".facts.json.0123abcd",
        ".report.html.0123abcd",
        "training/.settings.json.0a1b2c3d",
    ):
        (tmp_path / name).write_text("half")
    with own_folder(tmp_path, SETTINGS, resume=True):
        assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob(".*")} == set()
