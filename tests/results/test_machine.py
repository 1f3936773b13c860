import shutil
import subprocess
from pathlib import Path

import pytest

from dessl.results import machine


@pytest.fixture(autouse=True)
def _asked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(machine.COMMIT, raising=False)
    monkeypatch.setattr(machine, "_commit_of_source", machine._commit_of_source.__wrapped__)


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    command = ["git", "-C", str(folder), *identity, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_commit_is_that_of_the_source_and_not_of_a_repository_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "site-packages" / "machine.py"
    installed.parent.mkdir()
    installed.write_text("")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "of the user's own project")
    monkeypatch.setattr(machine, "__file__", str(installed))
    assert machine.commit() is None
    git(tmp_path, "add", str(installed))
    git(tmp_path, "commit", "--quiet", "-m", "with the source")
    assert machine.commit() == git(tmp_path, "rev-parse", "HEAD")


def test_a_git_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("git", 10)

    monkeypatch.setattr(subprocess, "run", hangs)
    assert machine.commit() is None
