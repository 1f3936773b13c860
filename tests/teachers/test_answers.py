"""A teacher's answers: reading them, and calibrating classes without probabilities."""

import numpy as np
import pandas as pd
import pytest
import torch

from dessl.teachers.answers import (
    BELIEF,
    Answers,
    as_answers,
    calibrated_confusion,
    warn_of_chance,
)

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


def test_the_columns_of_a_frame_are_read_by_name() -> None:
    frame = pd.DataFrame([[0.7, 0.2, 0.1]], columns=["spam", "ham", "odd"])
    for named in (frame, frame.add_prefix("p_"), frame.rename(columns="p({})".format)):
        values = Answers.of(named, NAMES).values
        torch.testing.assert_close(values, torch.tensor([[0.2, 0.1, 0.7]]))
    with pytest.raises(ValueError, match=r"the answers of llm must have .* got 'a', 'ham', 'odd'"):
        Answers.of(frame.rename(columns={"spam": "a"}), NAMES, name="llm")
    by_position = Answers.of(frame.to_numpy(), NAMES).values
    torch.testing.assert_close(by_position, torch.tensor([[0.7, 0.2, 0.1]]))


def test_answers_are_copied_so_read_only_ones_are_fine() -> None:
    table, codes = np.array([[0.5, 0.25, 0.25]]), np.array([0, 1])
    for array in (table, codes):
        array.flags.writeable = False
    answers = Answers.of(table, NAMES)
    assert answers.values.tolist() == [[0.5, 0.25, 0.25]]
    assert Answers.of(codes, ("0", "1")).values.tolist() == [0, 1]


def test_other_answers_can_count_as_missing() -> None:
    with pytest.warns(UserWarning, match="2 answers of teacher are not classes"):
        answers = Answers.of(["spam", "eh", None, 3], NAMES, other_answers="missing")
    assert answers.values.tolist() == [2, -1, -1, -1]
    with pytest.warns(UserWarning, match="'7' in 1 row"):
        numbers = Answers.of([1, 7.0, -1, np.nan, 0], ("0", "1"), other_answers="missing")
    assert numbers.values.tolist() == [1, -1, -1, -1, 0]
    with pytest.raises(ValueError, match="other_answers"):
        Answers.of(["spam"], NAMES, other_answers="drop")  # type: ignore[arg-type]


def test_a_spelling_is_read_as_the_class_with_a_note() -> None:
    with pytest.warns(UserWarning, match="2 answers of llm were read as a class"):
        answers = Answers.of([" Ham", "SPAM", "odd"], NAMES, name="llm")
    assert answers.values.tolist() == [0, 2, 1]


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
        (["spam", "hm"], "no gold label has this class: label some rows"),
        (["spam", "hm"], "other_answers="),
        ([["spam", "ham", "odd"]], "so they must be probabilities"),
        ([["spam", "ham", "odd"]] * 2, "as one column. Pass several teachers as a dict"),
        ([[0, 1], [1, 0]], "classes as one column. Pass several teachers as a dict"),
        ([[0.5, 0.5], [0.2]], r"\(n, classes\); got a list whose .* shapes. Pass several"),
        ([["spam", "ham"], np.eye(3)[:2]], "entries have different shapes. Pass several"),
        ([np.eye(3), np.eye(3)], "got 3 dimensions. Pass several teachers as a dict"),
        ([[np.nan, 0.5, 0.5]], "row 0"),
    ],
)
def test_answers_that_cannot_be_read_are_refused(values: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Answers.of(values, NAMES)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([0, 1, 2, 0]), r"'1', '2', '3'; got '0' in 2 rows\. If they are positions in "
         r"this list, pass the classes at these positions\. Map other spellings"),
        ([0, 1.0, 7, None], r"got '0' in 1 row, '7' in 1 row\. Map other spellings"),
        ([0.5, 0.5, 1], r"got '0.5' in 2 rows\. Map"),
        (torch.tensor([-2, 1]), r"got '-2' in 1 row\. Map"),
        ([0, "1", "x"], r"got '0' in 1 row, 'x' in 1 row\. Map"),
    ],
)  # fmt: skip
def test_numbers_that_are_no_class_are_counted_as_texts_are(values: object, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        Answers.of(values, ("1", "2", "3"))
    assert not hasattr(error.value, "__notes__")
    assert "Save" not in str(error.value)


def test_numbers_are_classes_by_their_text() -> None:
    large = 2**60 + 1  # more digits than a float has
    values = [1, 2.0, np.int64(3), torch.tensor(1), None, -1, np.nan, large]
    read = Answers.of(values, ("1", "2", "3", str(large)))
    assert read.values.tolist() == [0, 1, 2, 0, -1, -1, -1, 3]
    assert Answers.of([0.5, 1.5], ("0.5", "1.5")).values.tolist() == [0, 1]
    with pytest.raises(ValueError, match="got the number -1"):  # that class, or no answer?
        Answers.of([-1, 1], ("-1", "1"))


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
    by_name = as_answers({"gpt": ["ham", "odd"], "me": one}, NAMES, 2)
    assert [a.name for a in by_name] == ["gpt", "model"]
    with pytest.raises(ValueError, match="model must cover the 3 rows"):
        as_answers([one], NAMES, 3)


def test_probabilities_no_better_than_chance_are_noticed() -> None:
    y = torch.arange(60) % 3
    right = 0.7 * torch.eye(3)[y] + 0.1
    gold = torch.where(torch.arange(60) < 30, y, -1)
    warn_of_chance([Answers.of(right, NAMES), Answers((y + 1) % 3, 3)], gold)  # classes: no order
    mixed = Answers.of(right[:, [1, 2, 0]], NAMES, name="llm")
    with pytest.warns(UserWarning, match="class of llm is right on 0 of 30 gold rows"):
        warn_of_chance([mixed], gold)


COLUMN, TABLE = ["ham", "odd", None, "spam"], np.eye(3)[[0, 1, 1, 2]]


@pytest.mark.parametrize(
    ("values", "forms"),
    [
        ([COLUMN, TABLE], [1, 2]),
        ([COLUMN, COLUMN], [1, 1]),
        ((TABLE.tolist(), tuple(COLUMN)), [2, 1]),
        ([TABLE.tolist(), TABLE.tolist()], [2, 2]),
        ([COLUMN] * 4, [1] * 4),  # as many as rows
        ([Answers.of(COLUMN, NAMES), pd.Series(COLUMN), torch.tensor(TABLE)], [1, 1, 2]),
        ({"llm": COLUMN, "crowd": TABLE}, [1, 2]),
        (COLUMN, [1]),
        ([COLUMN], [1]),
        (TABLE.tolist(), [2]),
    ],
)
def test_several_teachers_in_a_list_are_told_from_the_rows_of_one(
    values: object, forms: list[int]
) -> None:
    read = as_answers(values, NAMES, 4)
    assert [one.values.ndim for one in read] == forms
    for one in read:
        rows = [0, 1, 3]
        assert one.probabilities[rows].argmax(1).tolist() == [0, 1, 2]


def test_as_many_lists_of_numbers_as_rows_are_one_table() -> None:
    square = [[1.0, 0.0, 0.0], [None] * 3, [0.0, 0.0, 1.0]]
    (only,) = as_answers(square, NAMES, 3)
    assert only.answered.tolist() == [True, False, True]


def test_columns_of_another_length_are_refused_with_advice() -> None:
    for values in ([COLUMN, COLUMN], [COLUMN, TABLE], [TABLE, TABLE]):
        with pytest.raises(ValueError, match="Pass several teachers as a dict of columns by name"):
            as_answers(values, NAMES, 5)
