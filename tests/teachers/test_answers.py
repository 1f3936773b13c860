"""A teacher's answers: reading them, and calibrating classes without probabilities."""

import numpy as np
import pytest
import torch

from dessl.teachers.answers import BELIEF, Answers, as_answers, calibrated_confusion

NAMES = ("ham", "odd", "spam")


def test_classes_are_read_by_name_and_missing_ones_have_equal_probabilities() -> None:
    answers = Answers.of(["spam", None, "", "ham"], NAMES)
    assert answers.values.tolist() == [2, -1, -1, 0]
    assert answers.answered.tolist() == [True, False, False, True]
    expected = torch.tensor([[0, 0, 1], [1 / 3] * 3, [1 / 3] * 3, [1, 0, 0]])
    torch.testing.assert_close(answers.probabilities, expected)


def test_probabilities_are_read_and_a_row_of_nan_is_no_answer() -> None:
    answers = Answers.of(np.array([[0.2, 0.3, 0.5], [np.nan] * 3]), NAMES)
    assert not answers.is_hard
    assert answers.answered.tolist() == [True, False]
    torch.testing.assert_close(answers.probabilities[1], torch.full((3,), 1 / 3))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["spam", "sausage"], "sausage"),
        ([[0.5, 0.5]], "each of the 3 classes"),
        ([[0.5, 0.6, 0.1]], "adding up to 1"),
        ([[0.5, 0.4, 0.07], [0.5, 0.5, 0.0]], r"such as row 0: .*0.07\], with the sum 0.97"),
        ([[50, 40, 10]], "Divide percentages by 100"),
        ([[1.5, -0.5, 0.0]], "at least 0"),
        (["spam", "hm", "hm", "eh"], r"got 'hm' in 2 rows, 'eh' in 1 row\. Map other spellings"),
        ([[np.nan, 0.5, 0.5]], "row 0"),
    ],
)
def test_answers_that_cannot_be_read_are_refused(values: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Answers.of(values, NAMES)


def test_rounded_probabilities_are_divided_by_their_sum() -> None:
    table = [[0.33, 0.33, 0.33], [0.5, 0.34, 0.17], [0.2, 0.3, 0.5], [0.66, 0.16, 0.16]]
    with pytest.warns(UserWarning, match="3 of 4 rows .* of llm add up to 0.98 to 1.01"):
        answers = Answers.of(table, NAMES, name="llm")
    expected = torch.tensor(table) / torch.tensor(table).sum(1, keepdim=True)
    torch.testing.assert_close(answers.probabilities, expected)


@pytest.mark.parametrize("values", [[None, None], [np.nan, np.nan], np.full((2, 3), np.nan)])
def test_answers_may_all_be_missing(values: object) -> None:
    answers = Answers.of(values, NAMES)
    assert answers.answered.tolist() == [False, False]
    torch.testing.assert_close(answers.probabilities, torch.full((2, 3), 1 / 3))


def test_the_confusion_is_the_smoothed_share_of_each_class() -> None:
    g = torch.Generator().manual_seed(0)
    said, y = (torch.randint(3, (80,), generator=g) for _ in range(2))
    found = calibrated_confusion(Answers(said, 3), y)
    assert found is not None
    hits = (int((said == y).sum()) + 1) / 82
    for r in range(3):
        total = int((said == r).sum())
        for c in range(3):
            share = (int((y == c).sum()) + 1) / 83
            belief = hits * (r == c) + (1 - hits) * share
            count = int(((said == r) & (y == c)).sum())
            assert float(found[r, c]) == pytest.approx((count + BELIEF * belief) / (total + BELIEF))
    torch.testing.assert_close(found.sum(1), torch.ones(3, dtype=torch.float64))


def test_a_reliably_wrong_teacher_is_turned_round() -> None:
    y = torch.arange(60) % 2
    confusion = calibrated_confusion(Answers(1 - y, 2), y)
    q = Answers(1 - y, 2).calibrated(confusion)
    assert bool((q.argmax(1) == y).all())
    assert bool((q.amax(1) > 0.85).all())


def test_rows_without_an_answer_do_not_enter_the_confusion() -> None:
    y = torch.arange(20) % 2
    some = torch.where(torch.arange(20) < 10, y, -1)
    with_missing = calibrated_confusion(Answers(some, 2), y)
    alone = calibrated_confusion(Answers(some[:10], 2), y[:10])
    assert with_missing is not None
    assert alone is not None
    torch.testing.assert_close(with_missing, alone)


def test_probabilities_are_left_as_they_are() -> None:
    answers = Answers.of([[0.2, 0.8]], ("a", "b"))
    assert calibrated_confusion(answers, torch.tensor([1])) is None
    torch.testing.assert_close(answers.calibrated(None), torch.tensor([[0.2, 0.8]]))


def test_one_or_several_teachers_are_taken_and_other_rows_refused() -> None:
    one = Answers.of(["ham", "spam"], NAMES, name="model")
    assert as_answers(one, NAMES, 2) == (one,)
    assert len(as_answers([one, one], NAMES, 2)) == 2
    assert as_answers(["ham", "spam"], NAMES, 2)[0].values.tolist() == [0, 2]
    arrays = [np.array(["ham", "odd"]), np.array([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])]
    assert [a.name for a in as_answers(arrays, NAMES, 2)] == ["teacher 1", "teacher 2"]
    assert as_answers([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]], NAMES, 2)[0].values.shape == (2, 3)
    with pytest.raises(ValueError, match="model must cover the 3 rows"):
        as_answers([one], NAMES, 3)
