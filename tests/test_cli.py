"""The command line as a user meets it: a real process, its output and its exit code."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import dessl


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from dessl.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_demo_writes_a_figure_and_its_numbers(tmp_path: Path) -> None:
    result = run("demo", "--steps", "20", "--out", str(tmp_path / "new" / "demo"))
    assert result.returncode == 0, result.stderr
    assert "DePseudoLabel" in result.stdout
    assert "truth" in result.stdout
    assert str(tmp_path / "new" / "demo" / "toy.png") in result.stdout
    facts = json.loads((tmp_path / "new" / "demo" / "toy.json").read_text())
    assert facts["plan"]["steps"] == 20
    assert (tmp_path / "new" / "demo" / "toy.png").read_bytes().startswith(b"\x89PNG")


def test_json_is_all_that_stands_on_stdout(tmp_path: Path) -> None:
    result = run("demo", "--steps", "5", "--json", "--out", str(tmp_path))
    assert json.loads(result.stdout)["experiment"] == "toy"


def test_a_place_that_cannot_be_written_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    result = run("demo", "--out", str(blocked / "demo"))
    assert result.returncode == 2
    assert result.stderr.startswith("dessl: ")
    assert str(blocked) in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "arguments", [("demo", "--steps", "0"), ("demo", "--seed", "x"), ("dance",)]
)
def test_bad_options_are_exit_code_2(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr


def test_version_and_help() -> None:
    assert run("--version").stdout == f"dessl {dessl.__version__}\n"
    assert "demo" in run("--help").stdout
    assert "Example" in run("demo", "--help").stdout
