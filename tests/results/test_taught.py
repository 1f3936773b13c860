"""The facts of a student are those of its models on gold rows, out of fold."""

import dataclasses
import json

import pytest
from tests.teachers.three_clouds import data as three_clouds
from tests.teachers.three_clouds import taught

from dessl.report.decision import advice
from dessl.report.page import report_html
from dessl.results.facts import ModelFacts, RunFacts
from dessl.results.taught import REJECTED, STUDENT, WITH_ANSWERS, WITHOUT, taught_facts
from dessl.teachers.choice import Interval


def test_the_facts_of_a_student_are_about_what_predicts_with_answers() -> None:
    found = taught("good", at_prediction=True)
    more = found.report.with_answers
    assert more is not None
    assert more.kept
    facts = taught_facts(found, three_clouds(), command="dessl fit", seconds=1.0)
    assert [one.name for one in facts.methods] == [WITHOUT, STUDENT, WITH_ANSWERS]
    assert {one.against for one in facts.comparisons} == {WITHOUT}
    assert facts.model == ModelFacts(WITH_ANSWERS, 60, refitted=False, alone=STUDENT)
    assert facts.verdict.outcome == "better"
    assert "the student with answers changed the Brier score" in facts.verdict.sentence
    assert facts.verdict.sentence.startswith(
        "In cross-entropy, with answers to new rows, the answers help: "
    )
    assert "corrected answers (one weight)" in facts.verdict.sentence
    assert " In the Brier score, the answers help: the student with" in facts.verdict.sentence
    assert "complete case" not in json.dumps(facts.as_dict())
    accuracy = {one.method: one for one in facts.estimates if one.metric == "accuracy"}
    for name, choice in ((STUDENT, found.report.student), (WITH_ANSWERS, more)):
        own = accuracy[name]
        assert (own.value, own.low, own.high) == pytest.approx(
            (choice.accuracy.value, choice.accuracy.low, choice.accuracy.high)
        )
    assert [one.method for one in facts.comparisons] == [STUDENT] * 2 + [WITH_ANSWERS] * 2
    assert RunFacts.from_dict(json.loads(json.dumps(facts.as_dict()))) == facts


@pytest.mark.parametrize("at_prediction", [False, True])
def test_the_facts_of_a_student_alone(*, at_prediction: bool) -> None:
    """Without answers at prediction time, or with ones that do not help there."""
    found = taught("good", at_prediction=at_prediction)
    if at_prediction:
        worse = dataclasses.replace(found.report.student, pooled_loss=9.0)
        report = dataclasses.replace(found.report, with_answers=worse)
        found = dataclasses.replace(found, report=report)
    facts = taught_facts(found, three_clouds(), command="dessl fit", seconds=1.0)
    assert [one.name for one in facts.methods] == [WITHOUT, STUDENT]
    assert facts.model == ModelFacts(STUDENT, 60, refitted=False)
    assert found.report.student.why[1:] in facts.verdict.sentence
    assert facts.verdict.sentence.startswith("In cross-entropy, the answers help: ")


def test_the_cross_entropy_of_a_student_has_one_interval() -> None:
    """That of the gold rows, which decides about the answers, and not a second one in a table."""
    facts = taught_facts(taught("good"), three_clouds(), command="dessl fit", seconds=1.0)
    assert {one.metric for one in facts.comparisons} == {"accuracy", "brier"}
    assert {one.metric for one in facts.estimates} == {"accuracy", "brier"}


def test_answers_that_are_not_used_are_said_once_and_the_student_is_called_so() -> None:
    found = taught("good")
    worse = dataclasses.replace(found.report.student, pooled_loss=9.0)
    found = dataclasses.replace(found, report=dataclasses.replace(found.report, student=worse))
    facts = taught_facts(found, three_clouds(), command="dessl fit", seconds=1.0)
    assert [one.name for one in facts.methods] == [WITHOUT, REJECTED]
    assert facts.model == ModelFacts(WITHOUT, 60, refitted=False)
    assert facts.verdict.sentence.startswith("The answers did not help, so ")
    assert facts.verdict.sentence.count("did not help") == 1
    assert advice(facts).startswith("Use this model, which does not use the answers: expected")


def test_the_verdict_on_a_teacher_better_than_the_result_names_both_accuracies() -> None:
    found = taught("good")
    low = dataclasses.replace(
        found.report.student, answers_weight=0.0, accuracy=Interval(0.4, 0.3, 0.5)
    )
    report = dataclasses.replace(found.report, student=low)
    facts = taught_facts(
        dataclasses.replace(found, report=report), three_clouds(), command="dessl fit", seconds=1.0
    )
    assert facts.verdict.sentence.startswith("The students that learnt from the answers predict no")
    right = report.teachers[0].accuracy
    assert right is not None
    both = f"the accuracy is {right.value:.3f} for good and about 0.400 for the model without"
    assert both in facts.verdict.sentence
    assert "--teacher-at-prediction" in facts.verdict.sentence


def test_the_two_criteria_may_differ_in_a_verdict() -> None:
    """The cross-entropy decides; the sentence says which criterion finds what."""
    found = taught("good")
    assert found.evaluated is not None
    rows = found.evaluated._replace(taught=found.evaluated.without.flip(0))
    facts = taught_facts(
        dataclasses.replace(found, evaluated=rows), three_clouds(), command="dessl fit", seconds=1.0
    )
    assert facts.verdict.outcome == "worse"
    assert "In cross-entropy, the answers help: out-of-fold" in facts.verdict.sentence
    assert "In the Brier score, the answers do harm: the student" in facts.verdict.sentence
    assert advice(facts).startswith("Use this model with care: in the Brier score, the model with")


def test_the_report_of_a_student_names_what_it_shows() -> None:
    found = taught("good", at_prediction=True)
    facts = taught_facts(found, three_clouds(), command="dessl fit", seconds=1.0)
    page = report_html([facts])
    assert "complete case" not in page
    assert "corrected answers (one weight)" in page
    assert "one number" not in page
    assert page.count("(95 % interval, adjusted for averaging over folds).") == 2
    both = {
        name: dataclasses.replace(getattr(found.report, name), averaging=0.0)
        for name in ("student", "with_answers")
    }
    plain = dataclasses.replace(facts, taught=dataclasses.replace(found.report, **both))
    assert "adjusted" not in report_html([plain])
    assert "Difference from the model without answers" in page
    assert "the 60 labelled rows, out of fold; 54 unlabelled" in page
    assert "λ" not in page[page.index("<h4>Methods") :]


def test_the_facts_of_an_older_student_are_shown() -> None:
    """Until 0.1.0.dev0 the model without answers was called the complete case."""
    facts = taught_facts(taught("good"), three_clouds(), command="dessl fit", seconds=1.0)
    old = json.dumps(facts.as_dict()).replace(WITHOUT, "complete case")
    read = RunFacts.from_dict(json.loads(old))
    assert read.methods[0].name == "complete case"
    assert "The complete case is the best model from gold labels" in report_html([read])
