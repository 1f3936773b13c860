import pytest

from dessl.data.label_marks import marks_among, warn_of_marks, warn_of_spellings


@pytest.mark.parametrize(
    "word",
    ["NA", "#N/A", "<NA>", "none", "Null", "NAN", "-", ".", "N.A.", "#VALUE!", "NaT", "?", "–"],
)
def test_marks_are_known_in_any_case(word: str) -> None:
    assert marks_among(["yes", "no", word]) == [word]


@pytest.mark.parametrize(
    "names", [["+", "-"], ["-1", "1"], ["0", "1"], ["nano", "naive"], ["-1", "a"]]
)
def test_classes_that_only_look_like_marks(names: list[str]) -> None:
    assert marks_among(names) == []


def test_minus_one_is_a_mark_among_whole_numbers() -> None:
    assert marks_among(["-1", "0", "1"]) == ["-1"]
    assert marks_among(["-1", "0", "1", "NA"]) == ["-1", "NA"]


def test_the_warning_is_about_the_line_that_called_the_caller() -> None:
    def read(class_names: list[str]) -> None:
        warn_of_marks(class_names, where="y", do="ask")

    with pytest.warns(
        UserWarning, match=r"^y: 'nan' is taken for a class\. .* label, ask\.$"
    ) as caught:
        read(["a", "nan"])
    assert caught[0].filename == __file__
    read(["a", "b"])  # silent: warnings are errors here


def test_other_spellings_of_a_class_are_named() -> None:
    def read(class_names: list[str]) -> None:
        warn_of_spellings(class_names, where="y")

    with pytest.warns(
        UserWarning, match=r"^y: 'NO' and 'no', 'a b' and 'a  B' are taken for different classes\."
    ) as caught:
        read(["NO", "a b", "yes", "no", "a  B"])
    assert caught[0].filename == __file__
    read(["ab", "a b", "b"])  # silent: warnings are errors here
