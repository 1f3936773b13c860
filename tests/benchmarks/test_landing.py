"""The first page's picture says what the committed results say."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from scipy import stats

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def landing(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("landing")


def test_the_committed_picture_has_the_numbers_of_the_results(landing: ModuleType) -> None:
    shown = (ROOT / "docs" / "images" / "landing.svg").read_text(encoding="utf-8")
    assert landing.counted(landing.pairs()) in shown
    for name in ("pseudo_label-lam1", "de_pseudo_label-lam1"):
        mean = landing.posteriors()[name]["metrics"]["overlap_posterior"]
        assert f"{mean:.3f}" in shown


def test_pairs_are_scipys_paired_intervals(landing: ModuleType) -> None:
    cells = json.loads((ROOT / "benchmarks/results/gains.json").read_text(encoding="utf-8"))
    one = next(pair for pair in landing.pairs() if pair.name == "banana, 100 labels")
    runs = [c["methods"] for c in cells if (c["set"], c["labelled"]) == ("banana", 100)]
    values = [[100 * run[name]["accuracy"] for run in runs] for name in ("dessl", "complete case")]
    wanted = stats.ttest_rel(*values).confidence_interval(0.95)
    assert (one.low, one.high) == pytest.approx((wanted.low, wanted.high))


def test_the_picture_turns_dark_and_names_no_fixed_colour(landing: ModuleType) -> None:
    drawn = landing.picture()
    assert "prefers-color-scheme: dark" in drawn
    marks = drawn.split("</style>")[1]
    assert "#" not in marks
