"""The verdict says helped or hurt only where the interval leaves zero out."""

import pytest

from dessl.evaluation.metrics.vocabulary import amount
from dessl.results.comparisons import Comparison
from dessl.results.verdict import verdict

SEEDS, ROWS = "paired t-test over seeds", "debiased, paired over rows"


@pytest.mark.parametrize(
    ("metric", "low", "high", "outcome"),
    [
        ("accuracy", 0.01, 0.03, "helped"),
        ("accuracy", -0.03, -0.01, "hurt"),
        ("brier", 0.01, 0.03, "hurt"),
        ("cross_entropy", -0.03, -0.01, "helped"),
        ("brier", -0.01, 0.03, "no clear difference"),
        ("accuracy", 0.0, 0.03, "no clear difference"),
        ("accuracy", float("nan"), float("nan"), "no clear difference"),
    ],
)
def test_outcome(metric: str, low: float, high: float, outcome: str) -> None:
    middle = (low + high) / 2
    one = Comparison(metric, "Ours", "complete case", middle, low, high, 0.01, 0.95, SEEDS, 5)
    found = verdict(one, 100)
    assert found.outcome == outcome
    assert amount(metric, middle, signed=True) in found.sentence
    assert "p = 0.010" in found.sentence


def test_one_cannot_tell_from_the_labels_that_the_comparison_had() -> None:
    one = Comparison("brier", "Ours", "complete case", 0.0, -0.1, 0.1, 0.9, 0.95, ROWS, 7)
    assert verdict(one, 100).sentence.startswith("No clear difference with 7 labels")
