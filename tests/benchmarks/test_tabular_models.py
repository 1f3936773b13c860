"""The benchmark of tabular models as members, with stand-ins for those that are not installed."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from sklearn.naive_bayes import GaussianNB

from dessl.data import SemiData
from dessl.recipes import recipe_for


def cell(name: str, seed: int, **losses: float) -> dict[str, Any]:
    methods: dict[str, Any] = {
        method.replace("_and_", " + "): {"log_loss": loss, "accuracy": 0.9, "seconds": 2.0}
        for method, loss in losses.items()
    }
    methods["pool + TabPFN"]["weights"] = {"cc": 0.6, "TabPFN": 0.2 * seed}
    return {"set": name, "labelled": 30, "seed": seed, "methods": methods}


def test_the_page_counts_tables_and_weights(script: Callable[[str], ModuleType]) -> None:
    module = script("tabular_models")
    cells = [
        *(cell("a", k, pool=0.5, pool_and_TabPFN=0.399 + 0.002 * k, TabPFN=0.7) for k in (0, 1)),
        *(cell("b", k, pool=0.5, pool_and_TabPFN=0.499 + 0.002 * k, TabPFN=0.4) for k in (0, 1)),
    ]
    page = module.page(cells, "A note.")
    assert "A note." in page
    assert "| 30 | 2 | pool + TabPFN − pool | -0.050 ± 0.635 | +0.0 ± 0.0 | 1 | 1 | 0 |" in page
    assert "| 30 | 2 | TabPFN − pool | +0.050 ± 1.906 | +0.0 ± 0.0 | 1 | 1 | 1 |" in page
    assert "| 30 | TabPFN | 12 | 2 | 4 |" in page
    assert "| 30 | TabPFN | 0.550 | 90.0 | 2.00 |" in page
    assert "| 30 | a | 2 | 0.500 | 0.400 | 0.700 | -0.100 ± 0.013 |" in page
    assert "XGBoost −" not in page
    assert "| 0.700 | -0.101 ± inf |" in module.page(cells[::2])  # one draw has no interval


def test_a_smoke_run_measures_every_model(
    script: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = script("tabular_models")
    monkeypatch.setattr(module, "installed", lambda: {"TabPFN": lambda _: GaussianNB()})
    monkeypatch.setattr(module, "version", lambda _: "0")
    cells = tmp_path / "cells"
    module.main(["--smoke", "--cells", str(cells), "--out", str(tmp_path)])
    assert len(list(cells.glob("*.json"))) == 2
    found = json.loads((tmp_path / "tabular_models.json").read_text())
    assert found["machine"]["tabpfn"] == "0"
    for one in found["cells"]:
        assert set(one["methods"]) == {"pool", "pool + TabPFN", "TabPFN"}
        assert "TabPFN" in one["methods"]["pool + TabPFN"]["weights"]
    assert "| 30 | wine | 2 | 0." in (tmp_path / "tabular_models.md").read_text()


def test_the_pool_is_the_default_and_its_tables_suit_tabpfn(
    script: Callable[[str], ModuleType],
) -> None:
    module = script("tabular_models")
    sets = script("gains_sets")
    assert set(module.SETS) <= {*sets.CONFIRM, *sets.KEPT_BACK}
    task, _ = sets.draw(sets.MADE["wine"](), 30, 0)
    data: SemiData = task.semi_data()
    assert list(recipe_for(data).teachers) == list(module.DEFAULT)
