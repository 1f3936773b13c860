import math

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.preprocessing import LabelEncoder

from dessl.data import SemiData
from dessl.data.labels import label_codes, marks_among, warn_of_marks, warn_of_spellings


def coded(y, names=None):
    codes, names = label_codes({"y": y}, names)
    return codes["y"].tolist(), names


@pytest.mark.parametrize(
    "y",
    [
        [0, 2, -1, 1],
        (0, 2, None, 1),
        [0, 2, math.nan, 1.0],
        np.array([0, 2, -1, 1], dtype=np.int8),
        np.array([0, 2, np.nan, 1]),
        np.array([0, 2, np.nan, 1], dtype=np.float16),
        np.array([0, 2, None, 1], dtype=object),
        [np.int64(0), np.float32(2), np.float32("nan"), np.uint8(1)],
        torch.tensor([0, 2, -1, 1]),
        torch.tensor([0.0, 2.0, math.nan, 1.0]),
        list(torch.tensor([0, 2, -1, 1])),
        list(torch.tensor([0.0, 2.0, math.nan, 1.0])),
        [np.array(0), np.array(2), np.array(-1), np.array(1)],
        np.ma.array([0, 2, 5, 1], mask=[False, False, True, False]),
        pd.Series([0, 2, None, 1]),
        pd.array([0, 2, None, 1], dtype="Int64"),
    ],
)
def test_whole_numbers_are_class_numbers(y) -> None:
    assert coded(y) == ([0, 2, -1, 1], ("0", "1", "2"))


@pytest.mark.parametrize(
    "y",
    [
        ["b", None, "a", "b", "c"],
        ["b", math.nan, "a", "b", "c"],
        ("b", "", "a", "b", "c"),
        np.array(["b", "", "a", "b", "c"]),
        np.array(["b", None, "a", "b", "c"], dtype=object),
        pd.Series(["b", None, "a", "b", "c"]),
        pd.Series(["b", None, "a", "b", "c"], dtype="string"),
        pd.Categorical(["b", None, "a", "b", "c"]),
    ],
)
def test_text_is_mapped_in_sorted_order(y) -> None:
    assert coded(y) == ([1, -1, 0, 1, 2], ("a", "b", "c"))


@pytest.mark.parametrize(
    "y", [np.array([1, np.nan, 0, -1]), [1, None, 0, -1], torch.tensor([1, math.nan, 0, -1])]
)
def test_minus_one_next_to_another_mark_is_warned_of(y) -> None:
    with pytest.warns(UserWarning, match=r"y: -1 and NaN \(or None\) both occur") as seen:
        SemiData(torch.rand(4, 2), y)
    assert seen[0].filename == __file__
    # The class names leave no doubt.
    assert coded(y, ("no", "yes")) == ([1, -1, 0, -1], ("no", "yes"))


@pytest.mark.parametrize("y", [[-1, 1, 1], np.array([-1.0, 0.0])])
def test_minus_one_as_a_class_is_explained(y) -> None:
    with pytest.raises(ValueError, match=r"-1 means unlabelled: if it is a class, recode it"):
        coded(y)


def test_text_is_coded_as_scikit_learn_codes_it() -> None:
    labels = np.random.default_rng(0).choice(["10", "9", "cat", "Ärzte", "_"], 200)
    encoder = LabelEncoder().fit(labels)
    assert coded(labels) == (encoder.transform(labels).tolist(), tuple(encoder.classes_))


def test_truth_values_are_two_classes() -> None:
    assert coded([True, False, None]) == ([1, 0, -1], ("False", "True"))
    assert coded(torch.tensor([True, False])) == ([1, 0], ("False", "True"))


def test_mixed_labels_are_mapped_by_their_text() -> None:
    assert coded(["x", 3, 2.5, None]) == ([2, 1, 0, -1], ("2.5", "3", "x"))


