"""A teacher's words for the classes."""

import pytest

from dessl.data.spelling import column_order, spelled

NAMES = ("no", "yes")


def test_case_and_spaces_do_not_matter_but_are_counted() -> None:
    found = spelled(["yes", " YES ", "No", "n o", "  ", None, "NA", "na"], NAMES, marks=("NA",))
    assert found.classes == ["yes", "yes", "no", None, None, None, None, None]
    assert found.respelt == {" YES ": 1, "No": 1}
    assert found.other == {"n o": 1}


def test_a_spelling_of_two_classes_is_none_of_them() -> None:
    found = spelled(["A", "a", " a", "B"], ("A", "a", "b"))
    assert found.classes == ["A", "a", None, "b"]
    assert found.other == {" a": 1}


def test_the_warning_counts() -> None:
    with pytest.warns(UserWarning, match="of llm") as seen:
        spelled(["YES", "?", "?"], NAMES).warn("llm", NAMES, stacklevel=1)
    assert [str(one.message) for one in seen] == [
        "1 answer of llm was read as a class that differs only in upper and lower case or in "
        "spaces, such as 'YES' as 'yes'.",
        "2 answers of llm are not classes and count as no answer: '?' in 2 rows.",
    ]


@pytest.mark.parametrize(
    ("columns", "classes", "order"),
    [
        (("yes", "no"), NAMES, [1, 0]),
        (("p(yes)", "p(no)"), NAMES, [1, 0]),
        (("p_no", "p_yes"), NAMES, [0, 1]),
        ((" Yes", "NO"), NAMES, [1, 0]),
        ((2, 1), ("1", "2"), [1, 0]),
        ((2.0, 1.0), ("1", "2"), [1, 0]),
        (("p1", "p0"), ("0", "1"), [1, 0]),
        ((0, 1), NAMES, None),
        ((0, 1, 2), ("1", "2", "3"), None),
        (("x0", "x1"), NAMES, None),
    ],
)
def test_columns_are_found_by_the_classes_in_their_names(
    columns: tuple[object, ...], classes: tuple[str, ...], order: list[int] | None
) -> None:
    assert column_order(columns, classes) == order


@pytest.mark.parametrize(
    ("columns", "classes"),
    [(("yes", "maybe"), NAMES), (("first", "second"), NAMES), ((1, 2, 0), ("1", "2", "3"))],
)
def test_other_names_are_refused(columns: tuple[object, ...], classes: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="a column for each class, named like"):
        column_order(columns, classes)
