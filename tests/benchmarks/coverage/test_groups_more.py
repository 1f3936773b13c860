"""The study of sets and calibration errors for groups: a cell, and its committed table."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"


@pytest.fixture(scope="module")
def study(part: Callable[[str], ModuleType]) -> ModuleType:
    return part("groups_more")


def test_the_committed_table_is_that_of_its_records(study: ModuleType) -> None:
    report = json.loads((RESULTS / "coverage_groups_more.json").read_text(encoding="utf-8"))
    written = (RESULTS / "coverage_groups_more.md").read_text(encoding="utf-8")
    assert written == study.table(report["results"])


def test_each_group_or_each_row_counts_the_same(study: ModuleType) -> None:
    p, y = np.array([[0.9, 0.1]] * 3 + [[0.2, 0.8]]), np.zeros(4, np.int64)
    rows = study.Drawn(p, p, y, np.array([0, 0, 0, 1]))
    assert study.covered(rows, 0.5) == (0.5, 0.75)


def test_a_cell_measures_both(study: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "POPULATION", 500)
    study.population.cache_clear()
    study.calibration_error.cache_clear()
    record = study.cell("92 % right", 20, 1.0, 4)
    assert record["replications"] == 4
    assert record["width_ratio"] > 1.2
    assert 0.7 < record["sets_by_groups"] <= 1
    study.population.cache_clear()
    study.calibration_error.cache_clear()
