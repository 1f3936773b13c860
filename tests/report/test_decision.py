"""The page begins with what to do, what to expect, why, and what more labels would bring."""

import dataclasses
import html
import re
from types import SimpleNamespace
from typing import Any

import pytest

from dessl.evaluation.verdict import OUTCOMES, OVER_ROWS, Comparison, Outcome, Verdict
from dessl.report.decision import ADVICE, SIGNS, advice, decision, guessing, more_labels, why
from dessl.report.page import report_html
from dessl.results.facts import Estimate, ModelFacts, RunFacts
from dessl.safety.giveaways import Giveaway


@pytest.fixture
def judged(facts: RunFacts) -> RunFacts:
    """Facts with a saved model and the interval of its accuracy."""
    estimates = (
        Estimate("complete case", "accuracy", 0.7, 0.6, 0.8, 0.95, 60, 0),
        Estimate("DePseudoLabel", "accuracy", 0.76, 0.638, 0.849, 0.95, 60, 0),
    )
    model = ModelFacts("DePseudoLabel", 80, refitted=False)
    return dataclasses.replace(facts, estimates=estimates, model=model)


def told(facts: RunFacts, outcome: Outcome, needed: int | None = None) -> RunFacts:
    found = Verdict(outcome, f"{OUTCOMES[outcome]}, as it was.", 0.01, needed)
    return dataclasses.replace(facts, verdict=found)


def test_every_outcome_has_a_sign_and_an_advice() -> None:
    assert set(SIGNS) == set(ADVICE) == set(OUTCOMES)


def test_the_advice_has_the_interval_of_the_saved_model(judged: RunFacts) -> None:
    assert advice(told(judged, "better")) == (
        "Use this model: expected accuracy 64 to 85 % (95 % interval)."
    )
    kept = dataclasses.replace(judged, model=ModelFacts("complete case", 80, refitted=True))
    assert "60 to 80 %" in advice(told(kept, "not used"))
    assert advice(told(dataclasses.replace(judged, model=None), "better")) == "Use this model."


def test_the_advice_names_the_accuracy_with_answers_first(judged: RunFacts) -> None:
    model = ModelFacts("DePseudoLabel", 80, refitted=False, alone="complete case")
    assert advice(told(dataclasses.replace(judged, model=model), "better")) == (
        "Use this model: expected accuracy 64 to 85 % (95 % interval) with the teachers' answers, "
        "60 to 80 % without them."
    )


def test_the_page_begins_with_the_decision(judged: RunFacts) -> None:
    facts = told(judged, "cannot tell yet", 350)
    page = report_html([facts])
    main = page.index("</h2>")
    first = re.sub("<[^>]*>", " ", page[main : main + 2000]).split()
    assert " ".join(first).startswith(f"? {advice(facts)} Why {facts.verdict.sentence}")
    wanted = "About 350 more held-out labels would settle the comparison with the complete case."
    assert wanted in page
    assert "trained with 80 labels." in decision(facts)


@pytest.mark.parametrize(
    ("outcome", "needed", "text"),
    [
        ("better", None, "None for this decision."),
        ("no practical difference", None, "None for this decision."),
        ("cannot tell yet", 1200, "About 1,200 more held-out labels would settle"),
        ("cannot tell yet", None, "No realistic number"),
        ("no verdict", None, "Unknown: the complete case predicts too little"),
    ],
)
def test_labels_needed(judged: RunFacts, outcome: Outcome, needed: int | None, text: str) -> None:
    found = more_labels(told(judged, outcome, needed))
    assert found.startswith(text)
    assert "About 180 more held-out labels would halve" in found  # four times 60, less 60


