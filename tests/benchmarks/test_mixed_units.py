import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

Script = Callable[[str], ModuleType]


@pytest.mark.parametrize("table", ["fractions", "marks"])
def test_most_columns_are_percentages_and_the_others_decide(script: Script, table: str) -> None:
    x, odds = script("mixed_units").TABLES[table](np.random.default_rng(0), 2000)
    wide = np.ptp(x, axis=0) > 50
    assert 2 * wide.sum() > len(wide)
    related = np.abs([np.corrcoef(column, odds)[0, 1] for column in x.T])
    assert related[wide].max() < 0.4 < related[~wide].max()


@pytest.mark.slow
def test_raw_columns_are_as_good_as_standardised_ones(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmark = script("mixed_units")
    monkeypatch.setattr(benchmark, "TABLES", {"fractions": benchmark.fractions})
    out = tmp_path / "found.json"
    benchmark.main(["--draws", "2", "--labels", "50", "--out", str(out)])
    found = json.loads(out.read_text())["tables"]["fractions"]["50 labels"]
    for method in ("default", "complete case"):
        raw, scaled = (found[f"{method}, {columns}"] for columns in ("raw", "standardised"))
        assert raw["log loss"][0] == pytest.approx(scaled["log loss"][0], abs=0.02)
