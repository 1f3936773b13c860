"""The command line as a user meets it: a real process, its output and its exit code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dessl


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from dessl.cli.main import main; main()", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=600,
        env=os.environ | environment,
    )  # fmt: skip


def test_a_place_that_cannot_be_written_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    result = run("demo", "--out", str(blocked / "demo"))
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("dessl: ")
    assert result.stderr.count("\n") == 1
    assert "A file with this name exists: choose another folder." in result.stderr


def test_version() -> None:
    assert run("--version").stdout == f"dessl {dessl.__version__}\n"


def test_a_terminal_without_greek_letters_gets_the_rest() -> None:
    result = run("fit", "--help", PYTHONIOENCODING="cp1252", COLUMNS="200")
    assert result.returncode == 0, result.stderr
    assert "Weight ? of the unlabelled rows" in result.stdout


@pytest.mark.slow
def test_a_home_folder_that_the_shell_left_as_it_was_typed(tmp_path: Path) -> None:
    (tmp_path / "my tables").mkdir()
    rows = [f"{k % 7},{'ab'[k % 2]}" for k in range(20)]
    (tmp_path / "my tables" / "a.csv").write_text("\n".join(["n,y", *rows]))
    arguments = (
        "fit",
        "~/my tables/a.csv",
        "--label",
        "y",
        "--steps",
        "2",
        "--networks",
        "1",
        "--no-pool",
        "--no-refit",
        "--out=~/run",
    )
    result = run(*arguments, HOME=str(tmp_path), USERPROFILE=str(tmp_path))
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "run" / "report.html").is_file()
