"""The first table of docs/reproduction.md says what was run of each experiment's budget."""

import json
import re
from pathlib import Path
from types import ModuleType

import pytest

from dessl_paper.catalogue import experiment_names

ROOT = Path(__file__).parents[2]
AGAIN = "Run python benchmarks/budget.py."


@pytest.fixture(scope="module")
def budget(script) -> ModuleType:
    return script("budget")


def test_the_file_and_the_page_are_those_of_the_committed_runs(budget: ModuleType) -> None:
    shares = [budget.share_of(name) for name in experiment_names()]
    assert json.loads(budget.FILE.read_text(encoding="utf-8")) == shares, AGAIN
    page = budget.PAGE.read_text(encoding="utf-8")
    assert budget.with_cells(page, shares) == page, AGAIN


def test_every_experiment_has_a_row_that_says_whether_it_was_run(budget: ModuleType) -> None:
    section = budget.PAGE.read_text(encoding="utf-8").split("## At a glance")[1].split("\n## ")[0]
    rows = {match[1]: match for match in budget.ROW.finditer(section)}
    assert set(rows) - {"experiment"} == set(experiment_names())
    for name in experiment_names():
        (line,) = re.findall(rf"^\| \[?{name}\]?[^\w-].*$", section, re.MULTILINE)
        assert ("not run" in line) == (budget.share_of(name)["runs"] == 0)


def test_counts_by_hand(budget: ModuleType) -> None:
    share = budget.share_of("cifar10-pseudo-label")
    folder = ROOT / "results" / "cifar10-pseudo-label" / "runs"
    assert share["runs"] == len(list(folder.glob("*.json")))
    assert share["runs of the paper"] == 5 * (1 + 2 * 15)  # splits × (complete case + two risks)
    assert share["steps of a run, %"] == 100
    short = budget.share_of("consistency-cifar10")
    assert short["steps of a run, %"] == 0.8  # 4,000 of 500,000


def test_new_numbers_leave_the_words_of_a_row(budget: ModuleType) -> None:
    text = "## At a glance\n| [toy](x) | 1 of 5 | 0 of 1 | – | agrees |\n## Next\n"
    new = budget.with_cells(text, [budget.share_of("toy")])
    assert new == "## At a glance\n| [toy](x) | 5 of 5 | 1 of 1 | all | agrees |\n## Next\n"
