import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"


@pytest.fixture(scope="module")
def fine(part: Callable[[str], ModuleType]) -> ModuleType:
    return part("fine")


def test_a_cell_is_measured_with_its_error(fine: ModuleType) -> None:
    rng = np.random.default_rng(0)
    top = rng.uniform(0.5, 1.0, 500)
    y = (rng.random(500) > top).astype(np.int64)
    records = fine.measured(("made up", np.stack([top, 1 - top], 1), y), "brier", 30, 40)
    assert [r["confidence"] for r in records] == [0.9, 0.95]
    for r in records:
        assert (r["population"], r["metric"], r["labels"]) == ("made up", "brier", 30)
        assert r["coverage"] + r["missed_below"] + r["missed_above"] == pytest.approx(1)
        assert r["coverage_error"] == pytest.approx(
            np.sqrt(r["coverage"] * (1 - r["coverage"]) / 40)
        )
        assert r["coverage"] > 0.7
    assert records[0]["coverage"] <= records[1]["coverage"]


def test_populations_are_read_back_as_they_were(fine: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "populations.npz"
    built = fine.kept_populations(file, smoke=True)
    found = fine.kept_populations(file, smoke=True)
    assert [p.name for p in built] == [p.name for p in found]
    for one, other in zip(built, found, strict=True):
        assert one.probabilities.equal(other.probabilities)
        assert one.y.equal(other.y)


def test_what_is_measured_is_taken_into_the_results(fine: ModuleType, tmp_path: Path) -> None:
    place = {"population": "made up", "metric": "accuracy", "labels": 50, "confidence": 0.9}
    others = {"truth": 0.5, "constant_draws": 0, "width": 0.2}
    coarse = {"coverage": 0.93, "coverage_error": 0.01, "missed_below": 0.03, "missed_above": 0.04}
    result = {**place, **others, **coarse, "replications": 5}
    peer = {**result, "interval": "Wilson"}
    report = {
        "machine": {"cores": 2},
        "unlabelled": 5000,
        "seconds": 1.0,
        "results": [{**result, "interval": "score"}, peer],
    }
    measured = {
        **place,
        "coverage": 0.91,
        "coverage_error": 0.001,
        "missed_below": 0.04,
        "missed_above": 0.05,
        "replications": 40,
    }
    (tmp_path / "coverage.json").write_text(json.dumps(report))
    (tmp_path / "fine.json").write_text(
        json.dumps({"machine": {"cores": 16}, "results": [measured]})
    )
    fine.main(["--take", str(tmp_path / "fine.json"), "--results", str(tmp_path)])
    ours, theirs = json.loads((tmp_path / "coverage.json").read_text())["results"]
    assert ours == {**result, **measured, "interval": "score"}
    assert theirs == peer
    page = (tmp_path / "coverage.md").read_text()
    assert "**91.0** 0.2000" in page
    assert "40 replications" in page


def test_the_committed_results_are_what_was_measured_finely(fine: ModuleType) -> None:
    report = json.loads((RESULTS / "coverage.json").read_text())
    measured = json.loads((RESULTS / "coverage_fine.json").read_text())
    assert fine.taken(report, measured)["results"] == report["results"]
