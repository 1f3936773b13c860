"""The committed p-values are what the benchmark gives, and its tables are made of them."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


@pytest.fixture(scope="module")
def benchmark(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("audit")


def test_the_first_data_set_again(benchmark: ModuleType) -> None:
    committed = json.loads((RESULTS / "audit.json").read_text())
    data, labelled = benchmark.shifted("table", "none", 0)
    again = benchmark.p_values(data, labelled, 0)
    assert again == pytest.approx(committed["p_values"]["table"]["none"][0], abs=0.02)


def test_the_tables_are_made_of_the_p_values(benchmark: ModuleType) -> None:
    committed = json.loads((RESULTS / "audit.json").read_text())
    assert benchmark.summary(committed["p_values"]) == committed["summary"]
    assert benchmark.table(committed["p_values"]) == (RESULTS / "audit.md").read_text()


def test_each_shift_has_its_labels_first(benchmark: ModuleType) -> None:
    for world, kind in itertools.product(benchmark.WORLDS, benchmark.KINDS):
        data, labelled = benchmark.shifted(world, kind, 1)
        assert bool((data.y[:100] >= 0).all())
        assert bool((data.y[100:] == -1).all())
        assert labelled.sum() == 100