def test_given_names_fix_the_order_and_allow_absent_classes() -> None:
    assert coded(["b", "a"], ["c", "b", "a"]) == ([1, 2], ("c", "b", "a"))
    assert coded([3, -1], list("abcde")) == ([3, -1], tuple("abcde"))


def test_parts_are_coded_alike() -> None:
    codes, names = label_codes({"y": ["b", None], "test y": ["a", "c"], "validation y": [None]})
    assert names == ("a", "b", "c")
    assert {name: code.tolist() for name, code in codes.items()} == {
        "y": [1, -1],
        "test y": [0, 2],
        "validation y": [-1],
    }


@pytest.mark.parametrize(
    ("y", "names", "error", "message"),
    [
        ([0, 2], None, ValueError, "2 occurs but 1 does not. .* pass class_names="),
        ([1, 2], None, ValueError, "2 occurs but 0 does not"),
        ([0, -2], None, ValueError, r"-1 \(missing\) or a class number 0, 1, ...; got -2"),
        ([0, 1.5], None, ValueError, "got the fraction 1.5"),
        ([0, math.inf], None, ValueError, "a class number 0, 1, ...; got inf"),
        (np.array([0, 2**63], np.uint64), None, ValueError, r"number 0, 1, ...; got 9.22337e\+18"),
        ([0, 1, 2**50], None, ValueError, f"{2**50} occurs but 2 does not"),
        (np.array([b"a", b"b", b""]), None, TypeError, "bytes instead of text.*char.decode"),
        ([0, 3], ["a", "b"], ValueError, "class numbers below 2, .* got 3"),
        (["a", "z"], ["a", "b"], ValueError, r"y has 'z', which is not among .*'a', 'b'"),
        (["a", -1, "b"], None, ValueError, "mixes '-1' with text labels.* Use None"),
        ([True, False, -1], None, ValueError, "mixes '-1' with booleans.* Use None"),
        ([0, 0, -1], None, ValueError, r"at least 2 classes; got 1: '0'"),
        ([None, None], None, ValueError, "no row has a label"),
        (["a", "b"], ["a", "a"], ValueError, "class_names must differ"),
        (np.eye(3), None, ValueError, r"got \(3, 3\). .*argmax"),
        ([[0], [1]], None, ValueError, r"got rows of labels. .*ravel"),
        (list(torch.eye(2)), None, ValueError, r"got rows of labels. .*ravel"),
    ],
)
def test_what_cannot_be_labels_is_refused(y, names, error, message) -> None:
    with pytest.raises(error, match=message):
        label_codes({"y": y}, names)


def test_numbers_and_text_do_not_mix_between_parts() -> None:
    with pytest.raises(TypeError, match=r"the same kind .* whole numbers in y, text in test y\.$"):
        label_codes({"y": [0, 1], "test y": ["0", "1"]})


@pytest.mark.parametrize("y", [[True, None, False], np.array([True, False]), torch.ones(2) > 0])
def test_booleans_are_not_called_text(y) -> None:
    message = "got booleans in y, whole numbers in test y. Convert booleans to 0 and 1"
    with pytest.raises(TypeError, match=message):
        label_codes({"y": y, "test y": [0, 1]})
    assert label_codes({"y": y, "test y": ["True", "False"]})[1] == ("False", "True")


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
        UserWarning, match=r"^y: 'nan' is treated as a class\. .* label, ask\.$"
    ) as caught:
        read(["a", "nan"])
    assert caught[0].filename == __file__
    read(["a", "b"])  # silent: warnings are errors here


def test_other_spellings_of_a_class_are_named() -> None:
    def read(class_names: list[str]) -> None:
        warn_of_spellings(class_names, where="y")

    with pytest.warns(
        UserWarning, match=r"^y: 'NO' and 'no', 'a b' and 'a  B' count as different classes\."
    ) as caught:
        read(["NO", "a b", "yes", "no", "a  B"])
    assert caught[0].filename == __file__
    read(["ab", "a b", "b"])  # silent: warnings are errors here
