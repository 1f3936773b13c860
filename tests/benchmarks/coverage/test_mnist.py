"""Coverage under designs: draws of a small population, and the page of the committed records."""

import json
from pathlib import Path

import numpy as np
import pytest

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"


def test_bounds_of_both_designs_are_counted(part, tmp_path: Path) -> None:
    mnist = part("mnist")
    rng = np.random.default_rng(0)
    first, second = (rng.dirichlet([1.0] * 10, 2000).astype(np.float32) for _ in range(2))
    y = first.argmax(axis=1)
    chances = {"class": 0.1 + 0.05 * y, "brightness": rng.uniform(0.1, 0.5, 2000)}
    file = tmp_path / "rows.npz"
    z = rng.normal(size=(2000, 3)).astype(np.float32)
    np.savez(file, first=first, second=second, y=y, z=z, **chances)
    rows = mnist.read(file)
    for design in chances:
        found = mnist.replications(file, design, 300, range(3), ("known", "not told"))
        assert {key[0] for key in found} == {"known", "not told"}
        records = list(mnist.records(rows, design, 300, found))
        assert len(records) == 2 * 3 * 2 * 2
        assert all(r["replications"] == 3 and r["width"] > 0 for r in records)
        assert records[0]["labels"] == pytest.approx(300 * chances[design].mean(), abs=1)


def test_the_committed_page_is_made_of_the_committed_records(part) -> None:
    report = json.loads((RESULTS / "coverage_mnist.json").read_text(encoding="utf-8"))
    page = (RESULTS / "coverage_mnist.md").read_text(encoding="utf-8")
    assert page == part("mnist").markdown(report)
