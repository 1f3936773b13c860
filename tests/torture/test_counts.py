"""The page shows the present counts."""

import json

import pytest
from counts import ALL, MOST, PAGE, RESULTS, page_with_tables


def test_the_page_has_the_tables_of_the_counts() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == page_with_tables(page), "run python tests/torture/counts.py"


@pytest.mark.parametrize("part", ["fuzz", "kills", "harm", "starts"])
def test_the_sums_are_those_of_the_parts(part: str) -> None:
    found = json.loads(RESULTS.read_text(encoding="utf-8"))[part]
    for key, count in found.pop(ALL).items():
        together = max if key.startswith(MOST) else sum
        if not key.endswith("%"):
            assert count == together(entries.get(key, 0) for entries in found.values())


def test_of_most_formats_more_than_half_of_the_inputs_are_valid() -> None:
    found = json.loads(RESULTS.read_text(encoding="utf-8"))["fuzz"]
    assert all(entries["accepted %"] > 50 for entries in found.values())
