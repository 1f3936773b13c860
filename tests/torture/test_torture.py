"""A short run of every part of the bench: no failures, and no counts added."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.torture,
    pytest.mark.skipif(sys.platform != "linux", reason="forks, signals and /proc are Linux's here"),
]
SECONDS = 60
SEED = int(os.environ.get("TORTURE_SEED", "0"))


def test_fuzzed_inputs_are_accepted_or_refused_in_words(capfd: pytest.CaptureFixture[str]) -> None:
    run("fuzz.py", "--seconds", SECONDS)
    assert "FAILED" not in capfd.readouterr().out


def test_killed_commands_end_as_if_nothing_had_happened(capfd: pytest.CaptureFixture[str]) -> None:
    run("kills.py", "--seconds", SECONDS)
    assert "FAILED" not in capfd.readouterr().out


def test_harm_of_other_kinds_is_said_and_survived(capfd: pytest.CaptureFixture[str]) -> None:
    run("harm.py", "--seconds", SECONDS)
    assert "FAILED" not in capfd.readouterr().out


def test_starts_that_are_interrupted_end_with_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    run("starts.py", "--signals", 10)
    assert "FAILED" not in capfd.readouterr().out


def run(script: str, *arguments: object) -> None:
    """Run a part of the bench in a process of its own, which forks."""
    place = Path(__file__).with_name(script)
    given = (*arguments, "--seed", SEED, "--dry")
    subprocess.run([sys.executable, place, *map(str, given)], check=True)
