"""The study of intervals for groups: its draws, its truths and its committed table."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"


@pytest.fixture(scope="module")
def groups(part: Callable[[str], ModuleType]) -> ModuleType:
    return part("groups")


def test_the_committed_table_is_that_of_its_records(groups: ModuleType) -> None:
    report = json.loads((RESULTS / "coverage_groups.json").read_text(encoding="utf-8"))
    written = (RESULTS / "coverage_groups.md").read_text(encoding="utf-8")
    assert written == groups.table(report["results"])


@pytest.mark.parametrize("correlation", [0.0, 1.0])
def test_rows_of_a_group_are_as_alike_as_asked(groups: ModuleType, correlation: float) -> None:
    law = groups.LAWS["81 % right"]
    rows = groups.drawn(law, correlation, 400, np.random.default_rng(0))
    first = np.unique(rows.group, return_index=True)[1][rows.group]
    same = float(np.mean(rows.a[:, 0] == rows.a[first, 0]))
    assert same == 1.0 if correlation else same < 0.5
    assert abs(float((rows.a.argmax(1) == rows.y).mean()) - 0.81) < 0.06


def test_a_cell_measures_both_intervals(
    groups: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = groups.truths

    def few(law: object, correlation: float) -> dict[str, float]:
        with monkeypatch.context() as patch:
            drawn = groups.drawn
            patch.setattr(groups, "drawn", lambda a, b, _, rng: drawn(a, b, 2000, rng))
            found: dict[str, float] = small(law, correlation)
        return found

    monkeypatch.setattr(groups, "truths", few)
    records = groups.cell("92 % right", 20, 1.0, 4)
    assert [r["metric"] for r in records][:3] == ["accuracy", "brier", "auc"]
    assert all(r["width_ratio"] > 1.3 and r["replications"] == 4 for r in records)
