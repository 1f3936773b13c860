import pytest

from dessl.report.calibration import pooled
from dessl.results.facts import RunFacts


def test_pooled_bins_are_those_of_all_predictions_together(facts: RunFacts) -> None:
    runs = [run for run in facts.runs if run.method == "PseudoLabel"]
    bins = pooled(runs)
    assert sum(b.rows for b in bins) == sum(run.metrics["n"] for run in runs)
    right = sum(b.rows * b.accuracy for b in bins)
    assert right == pytest.approx(sum(r.metrics["n"] * r.metrics["accuracy"] for r in runs))
