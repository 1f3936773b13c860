"""The committed table is made of the committed runs, and the designs are as described."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


@pytest.fixture(scope="module")
def benchmark(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("propensity")


def test_the_table_is_made_of_the_runs(benchmark: ModuleType) -> None:
    committed = json.loads((RESULTS / "propensity.json").read_text())["results"]
    assert benchmark.table(committed) == (RESULTS / "propensity.md").read_text()
    seeds = {row["seed"] for row in committed if row["design"] == "class"}
    assert len(seeds) >= 5


def test_the_designs(benchmark: ModuleType) -> None:
    x = torch.rand(1000, 4, generator=torch.Generator().manual_seed(0))
    y = torch.arange(1000) % 10
    by_class = benchmark.chances("class", x, y)
    assert float(by_class.min()) == pytest.approx(0.03)
    assert float(by_class.max()) == pytest.approx(0.3)
    by_x = benchmark.chances("brightness", x, y)
    assert 0.03 < float(by_x.min()) < float(by_x.max()) < 0.3
    assert float(by_x[x.mean(1).argmax()]) < float(by_x[x.mean(1).argmin()])


def test_standard_errors_cover_about_as_often_as_they_should(benchmark: ModuleType) -> None:
    committed = json.loads((RESULTS / "propensity_errors.json").read_text())["results"]
    assert all(85 < row["covered_percent"] <= 100 for row in committed)
    (again,) = [row for row in benchmark.errors(2) if (row["method"], row["class"]) == ("em", 0)]
    assert again["mean"] == pytest.approx(0.4, abs=0.08)
