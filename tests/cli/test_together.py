"""``dessl fit`` on several ranks: the files of one process, and everything said once."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.several_ranks import Ran, run_launched
from torch import distributed

from dessl.cli.main import main
from dessl.saved import load_model

pytestmark = pytest.mark.skipif(
    not distributed.is_gloo_available(), reason="this PyTorch has no gloo"
)
OPTIONS = ("--label", "outcome", "--steps", 12, "--no-refit")


def write_people(path: Path, seed: int = 0) -> Path:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(120, 2, generator=generator)
    labels = ["ill" if value > 0 else "well" for value in x[:, 0]]
    rows = [f"{a:.3f},{b:.3f},{labels[i] if i % 3 == 0 else ''}" for i, (a, b) in enumerate(x)]
    path.write_text("\n".join(["age,pulse,outcome", *rows]) + "\n")
    return path


def one_process(*arguments: object) -> None:
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    assert not left.value.code


def facts(out: Path) -> dict[str, Any]:
    """What a run found, without its clock and its name."""
    found: dict[str, Any] = json.loads((out / "facts.json").read_text())
    for name in ("seconds", "command", "audit"):
        del found[name]
    for run in found["runs"]:
        del run["history"]
    return found


@pytest.mark.slow
def test_networks_are_spread_and_end_as_in_one_process(tmp_path: Path) -> None:
    people, alone, both = write_people(tmp_path / "people.csv"), tmp_path / "1", tmp_path / "2"
    options = (*OPTIONS, "--networks", 3)
    one_process("fit", people, *options, "--out", alone)
    first, second = run_launched(2, ["fit", people, *options, "--out", both], tmp_path)
    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert "Report:" in first.out
    assert second.out + second.err == ""
    for path in (*(alone / "model").iterdir(), *(alone / "complete-case").iterdir()):
        assert (both / path.relative_to(alone)).read_bytes() == path.read_bytes(), path.name
    assert facts(both) == facts(alone)
    again = run_launched(2, ["fit", people, *options, "--out", both], tmp_path)
    assert "nothing was trained" in again[0].err
    assert again[1][1:] == ("", "")


@pytest.mark.slow
def test_one_network_is_trained_by_all_ranks(tmp_path: Path) -> None:
    people, alone, both = write_people(tmp_path / "people.csv"), tmp_path / "1", tmp_path / "2"
    options = (*OPTIONS, "--networks", 1, "--surrogate", "entropy", "--lam", 0.5)
    one_process("fit", people, *options, "--out", alone)
    first, _ = run_launched(2, ["fit", people, *options, "--out", both], tmp_path)
    assert first.code == 0, first.err
    rows = torch.randn(50, 2, generator=torch.Generator().manual_seed(1))
    one, other = (load_model(out / "model").predict_proba(rows) for out in (alone, both))
    # Dropout draws apart; that the weights agree without it is shown in tests/training.
    assert (one.argmax(1) == other.argmax(1)).double().mean() > 0.9
    assert (one - other).abs().max() < 0.2
    assert not torch.equal(one, other)  # as it would be if rank 0 had trained alone


def only_line(ran: list[Ran], code: int = 2) -> str:
    """The one line that all ranks together said."""
    assert [one.code for one in ran] == [code] * len(ran)
    assert not any(one.out for one in ran)
    (line,) = "".join(one.err for one in ran).splitlines()
    return line


def test_an_error_of_all_ranks_is_said_once(tmp_path: Path) -> None:
    ran = run_launched(2, ["fit", "nothing.csv", "--out", tmp_path / "run"], tmp_path)
    assert "nothing.csv" in only_line(ran)


def test_an_error_of_rank_0_ends_the_others_too(tmp_path: Path) -> None:
    people, out = write_people(tmp_path / "people.csv"), tmp_path / "run"
    out.mkdir()
    (out / "report.html").touch()
    ran = run_launched(2, ["fit", people, *OPTIONS, "--out", out], tmp_path)
    assert "not written by dessl fit" in only_line(ran)


def test_ranks_that_read_other_rows_are_refused(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"rank-{number}").mkdir()
        write_people(tmp_path / f"rank-{number}" / "people.csv", seed=number)
    ran = run_launched(2, ["fit", "people.csv", *OPTIONS, "--out", tmp_path / "run"], tmp_path)
    line = only_line(ran)
    assert "must be the same on every rank (files:" in line
    assert not (tmp_path / "run").exists()


def test_other_commands_are_for_one_process(tmp_path: Path) -> None:
    line = only_line(run_launched(2, ["audit", "people.csv"], tmp_path))
    assert "dessl audit runs in one process" in line


def test_a_wrong_option_is_said_by_rank_0(tmp_path: Path) -> None:
    first, second = run_launched(2, ["fit", "people.csv", "--steps", "many"], tmp_path)
    assert (first.code, second.code) == (2, 2)
    assert "'--steps'" in first.err
    assert second.err == ""


def test_a_launcher_that_says_too_little_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(SystemExit) as left:
        main(["fit", "people.csv", "--out", "run"])
    assert left.value.code == 2
    assert "MASTER_ADDR" in capsys.readouterr().err


def killed_in_the_middle(out: Path, process: subprocess.Popen[str]) -> None:
    """Kill the rank that trains network 1, by the number in its lock, after a checkpoint."""
    place = out / "training" / "complete_case-1"
    until = time.monotonic() + 240
    while not any((place / "checkpoints").glob("step-*")):
        assert process.poll() is None
        assert time.monotonic() < until, "no checkpoint"
        time.sleep(0.01)
    os.kill(int((place / "lock").read_text()), signal.SIGKILL)


def launched(people: Path, out: Path, *words: str) -> subprocess.Popen[str]:
    """``torchrun ... -m dessl fit`` on two ranks."""
    root = Path(__file__).parents[2]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", *words]
    options = ["--label", "outcome", "--steps", "400", "--networks", "3", "--no-refit"]
    return subprocess.Popen(
        [*torchrun, "--nproc-per-node=2", "-m", "dessl", "fit", people, *options, "--out", out],
        env={**os.environ, "PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_a_killed_rank_of_fit_is_resumed_by_torchrun_or_by_one_process(tmp_path: Path) -> None:
    people, alone = write_people(tmp_path / "people.csv"), tmp_path / "1"
    options = ("--label", "outcome", "--steps", 400, "--networks", 3, "--no-refit")
    one_process("fit", people, *options, "--out", alone)
    expected = {path.name: path.read_bytes() for path in (alone / "model").iterdir()}

    restarted = tmp_path / "restarted"
    process = launched(people, restarted, "--max-restarts=1")
    killed_in_the_middle(restarted, process)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert out.count("Report:") == 1
    assert {p.name: p.read_bytes() for p in (restarted / "model").iterdir()} == expected

    ended = tmp_path / "ended"
    process = launched(people, ended)
    killed_in_the_middle(ended, process)
    out, err = process.communicate(timeout=300)
    assert process.returncode != 0
    lines = [line for line in err.splitlines() if "to resume" in line or "resumes from" in line]
    assert len(lines) == 1, err
    one_process("fit", people, *options, "--out", ended)
    assert {p.name: p.read_bytes() for p in (ended / "model").iterdir()} == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [("RANK", "x"), ("RANK", "2"), ("LOCAL_RANK", "-1"), ("MASTER_PORT", "70000")],
)
def test_variables_of_a_launcher_that_make_no_sense_are_named(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
    for variable, its in (given | {name: value}).items():
        monkeypatch.setenv(variable, its)
    with pytest.raises(SystemExit) as left:
        main(["fit", "people.csv", "--out", "run"])
    assert left.value.code == 2
    assert f"{name} must be a whole number below" in capsys.readouterr().err


def test_a_rank_that_waits_for_the_others_can_be_interrupted(tmp_path: Path) -> None:
    given = {"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "9"}
    process = subprocess.Popen(
        [sys.executable, "-m", "dessl", "fit", "people.csv", "--out", str(tmp_path / "run")],
        env=os.environ | given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with pytest.raises(subprocess.TimeoutExpired):
        process.communicate(timeout=5)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err.count("Interrupted.")) == (143, 1)
