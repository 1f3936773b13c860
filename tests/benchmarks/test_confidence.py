"""λ* and confidence over training: what is measured, and what the committed runs show."""

import json
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn

COMMITTED = Path(__file__).parents[2] / "benchmarks" / "results" / "confidence.json"


@pytest.fixture(scope="module")
def confidence(script) -> ModuleType:
    return script("confidence")


def test_no_test_row_is_trained_on(confidence: ModuleType) -> None:
    parts = confidence.rows_of(0.2, seed=1)
    assert [len(y) for _, y in parts.values()] == [300, 600]
    both = torch.cat([x for x, _ in parts.values()])
    assert len(both.unique(dim=0)) == 900


def test_a_look_is_at_gradients_of_all_parameters(confidence: ModuleType) -> None:
    torch.manual_seed(0)
    model, x = nn.Linear(64, 10), torch.randn(50, 64)
    y = model(x).argmax(-1)
    found = confidence.looked_at(model, x, y)
    assert found["accuracy"] == 1
    assert found["overconfidence"] < 0
    assert found["lam_gradient.pseudo_label"] == pytest.approx(1, rel=1e-4)
    assert found["ratio_gradient.pseudo_label"] == pytest.approx(0, abs=1e-4)


def test_one_seed_has_no_interval(confidence: ModuleType) -> None:
    with pytest.raises(SystemExit):
        confidence.main(["--seeds", "1"])


def test_the_committed_runs_show_the_signs_of_the_theory() -> None:
    rows = json.loads(COMMITTED.read_text(encoding="utf-8"))["means"]

    def interval(noise: float, part: str, steps: int, metric: str) -> tuple[float, float]:
        (row,) = [r for r in rows if (r["noise"], r["part"], r["steps"]) == (noise, part, steps)]
        mean, half = row[metric]
        return mean - half, mean + half

    for noise in (0.0, 0.2):
        for term in ("pseudo_label", "entropy"):
            metric = f"lam_gradient.{term}"
            assert interval(noise, "test", 10, metric)[0] > 0  # underconfident
            assert interval(noise, "test", 3000, metric)[1] < 0  # overconfident
        low, high = interval(noise, "training", 3000, "lam_gradient.pseudo_label")
        assert low == pytest.approx(1, abs=1e-3)
        assert high == pytest.approx(1, abs=1e-3)
