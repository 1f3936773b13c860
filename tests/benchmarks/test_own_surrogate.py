"""The committed shares are what the page's own code gives."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_the_first_draw_again(script: Callable[[str], ModuleType]) -> None:
    committed = json.loads((BENCHMARKS / "results" / "own_surrogate.json").read_text())
    again = script("own_surrogate").shares(seed=0)
    assert again == pytest.approx(committed["draws"][0], abs=0.01)  # other versions, other sums
    for risk, ends in committed["topics found"].items():
        found = [draw[risk] for draw in committed["draws"]]
        assert (ends["least"], ends["most"]) == (min(found), max(found))
