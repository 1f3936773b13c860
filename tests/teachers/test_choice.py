"""Whether answers are used, and what is said of it."""

import dataclasses
from typing import Any

import pytest
from scipy import stats

from dessl.teachers.choice import Choice, Interval


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


def test_a_change_has_the_minus_sign_of_the_tables() -> None:
    why = made(without_loss=0.6, pooled_loss=0.55, standard_error=0.04, n=60).why
    assert "change −0.050 (95 % interval −0.130 to +0.030)" in why


def test_no_end_is_shown_as_zero_if_the_interval_excludes_it() -> None:
    why = made(without_loss=0.6, pooled_loss=0.592, standard_error=0.0039, n=60).why
    assert "change −0.0080 (95 % interval −0.0158 to −0.0002)" in why


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
