"""Records of results in every shape that results have."""

import json
from pathlib import Path

import numpy as np
import pytest
from records import Record, records
from scipy import stats


def numbers_named(found: tuple[Record, ...], *names: str) -> list[tuple[float, ...]]:
    return [record.numbers for record in found if set(names) <= record.words]


def test_a_table_s_cells_are_named_by_row_column_and_heading(tmp_path: Path) -> None:
    file = tmp_path / "table.md"
    file.write_text(
        "## wine\n\n| method | ECE, % | Brier |\n|---|---|---|\n| PseudoLabel | 5.2 ± 0.3 | 0.1 |\n"
    )
    assert numbers_named(records(file), "wine", "pseudo", "ece") == [(5.2, 0.3)]
    assert numbers_named(records(file), "wine", "pseudo", "brier") == [(0.1,)]


def test_a_table_s_caption_names_it_and_its_cells_may_hold_bars(tmp_path: Path) -> None:
    file = tmp_path / "table.md"
    table = "\n\n| method | p(1\\|x) |\n|:---|---:|\n| EntMin | 0.1 |\n\n"
    file.write_text(f"Toy, 60 labels{table}Toy, 90 labels, again{table}")
    assert numbers_named(records(file), "entropy", "toy") == [(0.1,), (0.1,)]
    assert numbers_named(records(file), "entropy", "again") == [(0.1,)]


def test_an_object_s_entries_share_its_names_and_curves_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "facts.json"
    curve, by_step = list(range(50)), {str(step): 0.5 for step in range(50)}
    tree = {"methods": {"EntMin": {"posterior": 0.075, "curve": curve, "by_step": by_step}}}
    file.write_text(json.dumps(tree))
    assert [record.numbers for record in records(file)] == [(0.075,)]
    assert numbers_named(records(file), "methods", "entropy", "posterior") == [(0.075,)]


@pytest.fixture
def runs() -> list[dict]:
    rng = np.random.default_rng(0)
    return [
        {"key": f"{lam}-{seed}", "seed": seed, "lam": lam, "metrics": {"ece": rng.random()}}
        for lam in (0.1, 1.0)
        for seed in range(4)
    ]


def test_runs_are_averaged_over_seeds_and_nothing_else(runs: list[dict], tmp_path: Path) -> None:
    listed = tmp_path / "results.json"
    listed.write_text(json.dumps({"runs": runs}))
    folder = tmp_path / "study"
    folder.mkdir()
    for run in runs:
        (folder / f"{run['key']}.json").write_text(json.dumps(run))
    for lam in (0.1, 1.0):
        sample = [run["metrics"]["ece"] for run in runs if run["lam"] == lam]
        interval = stats.t.interval(0.95, 3, np.mean(sample), stats.sem(sample))
        expected = (np.mean(sample), (interval[1] - interval[0]) / 2)
        for place in (listed, folder):
            assert numbers_named(records(place), f"{lam:g}", "ece") == [pytest.approx(expected)]
    assert all(len(record.numbers) == 2 for record in records(folder))