def test_data_with_too_few_rows_are_said_once(judged: RunFacts) -> None:
    facts = dataclasses.replace(judged, settings={**judged.settings, "hold_out": 0.2})
    rows = facts.data.rows  # the rows held out among them
    found = more_labels(told(facts, "cannot tell yet", 10 * rows))
    assert found.endswith(f"interval. The data has only {rows:,} rows: collect more.")
    assert found.count("collect more") == 1
    large = dataclasses.replace(facts, data=dataclasses.replace(facts.data, rows=10**6))
    assert "collect more" not in more_labels(told(large, "cannot tell yet", 350))


def test_labels_needed_of_groups_are_those_of_new_groups(judged: RunFacts) -> None:
    estimates = tuple(dataclasses.replace(one, n_groups=12) for one in judged.estimates)
    found = Verdict("cannot tell yet", "As it was.", 0.01, 870, 110)
    facts = dataclasses.replace(judged, estimates=estimates, verdict=found, comparisons=())
    assert more_labels(facts) == (
        "About 870 more held-out labels of 110 new groups would settle the comparison with the "
        "complete case. About 180 more held-out labels of 36 new groups would halve the width of "
        "the accuracy interval."
    )
    fifth = dataclasses.replace(facts, settings={**facts.settings, "hold_out": 0.2})
    assert "About 900 more labels of 180 new groups (36 of the groups held out)" in more_labels(
        fifth
    )


def test_a_model_that_was_trained_again_is_told(judged: RunFacts) -> None:
    again = dataclasses.replace(judged, model=ModelFacts("DePseudoLabel", 100, refitted=True))
    assert "retrained on all 100 labels after the evaluation" in decision(again)


def counted(facts: RunFacts, confusion: list[list[int]]) -> RunFacts:
    """Facts whose saved model has this confusion matrix on the test rows."""
    found: dict[str, Any] = {"confusion": confusion, "class_counts": [sum(r) for r in confusion]}
    runs = tuple(
        dataclasses.replace(run, metrics={**run.metrics, **found})
        if run.method == "DePseudoLabel"
        else run
        for run in facts.runs
    )
    return dataclasses.replace(facts, runs=runs)


def test_a_model_that_may_be_no_better_than_one_answer_has_a_caution(judged: RunFacts) -> None:
    facts = counted(judged, [[0, 12], [1, 47]])
    name = facts.data.class_names[1]
    assert guessing(facts) == (
        f"Always answering {name!r} would be right on 48 of 60 held-out rows, and this model is "
        "right on 47: it is not shown to be more accurate, because the interval, 64 to 85 %, "
        "includes 80 %."
    )
    assert "Caution" in decision(facts)
    better = counted(judged, [[25, 5], [5, 25]])  # the interval begins at 0.638
    assert guessing(better) == ""
    above = counted(judged, [[0, 5], [1, 54]])  # 55 of 60 lie above 0.849
    assert guessing(above).endswith("because the interval, 64 to 85 %, lies below 92 %.")
    grouped = tuple(dataclasses.replace(one, n_groups=9) for one in facts.estimates)
    found = guessing(dataclasses.replace(facts, estimates=grouped))
    assert "because the interval from 9 groups, 64 to 85 %, includes 80 %." in found
    assert "Caution" not in decision(better)


def test_the_advice_begins_with_a_serious_audit(judged: RunFacts) -> None:
    audit: Any = SimpleNamespace(outcome="do not use it")
    found = advice(told(dataclasses.replace(judged, audit=audit), "better"))
    assert found.startswith("Read the audit first: it says not to use these data as they are. Use")


def test_a_leak_comes_before_the_advice(judged: RunFacts) -> None:
    leak = Giveaway("drug", empty=False, rows=60, exceptions=0)
    why = "'drug' gives the label away."
    audit: Any = SimpleNamespace(outcome="use it with care", giveaways=(leak,), reasons=(why,))
    facts = told(dataclasses.replace(judged, audit=audit), "better")
    assert advice(facts).startswith("Check the audit's finding first: a column may give the label")
    text = html.unescape(re.sub("<[^>]*>", " ", decision(facts)))
    assert " ".join(text.split()).count(f"Caution {why}") == 1


