import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def rows() -> list[dict]:
    """Two seeds of three methods; self-training is worse than its twin on both."""
    losses = {
        "DeSSL complete case": (0.30, 0.32),
        "DeSSL": (0.30, 0.31),
        "MLP complete case": (0.40, 0.42),
        "MLP self-training": (0.50, 0.45),
    }
    zero = {"accuracy": 0.9, "brier": 0.1, "ece": 0.05, "seconds": 1.0}
    return [
        {"task": "wine", "seed": seed, "method": method, "log_loss": loss, **zero}
        for method, pair in losses.items()
        for seed, loss in enumerate(pair)
    ]


def test_the_table_pairs_each_method_with_its_twin(
    rows: list[dict], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    from peers_table import table

    lines = table(rows, {"torch": "x"}).splitlines()
    cells = {line.split(" | ")[0].strip("| "): line.split(" | ") for line in lines if "|" in line}
    assert cells["MLP self-training"][6] == "2 of 2"
    assert cells["DeSSL"][6] == "0 of 2"
    assert cells["DeSSL"][2] == "0.305"
    assert cells["MLP self-training"][7].startswith("+")
    assert cells["DeSSL"][7].startswith("−")
    assert any("DeSSL less MLP complete case: log loss -0.105" in line for line in lines)
