from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest


@pytest.fixture(scope="module")
def evaluation(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("teacher_evaluation")


def test_an_informative_expectation_helps_and_noise_does_no_harm(evaluation: ModuleType) -> None:
    g = np.random.default_rng(0)
    loss = g.normal(size=3000)
    near, noise = loss + 0.5 * g.normal(size=3000), 3 * g.normal(size=3000)
    found = evaluation.errors(loss, near, noise, 100, 200, seed=0)
    assert found["debiased, full weight"] == pytest.approx(0.5, abs=0.1)
    assert (
        found["debiased, fitted weight"] < found["debiased, full weight"]
    )  # the best λ is 1 / 1.25
    assert found["own probabilities"] == pytest.approx(1.0, abs=0.05)
    assert found["both"] == pytest.approx(found["debiased, fitted weight"], abs=0.05)
    against = evaluation.errors(loss, -near, noise, 100, 200, seed=0)
    assert against["debiased, fitted weight"] == pytest.approx(found["debiased, fitted weight"])
    assert against["debiased, full weight"] > 1.5


def test_tables_have_geometric_means_and_ranges(
    evaluation: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def records(data: str, ratio: float) -> list[dict]:
        return [
            {"data": data, "teacher": "good", "metric": metric, "n_gold": n}
            | {"correlation": 0.5, "ratios": dict.fromkeys(evaluation.ESTIMATES, ratio)}
            for metric in evaluation.SHOWN
            for n in evaluation.GOLD
        ]

    tables = evaluation.summary([*records("moons", 0.5), *records("digits", 2.0)])
    one = tables["accuracy, 100 gold rows"]["good"]["debiased, fitted weight"]
    assert (one["mean"], one["low"], one["high"]) == (pytest.approx(1.0), 0.5, 2.0)
    assert (one["settings"], one["below"]) == (2, 1)
    page = evaluation.page({"tables": tables}, 1000)
    assert "## Cross-entropy, 300 gold rows" in page
    assert "| good | 1.00 (0.50 to 2.00) |" in page
