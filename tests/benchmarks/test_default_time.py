"""The tables of the timing are the same for both ways in, and a command that fails is an error."""

import csv
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest


def test_both_tables_have_the_same_rows_and_labels(
    script: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    arrays, text = script("default_time").write_table(tmp_path, 40, 10)
    table = np.load(arrays)
    with text.open(newline="") as file:
        head, *lines = csv.reader(file)
    assert (head[0], head[-1], len(head)) == ("column_0", "label", 31)
    assert [line[-1] for line in lines] == ["" if y < 0 else f"c{y}" for y in table["y"]]
    assert int((table["y"] >= 0).sum()) == 10
    written = np.array([line[:-1] for line in lines], dtype=float)
    assert written == pytest.approx(table["x"], abs=1e-4)


def test_a_command_is_timed_and_a_failure_shown(script: Callable[[str], ModuleType]) -> None:
    timed = script("default_time").timed
    found = timed([sys.executable, "-S", "-c", "sum(range(10**6))"])
    assert 0 < found["processor_seconds"] < 20
    with pytest.raises(RuntimeError, match="no such thing"):
        timed([sys.executable, "-S", "-c", "raise SystemExit('no such thing')"])
