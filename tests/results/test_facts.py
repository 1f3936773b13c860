"""Facts survive their trip through facts.json, and damaged ones are refused in words."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dessl.data import DataError
from dessl.evaluation.verdict import OVER_ROWS, Comparison
from dessl.results.facts import Estimate, RunFacts, agreeing, read_facts, write_facts

Build = Callable[..., RunFacts]


def test_facts_come_back_from_a_folder_as_they_were(tmp_path: Path, small_facts: Build) -> None:
    facts = small_facts(class_names=("<b>", "é", '"'))
    write_facts(tmp_path / "run", facts)
    assert read_facts(tmp_path / "run") == facts
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["facts.json"]


def test_nan_and_infinity_are_written_as_json_has_them(tmp_path: Path, small_facts: Build) -> None:
    facts = small_facts()
    comparison = replace(facts.comparisons[0], p_value=math.nan, high=math.inf, low=-math.inf)
    write_facts(tmp_path, replace(facts, comparisons=(comparison,)))
    json.loads((tmp_path / "facts.json").read_text(), parse_constant=pytest.fail)
    back = read_facts(tmp_path).comparisons[0]
    assert math.isnan(back.p_value)
    assert (back.low, back.high) == (-math.inf, math.inf)


def test_values_are_a_methods_metric_in_the_order_of_the_seeds(small_facts: Build) -> None:
    facts = small_facts()
    facts = replace(facts, runs=facts.runs[::-1])
    wanted = {(run.method, run.seed): run.metrics["accuracy"] for run in facts.runs}
    assert facts.seeds == [0, 1]
    assert facts.values("PseudoLabel", "accuracy") == [wanted["PseudoLabel", s] for s in (0, 1)]
    assert math.isnan(facts.values("PseudoLabel", "temperature")[0])


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda entries: entries | {"version": 99}, "version 99"),
        (lambda entries: entries | {"colour": "red"}, "RunFacts has no entry 'colour'"),
        (lambda entries: entries | {"seconds": "long"}, "seconds must be a finite number"),
        (lambda entries: entries | {"runs": {}}, "runs must be a list"),
        (lambda entries: entries | {"data": 3}, "data must be a table; got 3"),
        (lambda entries: entries | {"verdict": {"outcome": "maybe", "sentence": ""}}, "'maybe'"),
        (lambda entries: {k: v for k, v in entries.items() if k != "title"}, "title"),
        (lambda entries: [], "list indices"),
    ],
)
def test_wrong_entries_are_named(
    tmp_path: Path,
    small_facts: Build,
    change: Callable[[dict[str, object]], object],
    complaint: str,
) -> None:
    (tmp_path / "facts.json").write_text(json.dumps(change(small_facts().as_dict())))
    with pytest.raises(DataError, match="expected the facts of a run, version 3") as caught:
        read_facts(tmp_path)
    assert complaint in str(caught.value)


def test_a_folder_without_facts_and_damaged_facts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no facts\.json\. Pass the --out folder"):
        read_facts(tmp_path)
    (tmp_path / "facts.json").write_text("{")
    with pytest.raises(DataError, match="expected JSON"):
        read_facts(tmp_path)


def test_facts_of_the_version_before_are_read_with_the_outcomes_of_today(
    small_facts: Build,
) -> None:
    entries = small_facts().as_dict() | {"version": 2}
    del entries["model"]
    for old, new in (("helped", "better"), ("no clear difference", "cannot tell yet")):
        entries["verdict"] = {"outcome": old, "sentence": "As it was."}
        found = RunFacts.from_dict(entries).verdict
        assert (found.outcome, found.sentence, found.needed) == (new, "As it was.", None)


@pytest.mark.parametrize(
    ("values", "difference", "agreed"),
    [
        ((0.90, 0.80), 0.04, (0.87, 0.83)),
        ((0.90, 0.80), -0.10, (0.80, 0.90)),
        ((1.00, 0.98), 0.06, (1.00, 0.94)),  # no accuracy above 1
        ((0.01, 0.00), -0.05, (0.00, 0.05)),
    ],
)
def test_estimates_agree_with_their_difference(
    values: tuple[float, float], difference: float, agreed: tuple[float, float]
) -> None:
    pair = tuple(
        Estimate(name, "accuracy", value, value - 0.03, value + 0.03, 0.95, 50, 900)
        for name, value in zip("ab", values, strict=True)
    )
    change = Comparison("accuracy", "a", "b", difference, -1.0, 1.0, 0.5, 0.95, OVER_ROWS, 50)
    found = agreeing(pair, [change])
    assert [one.value for one in found] == pytest.approx(agreed)
    for one, before in zip(found, pair, strict=True):
        ends = min(before.low, one.value), max(before.high, one.value)
        assert (one.low, one.high) == ends
    assert agreeing(pair, []) == pair
