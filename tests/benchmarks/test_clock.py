"""The clock of the speed run: it starts with the process, before any import."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def clock(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("clock")


@pytest.mark.skipif(sys.platform != "linux", reason="the system tells when a process began")
def test_what_happens_before_the_import_counts() -> None:
    program = "import time; time.sleep(1); from clock import since_command; print(since_command())"
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=FOLDER, capture_output=True, text=True, check=True
    )
    assert 1 < float(done.stdout) < time.perf_counter() - began + 0.05  # ticks of 10 ms


def test_elsewhere_the_clock_starts_at_its_import(
    clock: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "STAT", tmp_path / "none")
    monkeypatch.setattr(clock, "IMPORTED", time.perf_counter() - 100)
    assert 100 < clock.since_command() < 101


def test_the_entry_script_starts_the_clock_first() -> None:
    lines = (FOLDER / "fixmatch_ten_minutes.py").read_text(encoding="utf-8").splitlines()
    imports = [line for line in lines if line.startswith(("import ", "from "))]
    assert imports[0].startswith("from clock import")
