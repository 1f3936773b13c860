"""The study of all surrogates: complete, honest about validation, and its table adds up."""

import importlib
import json
import math
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from dessl.surrogates import SURROGATES

COMMITTED = Path(__file__).parents[2] / "results" / "surrogates-digits"


@pytest.fixture
def benchmark(script) -> ModuleType:
    return script("surrogates")


def test_every_surrogate_is_studied(benchmark: ModuleType) -> None:
    assert set(benchmark.METHODS) == set(SURROGATES)


def test_the_parts_of_the_data_do_not_meet(benchmark: ModuleType) -> None:
    data = benchmark.data_of(3)
    parts = [data.labelled_rows, data.validation_rows, data.unlabelled_rows]
    assert [len(part) for part in parts] == [80, 20, 1337]
    assert len(torch.cat(parts).unique()) == 1437
    assert len(data.test.y) == 360


def test_no_row_is_labelled_by_a_teacher_that_saw_its_label(benchmark: ModuleType) -> None:
    """Another label for one row changes soft labels, but not that row's own."""
    data = benchmark.data_of(0)
    row = int(data.labelled_rows[0])
    before = benchmark.cross_fitted(data, seed=0)
    data.y[row] = (data.y[row] + 1) % 10
    after = benchmark.cross_fitted(data, seed=0)
    assert np.array_equal(before[row], after[row])
    assert not np.array_equal(before, after)
    np.testing.assert_allclose(before.sum(1), 1)


def test_a_smoke_run_writes_what_it_prints(
    benchmark: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark.main(["--smoke", "--only", "entropy", "fixmatch", "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    assert (tmp_path / "table.md").read_text() in printed
    results = json.loads((tmp_path / "results.json").read_text())["results"]
    assert len(results) == 2 * (2 + 2 * 2)  # seeds × (two complete cases + methods × risks)
    assert all(math.isfinite(r["cross_entropy"]) and r["finite"] for r in results)


def test_a_cell_says_which_way_is_better(benchmark: ModuleType) -> None:
    cell = importlib.import_module("surrogates_table").cell
    ours, reference = [90.0, 91.0, 92.0], [80.0, 81.5, 81.5]
    assert cell(ours, reference, "accuracy") == "91.0 (**+10.0 ± 1.2** better)"
    assert cell(ours, reference, "ece").endswith("worse)")
    assert cell([1.0, 2.0, 3.0], [1.1, 2.3, 2.0], "ece").count("**") == 0


def test_committed_runs_are_finite_and_far_above_chance(benchmark: ModuleType) -> None:
    report = json.loads((COMMITTED / "results.json").read_text())
    results = report["results"]
    assert {r["method"] for r in results} == {*SURROGATES, "complete_case"}
    assert all(r["finite"] for r in results)
    assert min(r["accuracy"] for r in results) > 0.5  # chance is 0.1
    page = (COMMITTED / "table.md").read_text()
    assert benchmark.table(results, report["machine"]) == page
    assert page in (COMMITTED.parents[1] / "docs" / "surrogates.md").read_text()
