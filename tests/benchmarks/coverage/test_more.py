"""The study of further metrics, designs and shifts: its cells run, and its page is made of them."""

import json
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"


@pytest.mark.parametrize(
    "kind", ["few", "rate", "class-balanced", "active", "compared, avoiding", "shift", "sets"]
)
def test_a_cell_of_each_kind_gives_records(kind: str, part) -> None:
    more = part("more")
    key = next(key for key in more.cells() if key.kind == kind)
    records = more.KINDS[kind](key, 2)
    assert {r["population"] for r in records} == {key.population}
    assert all(0 <= r["coverage"] <= 1 and r["replications"] == 2 for r in records)


def test_the_committed_page_is_made_of_the_committed_records(part) -> None:
    markdown = part("more_report").markdown
    report = json.loads((RESULTS / "coverage_more.json").read_text(encoding="utf-8"))
    assert (RESULTS / "coverage_more.md").read_text(encoding="utf-8") == markdown(report)


def test_cells_near_nominal_are_counted(part) -> None:
    near_nominal = part("more_report").near_nominal
    cells = [
        {"coverage": c, "coverage_error": 0.001, "confidence": 0.9} for c in (0.89, 0.86, 0.95)
    ]
    assert near_nominal(cells).startswith("Within 1.5 points of nominal in 1 of 3 cells")
    assert near_nominal(cells).endswith("in 1.")
