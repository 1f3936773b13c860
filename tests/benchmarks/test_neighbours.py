import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

Script = Callable[[str], ModuleType]
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def test_recall_leaves_the_row_itself_out(script: Script) -> None:
    neighbours = script("neighbours")
    rows = np.arange(30, dtype=np.float32)[:, None] ** 1.5
    exact = np.abs(rows - rows.T).argsort(1, kind="stable")
    assert neighbours.recall(rows, exact) == 1.0
    assert neighbours.recall(rows, exact[:, 1:]) == 1.0
    assert neighbours.recall(rows, exact[:, :5]) == 0.5
    assert neighbours.recall(rows, np.repeat(np.arange(30)[:, None], 9, 1)) == 0.0


def test_our_index_is_measured(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    from dessl.teachers import neighbours as measured

    monkeypatch.setattr(measured, "PROBES", measured.PROBES)
    found = script("neighbours").measured("clusters", 3000, "ours, exact")
    assert found["recall"] == 1.0
    assert found["rows"] == 3000
    assert found["processor_seconds"] > 0


def test_clusters_are_the_same_again(script: Script) -> None:
    rows, of = script("neighbours").clusters_of(500)
    assert np.array_equal(rows, script("neighbours").clusters(500))
    assert set(of) <= set(range(100))
    own = np.linalg.norm(rows - rows[of == of[0]].mean(0), axis=1)
    assert own[of == of[0]].mean() < own[of != of[0]].mean()


@pytest.mark.parametrize("name", ["neighbours", "graph_rows"])
def test_committed_tables_are_those_of_their_records(script: Script, name: str) -> None:
    content: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    assert script(name).report(content) == (RESULTS / f"{name}.md").read_text()


def test_a_case_that_failed_says_why(script: Script) -> None:
    neighbours = script("neighbours")
    timed = {"seconds": 2.0, "processor_seconds": 1.5, "gigabytes": 0.1, "recall": 0.9}
    rows = {"data": "cloud", "rows": 20_000}
    content = {
        "machine": {"cpu": "some", "torch": "2"},
        "versions": {"hnswlib": "1"},
        "found": [
            rows | {"method": "ours, 8 cells"} | timed,
            rows | {"method": "hnswlib, effort 40"} | timed | {"processor_seconds": 3.0},
            rows | {"method": "faiss, 8 cells", "gave up": "more than 5 minutes"},
        ],
    }
    lines = neighbours.report(content).splitlines()
    assert lines[-2].startswith("| cloud | 20,000 | hnswlib, effort 40 | 2.0 | 3.0 | 2.00 |")
    assert "more than 5 minutes" in lines[-1]


def test_spirals_turn(script: Script) -> None:
    rows, y = script("graph_rows").spirals(2000)
    assert rows.shape == (2000, 10)
    assert np.bincount(y).min() > 100
    reach = np.hypot(rows[:, 0], rows[:, 1])
    assert 1 < reach.min() + 1 < reach.max() < 12