def compared(facts: RunFacts, accuracy: float, brier: float) -> RunFacts:
    """Facts whose saved model has these paired differences from the complete case."""
    pairs = {"accuracy": accuracy, "brier": brier}.items()
    changes = tuple(
        Comparison(
            metric, "DePseudoLabel", "complete case", change, change - 0.08, change + 0.08, 0.5,
            0.95, OVER_ROWS, 60,
        )
        for metric, change in pairs
    )  # fmt: skip
    return dataclasses.replace(facts, comparisons=changes)


EXPECTED = "expected accuracy 64 to 85 % (95 % interval)."


def test_an_open_question_is_told_with_the_sign_of_the_difference(judged: RunFacts) -> None:
    facts = told(judged, "cannot tell yet", 350)
    ahead = "Use this model, though it may be no better than the complete case"
    assert advice(compared(facts, 0.01, -0.02)) == f"{ahead}: {EXPECTED}"
    assert advice(compared(facts, 0.01, 0.0004)) == f"{ahead}: {EXPECTED}"  # shown as 0.00
    behind = (
        "It is not known which model is better: on these rows the complete case had the better "
        "Brier score, which may be chance (dessl predict --complete-case uses it)."
    )
    assert advice(compared(facts, 0.01, 0.02)) == f"{behind} This model: {EXPECTED}"
    bare = dataclasses.replace(compared(facts, 0.01, 0.02), estimates=())
    assert advice(bare) == behind
    clear = told(compared(judged, 0.01, 0.02), "no practical difference")
    assert advice(clear).startswith("Use this model; the complete case is as good")


def test_an_open_question_about_answers_is_told_with_the_sign(judged: RunFacts) -> None:
    taught: Any = SimpleNamespace(about_teachers=())
    facts = dataclasses.replace(told(judged, "cannot tell yet", 350), taught=taught)
    assert advice(compared(facts, 0.0, 0.02)) == (
        "Use this model, though on these rows the model without answers had the better Brier "
        f"score, which may be chance: {EXPECTED}"
    )
    assert "may be no better" in advice(compared(facts, 0.0, -0.02))


@pytest.mark.parametrize(
    ("accuracy", "brier", "said"),
    [
        (0.02, -0.02, ""),
        (0.0, -0.02, ""),
        (0.02, 0.0004, ""),  # shown as 0.00
        (0.02, 0.01, "higher with this model, but the Brier score was better with the complete c"),
        (-0.02, -0.01, "higher with the complete case, but the Brier score was better with this"),
    ],
)
def test_metrics_that_disagree_are_told(
    judged: RunFacts, accuracy: float, brier: float, said: str
) -> None:
    facts = compared(told(judged, "cannot tell yet", 350), accuracy, brier)
    added = why(facts).removeprefix(facts.verdict.sentence)
    assert (said in added) if said else not added
    assert added.strip() in decision(facts)
    assert why(told(facts, "better")) == f"{OUTCOMES['better']}, as it was."


def test_labels_are_counted_in_all_and_held_out(judged: RunFacts) -> None:
    facts = compared(told(judged, "cannot tell yet", 430), 0.01, 0.02)
    facts = dataclasses.replace(facts, settings={**facts.settings, "hold_out": 0.2})
    held_out = facts.comparisons[1].needed(0.01)
    assert more_labels(facts) == (
        f"About 430 more labels ({held_out:,} of them held out) would settle the comparison with "
        "the complete case. About 900 more labels (180 of them held out) would halve the width of "
        "the accuracy interval."
    )


def test_differences_from_a_baseline_that_failed_are_not_shown(judged: RunFacts) -> None:
    facts = told(compared(judged, 0.2, -0.2), "no verdict")
    page = report_html([facts])
    text = page[: page.index("application/json")]
    assert "Difference from the complete case" not in text
    assert "p-value" not in text
    assert "difference above" not in text
    assert "Difference from the complete case" in report_html([told(facts, "better")])
