"""The page shows the present counts."""

import json
from pathlib import Path

import pytest
from counts import ALL, MOST, PAGE, RESULTS, add_counts, add_file, page_with_tables


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


def test_files_of_many_processes_add_up(tmp_path: Path) -> None:
    for number, counts in enumerate(({"kills": 3, "most % of memory": 101}, {"kills": 4})):
        add_counts("kills", {"fit": counts}, tmp_path / f"{number}.json")
        add_file(tmp_path / f"{number}.json", tmp_path / "sum.json")
    found = json.loads((tmp_path / "sum.json").read_text())["kills"]
    assert {name: (its["kills"], its["most % of memory"]) for name, its in found.items()} == {
        "fit": (7, 101),
        ALL: (7, 101),
    }


def test_of_most_formats_more_than_half_of_the_inputs_are_valid() -> None:
    found = json.loads(RESULTS.read_text(encoding="utf-8"))["fuzz"]
    assert all(entries["accepted %"] > 50 for entries in found.values())
