"""What is said of a teacher and of its answers."""

import dataclasses
import json
from typing import Any

import pytest
from tests.teachers.test_choice import made

from dessl.teachers.choice import Choice, Interval
from dessl.teachers.taught_report import CORRECTED, TaughtReport, TeacherQuality, renewed

SHARE, ERROR = Interval(0.8, 0.7, 0.9), Interval(0.05, 0.01, 0.09)
QUALITY = TeacherQuality("model", 1.0, SHARE, ERROR, 0.85, 0.6)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, "model: accuracy 0.800 (0.700 to 0.900) on gold rows; mean confidence 0.850, "
         "calibration error 0.050 (0.010 to 0.090)."),
        ({"calibration_error": Interval(0.0, 0.0, 0.083)}, "mean confidence 0.850, no clear "
         "miscalibration (calibration error at most 0.083)."),
        ({"confidence": None}, "model: accuracy 0.800 (0.700 to 0.900) on gold rows."),
        ({"accuracy": None, "confidence": None}, "model: too few answers on gold rows."),
        ({"confidence": None, "answered": 0.855}, "gold rows; it answered 85.5% of the rows."),
    ],
)  # fmt: skip
def test_a_teacher_in_words(change: dict[str, Any], says: str) -> None:
    assert str(dataclasses.replace(QUALITY, **change)).endswith(says)


def test_what_predicts_rows_with_answers_is_told_first() -> None:
    heard = made(pooled_loss=0.3)
    for more, first in ((heard, "With the"), (made(pooled_loss=0.6), "Without the")):
        report = TaughtReport(60, 540, (QUALITY,), made(), more)
        assert str(report).splitlines()[2].startswith(first)
    report = TaughtReport(60, 540, (QUALITY,), made(), heard)
    assert report.used_members == ("gold only", "self-taught", "student")
    assert report.about_teachers[2] == f"Without the teacher at prediction time: {made().why}"
    assert not any(heard.why in line for line in report.about_teachers)  # the verdict says it


@pytest.mark.parametrize("more", [None, made(pooled_loss=0.7)])
def test_a_report_is_the_same_after_json(more: Choice | None) -> None:
    silent = dataclasses.replace(QUALITY, name="silent", accuracy=None)
    report = TaughtReport(60, 540, (QUALITY, silent), made(), more)
    assert TaughtReport.from_dict(json.loads(json.dumps(report.as_dict()))) == report
    lines = str(report).splitlines()
    assert lines[:3] == ["60 gold labels, 540 rows without one.", str(QUALITY), str(silent)]
    assert lines[3] == f"Without the teacher at prediction time: {made().why}"
    assert lines[4] == "The accuracy of the result is about 0.900 (0.850 to 0.950)."
    assert len(lines) == (5 if more is None else 7)
    assert "60 gold labels" in report._repr_html_()


def test_a_report_of_the_first_format_compares_with_gold_labels() -> None:
    report = TaughtReport(60, 540, (QUALITY,), made(), None)
    old = report.as_dict()
    for name in ("weights_without", "without_loss", "n"):
        del old["student"][name]
    found = TaughtReport.from_dict(renewed(old)).student
    assert found == made(weights_without=(1.0, 0.0, 0.0), without_loss=0.7, n=60)


def test_members_of_earlier_reports_have_their_present_names() -> None:
    new = made(members=("gold only", *CORRECTED))
    old = TaughtReport(60, 540, (QUALITY,), new, new).as_dict()
    for name in ("student", "with_answers"):
        old[name]["members"] = ("gold only", "corrected answers", "corrected answers, one number")
    found = TaughtReport.from_dict(old)
    assert found.student.members == ("gold only", "corrected answers", CORRECTED[1])
    assert "corrected answers (one weight) 0.60" in str(found)
    assert "one number" not in str(found)


def test_an_earlier_report_has_no_interval_of_the_calibration_error() -> None:
    old = TaughtReport(60, 540, (QUALITY,), made(), None).as_dict()
    old["teachers"][0]["calibration_error"] = 0.05
    for name in ("alone_loss", "alone_error", "averaging"):
        del old["student"][name]
    found = TaughtReport.from_dict(old)
    assert found.teachers[0].calibration_error is None
    assert found.student == made()


def test_good_answers_that_the_student_could_not_learn_are_not_called_useless() -> None:
    deaf = made(answers_weight=0.0, accuracy=Interval(0.7, 0.6, 0.8))
    worse = dataclasses.replace(QUALITY, name="crowd", accuracy=Interval(0.75, 0.7, 0.8))
    report = TaughtReport(60, 540, (worse, QUALITY), deaf, None)
    assert str(report).splitlines()[-1] == report.hint
    assert "the accuracy is 0.800 for model and about 0.700 for the model without" in report.hint
    assert "--teacher-at-prediction, in Python at_prediction=True" in report.hint
    silent = dataclasses.replace(QUALITY, accuracy=None)
    for other in (
        dataclasses.replace(report, student=made(accuracy=deaf.accuracy)),  # the answers are used
        dataclasses.replace(report, with_answers=made(alone_error=0.02)),  # used as input
        dataclasses.replace(report, student=made(answers_weight=0.0)),  # 0.9: better than both
        dataclasses.replace(report, teachers=(silent,)),
    ):
        assert other.hint == ""


@pytest.mark.parametrize(
    ("weight", "result"), [(0.0, "the model without answers"), (0.5, "the student alone")]
)
def test_a_teacher_better_than_the_result_is_named_if_its_answers_are_refused(
    weight: float, result: str
) -> None:
    student = made(answers_weight=weight, accuracy=Interval(0.7, 0.6, 0.8))
    refused = made(alone_loss=0.51, alone_error=0.02)
    hint = TaughtReport(60, 540, (QUALITY,), student, refused).hint
    assert f"the accuracy is 0.800 for model and about 0.700 for {result}. 60 gold rows" in hint
    assert "at_prediction" not in hint  # that was asked for
