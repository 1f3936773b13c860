import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

Script = Callable[[str], ModuleType]
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def test_few_columns_matter_where_they_should(script: Script) -> None:
    made = script("sparse_columns")
    counts = {"few": 6, "few_of_three": 10, "some_of_three": 20}
    for name, count in counts.items():
        x, y = (made.DESIGN | made.CONFIRM)[name](np.random.default_rng(0), 4000)
        slopes = LogisticRegression(max_iter=500).fit(x, y).coef_
        largest = np.abs(slopes - slopes.mean(0) * (len(slopes) > 1)).max(0)
        assert largest[:count].max() > 3 * largest[count:].max(), name
        assert set(largest.argsort()[-5:].tolist()) <= set(range(count)), name


def test_neighbours_are_related_and_words_are_counts(script: Script) -> None:
    made, rng = script("sparse_columns"), np.random.default_rng(0)
    x, _ = made.related(rng, 4000)
    assert np.corrcoef(x[:, 200], x[:, 201])[0, 1] == pytest.approx(0.8, abs=0.03)
    x, y = made.words(rng, 300)
    assert np.array_equal(x, np.round(x))
    assert x.sum(1).mean() == pytest.approx(40, abs=2)
    assert np.bincount(y).min() > 70


def test_a_draw_has_its_labels_and_its_limits(script: Script) -> None:
    made = script("sparse_columns")
    task, y = made.drawn("few", 100, 3, Path("none.npz"))
    assert (task.x.shape, len(task.x_unlabelled), len(y)) == ((100, 400), 1500, 2000)
    assert task.seed == 3
    again, _ = made.drawn("few", 100, 3, Path("none.npz"))
    assert np.array_equal(task.x_test, again.x_test)


def test_committed_table_is_that_of_its_records(script: Script) -> None:
    records = json.loads((RESULTS / "sparse_columns.json").read_text())
    text = (RESULTS / "sparse_columns.md").read_text()
    assert script("sparse_columns").report(records) == text


def test_committed_records_say_which_sets_the_default_spares(script: Script) -> None:
    made = script("sparse_columns")
    for record in json.loads((RESULTS / "sparse_columns.json").read_text()):
        assert record["default"] == (record["set"] not in made.SPARED)


def test_differences_are_paired(script: Script) -> None:
    made = script("sparse_columns")

    def scores(loss: float, seconds: float = 1.0) -> dict[str, float]:
        return {"log_loss": loss, "seconds": seconds}

    records = [
        {
            "set": "few", "labels": 100, "draw": draw, "machine": {"cpu": "some", "torch": "2"},
            "methods": {method: scores(0.5 + draw) for method in made.METHODS} | {
                made.WITH: scores(0.4 + draw + 0.01 * (draw % 2), 1.1),
                made.COMPONENTS: scores(0.6 + draw),
            },
        }
        for draw in range(4)
    ]  # fmt: skip
    text = made.report(records)
    less = "-0.095 ± 0.009"
    row = f"| few | 100 | 4 | 1.905 | 2.000 | 2.000 | 2.000 | 2.000 | {less} | {less} | {less} |"
    assert f"{row} 1.10 |" in text
    assert "Significantly lower than without: 1 of 1; higher: 0." in text
    last = "| few | seen | 100 | 4 | 2.000 | 2.100 | 2.000 | -0.100 ± 0.000 | +0.000 ± 0.000 |"
    assert text.endswith(f"{last}\n")


@pytest.mark.slow
def test_networks_are_trained_once_and_the_sparse_regression_helps(
    script: Script, tmp_path: Path
) -> None:
    made, out = script("sparse_columns"), tmp_path / "found.md"
    made.main(
        ["--runs", str(tmp_path / "runs"), "--out", str(out), "--sets", "few", "--labels", "300",
         "--draws", "1"]
    )  # fmt: skip
    (record,) = json.loads(out.with_suffix(".json").read_text())
    loss = {name: found["log_loss"] for name, found in record["methods"].items()}
    assert loss[made.WITH] < loss[made.WITHOUT] - 0.05 < loss[made.TWIN]
