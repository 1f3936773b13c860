"""A tiny run of the benchmark of large images."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from dessl.data import SemiData


def test_a_smoke_run_measures_both_networks(
    script: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = script("large_images")
    x = torch.randint(256, (40, 3, 32, 32), dtype=torch.uint8)
    y = torch.arange(40) % 10
    rows = SemiData(x, y, test=(x, y))
    monkeypatch.setattr(module, "load", lambda name, download: rows)
    module.main(["--smoke", "--out", str(tmp_path / "out.json")])
    sides = json.loads((tmp_path / "out.json").read_text())["sides"]
    assert set(sides) == {"32", "40"}
    assert set(sides["40"]["seconds of a step"]) == {"reduced", "every pixel"}
    assert 0 <= sides["40"]["fit"]["accuracy"] <= 1
