"""What is said of a teacher and of its answers."""

import dataclasses
import json
from typing import Any

import pytest
from scipy import stats

from dessl.teachers.taught_report import (
    CORRECTED,
    Choice,
    Interval,
    TaughtReport,
    TeacherQuality,
    renewed,
)

SHARE, ERROR = Interval(0.8, 0.7, 0.9), Interval(0.05, 0.01, 0.09)
QUALITY = TeacherQuality("model", 1.0, SHARE, ERROR, 0.85, 0.6)


def made(**other: Any) -> Choice:
    own: dict[str, Any] = {
        "members": ("gold only", "self-taught", "student"),
        "weights": (0.4, 0.001, 0.6),
        "weights_without": (0.7, 0.3, 0.0),
        "gold_only_loss": 0.7,
        "without_loss": 0.6,
        "pooled_loss": 0.5,
        "standard_error": 0.02,
        "n": 60,
        "needed": 1.0,
        "accuracy": Interval(0.9, 0.85, 0.95),
        "accuracy_gold_rows": Interval(0.9, 0.8, 1.0),
    }
    return Choice(**(own | other))


def test_the_gain_is_a_t_interval_and_the_words_follow_it() -> None:
    choice = made(without_loss=0.6, pooled_loss=0.5, standard_error=0.04, n=21)
    t = float(stats.t.ppf(0.975, 20))
    assert choice.gain.low == pytest.approx(0.1 - 0.04 * t)
    assert choice.gain.high == pytest.approx(0.1 + 0.04 * t)
    assert "The answers help" in choice.why
    assert "may be chance" in dataclasses.replace(choice, standard_error=0.06).why


@pytest.mark.parametrize(
    ("change", "kept", "says"),
    [
        ({}, True, "The answers help: out-of-fold cross-entropy 0.600 without them, 0.500 with"),
        ({"standard_error": 0.09}, True, "are used, but the gain may be chance"),
        ({"standard_error": 0.2}, False, "gave no gain of more than 1 standard error, so only"),
        ({"without_loss": 0.75, "standard_error": 0.25}, False, "no gain of more than 1"),  # equal
        ({"pooled_loss": 0.6}, False, "did not help, so only gold labels and unlabelled rows"),
        ({"answers_weight": 0.6}, True, "The answers help"),
        ({"answers_weight": 0.0}, False, "The students that learnt from the answers predict no "
         "better than the other models and got no weight, so only gold labels and unlabelled rows"),
        ({"answers_weight": 1e-5}, False, "and got no weight, so only"),
        ({"answers_weight": 0.0, "alone_loss": 0.6, "alone_error": 0.02}, False,
         "The answers got no weight, so they are not used as input"),
        ({"pooled_loss": 0.6 - 3e-9, "standard_error": 1e-9}, False, "help, so only"),  # rounding
        ({"pooled_loss": 0.7, "weights_without": (1.0, 0.0, 0.0)}, False, "so gold labels alone"),
    ],
)  # fmt: skip
def test_answers_are_used_where_they_help(change: dict[str, Any], kept: bool, says: str) -> None:
    choice = made(**change)
    assert choice.kept is kept
    assert choice.used == (choice.weights if kept else choice.weights_without)
    assert says in choice.why


@pytest.mark.parametrize(("n", "cautious"), [(12, True), (29, True), (30, False)])
def test_help_seen_on_few_gold_rows_is_called_uncertain(n: int, *, cautious: bool) -> None:
    why = made(n=n).why
    assert "The answers help" in why
    caution = (
        f" With only {n} gold rows this is uncertain, whatever the interval says: label at least "
        "30. Weights:"
    )
    assert (caution in why) is cautious
    assert ("With only" in why) is cautious
    assert "With only" not in made(n=n, pooled_loss=0.7).why  # no help is claimed


def test_a_gain_of_rounding_is_shown_as_no_change() -> None:
    why = made(pooled_loss=0.6 - 3e-9, standard_error=1e-9, answers_weight=0.0).why
    assert "change 0.000 (95 % interval 0.000 to 0.000)" in why


def test_weights_of_nearly_nothing_are_not_named() -> None:
    assert made().why.endswith("Weights: gold only 0.40, student 0.60.")
    assert made(pooled_loss=0.7).why.endswith("Weights: gold only 0.70, self-taught 0.30.")


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


def test_a_change_has_the_minus_sign_of_the_tables() -> None:
    why = made(without_loss=0.6, pooled_loss=0.55, standard_error=0.04, n=60).why
    assert "change −0.050 (95 % interval −0.130 to +0.030)" in why


def test_no_end_is_shown_as_zero_if_the_interval_excludes_it() -> None:
    why = made(without_loss=0.6, pooled_loss=0.592, standard_error=0.0039, n=60).why
    assert "change −0.0080 (95 % interval −0.0158 to −0.0002)" in why


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


@pytest.mark.parametrize(
    ("change", "kept", "says"),
    [
        ({"alone_loss": 0.55}, True, "The answers help: out-of-fold cross-entropy 0.600 without "
         "them, 0.500 with them; change −0.100 (95 % interval −0.140 to −0.060). The student alone "
         "has 0.550; change −0.050 (95 % interval −0.090 to −0.010). Weights: gold only"),
        ({"alone_loss": 0.53}, True, "The answers help, but what those to new rows add to the "
         "student may be chance: out-of-fold cross-entropy 0.600 without them, 0.500 with them"),
        ({"alone_loss": 0.53, "standard_error": 0.06}, True, "used, but the gain may be chance"),
        ({"alone_loss": 0.51}, False, "The answers to new rows gave no gain of more than 1 "
         "standard error over the student alone, so it predicts alone: out-of-fold"),
        ({"alone_loss": 0.51, "needed_over_alone": 0.4}, True, "new rows add to the "
         "student may be chance"),
        ({"alone_loss": 0.51, "needed_over_alone": 0.6}, False, "no gain of more than 0.6 standard "
         "errors over the student alone, so it predicts alone"),
        ({"alone_loss": 0.6, "pooled_loss": 0.7}, False, "did not help, so they are not used as "
         "input: out-of-fold cross-entropy 0.600 without them, 0.700 with them; change +0.100 "
         "(95 % interval +0.060 to +0.140)."),
    ],
)  # fmt: skip
def test_answers_to_new_rows_must_be_better_than_the_student_alone(
    change: dict[str, Any], kept: bool, says: str
) -> None:
    choice = made(**{"alone_error": 0.02, **change})
    assert choice.kept is kept
    assert says in choice.why
    assert ("Weights" in choice.why) is kept


def test_an_accuracy_is_moved_to_that_of_the_mean_over_the_folds() -> None:
    choice = made().averaged(0.02)
    assert choice.accuracy == Interval(0.92, 0.87, 0.97)
    assert choice.accuracy_gold_rows == Interval(0.92, 0.8200000000000001, 1.0)  # at most 1
    assert choice.averaging == 0.02


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
