import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

Script = Callable[[str], ModuleType]
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def test_logistic_regression_in_the_span_is_that_of_the_columns(script: Script) -> None:
    pixels = script("pixel_columns")
    x, y = load_digits(return_X_y=True)
    task = pixels.Task(x[:100], y[:100], x[100:600], x[600:900], 10, 0)
    found = pixels.logistic(task, one_scale=True)
    rows = x[:600]
    scale = np.sqrt(rows.var(0).mean())
    model = LogisticRegression(C=found.details["strength"], max_iter=5000, tol=1e-8)
    model.fit((x[:100] - rows.mean(0)) / scale, y[:100])
    p = np.clip(model.predict_proba((x[600:900] - rows.mean(0)) / scale), pixels.CLIP, None)
    assert np.abs(found.p - p / p.sum(1, keepdims=True)).max() < 0.02
    assert (found.p.argmax(1) == y[600:900]).mean() > 0.7
    assert found.p.min() > 0


def test_committed_table_is_that_of_its_records(script: Script) -> None:
    records = json.loads((RESULTS / "pixel_columns.json").read_text())
    assert script("pixel_columns").report(records) == (RESULTS / "pixel_columns.md").read_text()


def test_differences_are_paired(script: Script) -> None:
    pixels = script("pixel_columns")

    def scores(loss: float) -> dict[str, float]:
        return {"log_loss": loss, "accuracy": 0.9, "seconds": 1.0}

    records = [
        {
            "set": "mnist", "labels": 100, "draw": draw, "machine": {"cpu": "some", "torch": "2"},
            "methods": {m: scores(0.5 + draw) for m in pixels.METHODS} | {
                pixels.OURS: scores(0.4 + draw + 0.01 * (draw % 2))
            },
            "unlabelled rows": {m: scores(0.3 + draw) for m in pixels.METHODS} | {
                pixels.OURS: scores(0.5 + draw + 0.01 * (draw % 2))
            },
        }
        for draw in range(4)
    ]  # fmt: skip
    text = pixels.report(records)
    assert "| mnist | 100 | 4 | complete case | 2.000 | 90.0 | -0.095 ± 0.009 |" in text
    tested, hidden = text.split("## Unlabelled rows")
    assert "lower than that of ExtraTrees: 1; significantly higher: 0" in tested
    assert "| mnist | 100 | 4 | complete case | 1.800 | 90.0 | +0.205 ± 0.009 |" in hidden
    assert "lower than that of ExtraTrees: 0; significantly higher: 1" in hidden
    assert pixels.spread(np.array([1.0, 1.0]), 1) == "1.0 ± 0.0"
