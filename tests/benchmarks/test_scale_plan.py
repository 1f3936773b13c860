import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
Script = Callable[[str], ModuleType]


def test_costs_by_hand(script: Script) -> None:
    plan = script("scale_plan")
    case = {
        "unlabelled rows of a step": 320,
        "labelled rows of a step": 64,
        "steps/s": 2.0,
        "bytes of an image": 1000,
        "parameters": 5_000_000,
        "memory GiB": 40.0,
        "seconds of views of 8 GPUs' rows": 0.25,
    }
    found = plan.costs(plan.Pool("", "", rows=256_000, passes=10), case)
    assert found["GB of rows"] == 0.256
    assert found["training steps"] == 1000  # 10 passes of 256,000 rows, 8 × 320 a step
    assert found["hours on 8 GPUs"] == pytest.approx(500 / 3600)
    assert found["hours with dessl.train"] == pytest.approx(1000 * (0.5 + 0.25 * 7 / 8) / 3600)
    assert found["GPU hours"] == pytest.approx(4000 / 3600)
    assert found["dollars"] == pytest.approx(3 * 4000 / 3600)
    assert found["GB/s to read"] == pytest.approx(8 * 384 * 1000 * 2 / 1e9)
    assert found["MB of gradients a step"] == 20


def test_the_committed_table_follows_from_the_committed_rates(script: Script) -> None:
    rates = json.loads((RESULTS / "image-sizes-h200.json").read_text(encoding="utf-8"))
    table = (RESULTS / "scale_plan.md").read_text(encoding="utf-8")
    assert script("scale_plan").table(rates) == table
