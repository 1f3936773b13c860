"""Which pools a check drops: the arithmetic, on made-up cells."""

from collections.abc import Callable
from types import ModuleType
from typing import Any


def cell(held_out: float, error: float, test: float, draw: int) -> dict[str, Any]:
    report = {"total": {"mean": -held_out, "standard_error": error}, "n": 30}
    methods = {"dessl": {"log_loss": 0.5 + test, "report": report}}
    methods["complete case"] = {"log_loss": 0.5}
    return {"set": "wine", "labelled": 30, "seed": draw, "methods": methods}


def test_levels_and_what_they_drop(script: Callable[[str], ModuleType]) -> None:
    module = script("gains_safe")
    # t of 29 degrees of freedom: 1.70, 2.05, 2.76 and 3.66
    cells = [cell(0.019, 0.01, 0.1, 0), cell(0.03, 0.01, -0.2, 1), cell(-0.1, 0.01, -0.1, 2)]
    found = [module.dropped(one) for one in cells]
    assert [one["levels"] for one in found] == [[0.9], [0.9, 0.95, 0.99], []]
    text = module.table(found)
    assert "At 95 %, the check would have dropped 1 of 3 pools; 1 of these were better" in text
    assert "| 90 | 2 | 1 | +0.1000 |" in text
    assert "| 99.9 | 0 | 0 | +nan |" in text
    assert "Worse on test rows: 1 pools, by at most 0.100 nats." in text
    assert module.dropped({**cells[0], "methods": {"dessl": {}, "complete case": {}}}) is None
