"""The demonstration's page says what came out, good or bad."""

import dataclasses
from pathlib import Path

import pytest

from dessl_paper.demo import read_demo
from dessl_paper.demo_page import (
    demo_html,
    shown_advice,
    shown_gain,
    shown_harm,
    shown_interval,
    shown_parts,
)
from dessl_paper.demo_parts import DemoFacts

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def facts() -> DemoFacts:
    return read_demo(ROOT / "results" / "demo")


def test_harm_is_judged_by_the_distance_to_the_truth(facts: DemoFacts) -> None:
    found = facts.harm

    def outcome(usual: float, debiased: float) -> str:
        means = {**found.means, "ssl": usual, "debiased": debiased}
        return shown_harm(dataclasses.replace(found, means=means)).outcome

    assert outcome(0.12, 0.26) == "as promised"
    assert outcome(0.12, 0.19) == "not as promised"
    assert outcome(0.24, 0.26) == "cannot tell"


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [
        (0.01, 0.03, "as promised"),
        (-0.01, 0.05, "cannot tell"),
        (-0.03, -0.01, "not as promised"),
    ],
)
def test_gain_is_judged_by_its_interval(
    facts: DemoFacts, low: float, high: float, outcome: str
) -> None:
    one = dataclasses.replace(
        facts.gain.difference, difference=(low + high) / 2, low=low, high=high
    )
    assert shown_gain(dataclasses.replace(facts.gain, difference=one)).outcome == outcome


def test_advice_that_was_heard_is_not_called_ignored(facts: DemoFacts) -> None:
    ours, believed = facts.advice.differences
    heard = dataclasses.replace(facts.advice, same=False, lam=(0.0, 0.1, 0.2, 0.0, 0.0))
    said = shown_advice(heard)
    assert said.outcome == "cannot tell"
    assert "λ = 0 to 0.2" in said.claim
    assert "nothing is lost" not in said.claim
    worse = dataclasses.replace(ours, difference=-0.02, low=-0.03, high=-0.01)
    heard = dataclasses.replace(heard, differences=(worse, believed))
    assert shown_advice(heard).outcome == "not as promised"


def test_an_interval_without_the_truth_is_not_as_promised(facts: DemoFacts) -> None:
    found = dataclasses.replace(facts.intervals, truth=0.5)
    said = shown_interval(found)
    assert said.outcome == "not as promised"
    assert "outside" in said.details
    assert "0 intervals contain it" in said.details


def test_the_page_has_a_card_and_a_picture_for_each_part(facts: DemoFacts) -> None:
    page = demo_html(facts, fit_report="digits/report.html")
    assert page == demo_html(facts, fit_report="digits/report.html")
    assert page.count('class="card ') == page.count("<figure>") == 4
    for part in shown_parts(facts):
        assert part.big in page
    assert "was limited to" not in page
    assert all(note.replace('"', "&quot;") in page for note in facts.plan.notes)
