"""``dessl reproduce --jobs``: several processes divide the runs among them."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dessl.training.ranks import SHARED_GPUS, _own_device
from dessl_paper import jobs
from dessl_paper.jobs import has_mps, run_jobs, shared_environment

Cli = Callable[..., tuple[int, str, str]]
pytestmark = pytest.mark.enable_socket  # a free port is looked for


def test_two_processes_give_the_records_of_one(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    found = []
    for number in (1, 2):
        out = tmp_path / str(number)
        typed = ("reproduce", "toy", "--profile", "smoke", "--device", "cpu", "--out", out)
        code, _, err = cli(*typed, "--jobs", number)
        assert code == 0, err
        assert (out / "report.html").is_file()
        runs = {file.name: json.loads(file.read_bytes()) for file in (out / "runs").iterdir()}
        found.append({name: (run["metrics"], run["settings"]) for name, run in runs.items()})
        assert {run["made_with"]["processes"] for run in runs.values()} == {number}
    assert found[0] == found[1]
    assert len(found[0]) == 5


def test_a_wrong_name_is_an_error_before_processes_start(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "run_jobs", lambda *_: pytest.fail("started"))
    code, _, err = cli("reproduce", "toyy", "--jobs", 2)
    assert code == 2
    assert "Did you mean" in err


def test_a_failed_process_decides_the_exit_code(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "run_jobs", lambda *_: 3)
    assert cli("reproduce", "toy", "--jobs", 2, "--out", tmp_path)[0] == 3


class Started:
    """A process that is interrupted while it is waited for, or ends with a code."""

    all: list["Started"]

    def __init__(self, command: list[str], *, env: dict[str, str], **_: Any) -> None:
        self.command, self.env, self.killed = command, env, False
        self.all.append(self)

    def wait(self) -> int:
        if self.command[-1] == "interrupted" and not self.killed:
            raise KeyboardInterrupt
        return 2 * (self.env["RANK"] == "1")

    def kill(self) -> None:
        self.killed = True


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Started]:
    """Processes that were started, none of them real."""
    monkeypatch.setattr(Started, "all", [], raising=False)
    monkeypatch.setattr("subprocess.Popen", Started)
    return Started.all


def test_an_interrupt_ends_all_processes(started: list[Started]) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_jobs(["interrupted"], 3)
    assert [one.killed for one in started] == [True] * 3


def test_processes_know_each_other(started: list[Started]) -> None:
    assert run_jobs(["reproduce", "toy"], 3) == 2
    assert [one.command for one in started] == [
        [sys.executable, "-m", "dessl", "reproduce", "toy"]
    ] * 3
    assert [one.env["RANK"] for one in started] == ["0", "1", "2"]
    assert len({one.env["MASTER_PORT"] for one in started}) == 1
    assert {(one.env["WORLD_SIZE"], one.env[SHARED_GPUS]) for one in started} == {("3", "1")}
    assert not any(one.killed for one in started)


def test_cores_are_divided_unless_threads_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert shared_environment(3)["OMP_NUM_THREADS"] == "2"
    assert shared_environment(20)["OMP_NUM_THREADS"] == "1"
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert shared_environment(3)["OMP_NUM_THREADS"] == "5"


def test_ranks_share_gpus_only_if_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("LOCAL_RANK", "3")
    with pytest.raises(ValueError, match="process 4 on this host has no GPU of its own"):
        _own_device()
    monkeypatch.setenv(SHARED_GPUS, "1")
    assert _own_device() == torch.device("cuda", 1)


def test_mps_is_seen_by_its_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    assert not has_mps()
    (tmp_path / "control").touch()
    assert has_mps()
