import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dessl.data.errors import DataError
from dessl.data.formats.encoding import TableEncoding
from dessl.data.formats.fitting import read_new_table, read_table
from dessl.data.formats.tables import open_table


def table(path: Path, labels: list[object]) -> Path:
    frame = pd.DataFrame({"n": np.arange(len(labels)) % 4, "y": labels})
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
    return path


@pytest.mark.parametrize("word", ["NA", "?", "Unlabelled", "#N/A", "<NA>", "none", "-", "N.A."])
@pytest.mark.parametrize("others", [("0", "1"), ("k0", "k1")])
def test_a_label_that_may_stand_for_none_is_warned_of(
    tmp_path: Path, word: str, others: tuple[str, str]
) -> None:
    path = table(tmp_path / "a.csv", [*others, word] * 4)
    with pytest.warns(
        UserWarning, match=f"column 'y': '{re.escape(word)}' is treated .* empty the cell"
    ) as caught:
        data, _ = read_table(path, label="y")
    assert caught[0].filename == __file__
    assert sorted(data.class_names) == sorted([*others, word])


def test_spellings_of_one_label_are_warned_of(tmp_path: Path) -> None:
    with pytest.warns(
        UserWarning, match="column 'y': 'Yes' and 'yes' count as different"
    ) as caught:
        read_table(table(tmp_path / "a.csv", ["yes", "no", "Yes"] * 4), label="y")
    assert caught[0].filename == __file__


def test_minus_one_is_warned_of_among_whole_numbers(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="column 'y': '-1' is treated as a class"):
        data, _ = read_table(table(tmp_path / "a.csv", [0, 1, -1] * 4), label="y")
    assert data.class_names == ("-1", "0", "1")


@pytest.mark.parametrize("mark", ["-1", "-1.0"])
def test_minus_one_beside_text_is_refused_as_it_is_elsewhere(tmp_path: Path, mark: str) -> None:
    path = table(tmp_path / "a.csv", ["k0", "k1", mark] * 4)
    with pytest.raises(
        DataError,
        match=r"labels in column 'y'; got '-1' together with text such as 'k0'.* Empty the",
    ):
        read_table(path, label="y")


@pytest.mark.parametrize("labels", [["-1", "1"], ["-", "+"], ["-1", "1.5"]])
def test_codings_of_two_classes_are_silent(tmp_path: Path, labels: list[str]) -> None:
    data, _ = read_table(table(tmp_path / "a.csv", labels * 6), label="y")
    assert set(data.class_names) == set(labels)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_measurements_are_no_classes(tmp_path: Path, suffix: str) -> None:
    values = np.random.default_rng(0).normal(size=200).round(3)
    values[::3] = np.nan
    with pytest.raises(
        DataError,
        match=r"classes in the label column 'y'; got \d+ different numbers in 133 labelled rows, "
        r"such as .* not measurements",
    ):
        read_table(table(tmp_path / f"a{suffix}", list(values)), label="y")


def test_measurements_with_a_mark_for_missing_are_none_either(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="got 20 different numbers in 20 labelled rows"):
        read_table(
            table(tmp_path / "a.csv", [*(f"{k}.5" for k in range(20)), *["?"] * 30]), label="y"
        )


def test_grades_with_a_fraction_and_few_whole_numbers_are_classes(tmp_path: Path) -> None:
    grades = table(tmp_path / "a.csv", ["1.0", "1.3", "1.7", "2.0"] * 3)
    assert read_table(grades, label="y")[0].class_names == ("1", "1.3", "1.7", "2")
    numbers = table(tmp_path / "b.csv", [5, 10, 7, ""])
    assert read_table(numbers, label="y")[0].class_names == ("5", "7", "10")


def test_a_mark_for_a_missing_label_can_be_named(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", ["yes", "no", "NA", "?"] * 4)
    data, encoding = read_table(path, label="y", missing_labels=("NA", "?"))
    assert data.class_names == ("no", "yes")
    assert data.y.tolist() == [1, 0, -1, -1] * 4
    again = TableEncoding.from_dict(json.loads(json.dumps(encoding.as_dict())))
    assert again == encoding
    assert again.labels(open_table(path)).tolist() == data.y.tolist()
    older = {name: entry for name, entry in encoding.as_dict().items() if name != "missing_labels"}
    assert TableEncoding.from_dict(older).missing_labels == ()


def test_common_marks_are_asked_about(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", ["yes", "no", "NA", "?"] * 4)
    asked = []

    def ask(marks: dict[str, int]) -> list[str]:
        asked.append(marks)
        return ["NA"]

    data, _ = read_table(path, label="y", ask=ask)
    assert asked == [{"?": 4, "NA": 4}]
    assert data.class_names == ("?", "no", "yes")


BOOLEANS = {
    "words": ["true", "false", "true", "true"],
    "titles": ["True", "False", "True", "True"],
    "capitals": ["TRUE", "FALSE", "TRUE", "TRUE"],
    "bits": [1, 0, 1, 1],
    "floats": [1.0, 0.0, 1.0, 1.0],
    "texts of bits": ["1", "0", "1.0", "1"],
    "bools": [True, False, True, True],
}


def booleans(path: Path, values: list[object]) -> Path:
    frame = pd.DataFrame({"b": values, "y": ["k0", "k1"] * 2})
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("later", BOOLEANS)
@pytest.mark.parametrize("first", BOOLEANS)
def test_booleans_are_the_same_however_they_are_written(
    tmp_path: Path, first: str, later: str, suffix: str
) -> None:
    data, encoding = read_table(booleans(tmp_path / f"a{suffix}", BOOLEANS[first]), label="y")
    encoding = TableEncoding.from_dict(json.loads(json.dumps(encoding.as_dict())))
    new = read_new_table(booleans(tmp_path / f"b{suffix}", BOOLEANS[later]), encoding)
    assert new.x.equal(data.x)


@pytest.mark.parametrize("later", BOOLEANS)
def test_bits_named_as_categories_are_booleans_too(tmp_path: Path, later: str) -> None:
    first = booleans(tmp_path / "a.csv", BOOLEANS["bits"])
    data, encoding = read_table(first, label="y", categorical=["b"])
    assert read_new_table(booleans(tmp_path / "b.csv", BOOLEANS[later]), encoding).x.equal(data.x)


def test_other_values_among_booleans_are_still_unseen_categories(tmp_path: Path) -> None:
    _, encoding = read_table(booleans(tmp_path / "a.csv", BOOLEANS["words"]), label="y")
    with pytest.warns(UserWarning, match=r"1 of 4 cells in column 'b' have a category .* as '2'"):
        new = read_new_table(booleans(tmp_path / "b.csv", [0, 1, 2, 1]), encoding)
    assert new.x.tolist() == [[1, 0], [0, 1], [0, 0], [0, 1]]


@pytest.mark.parametrize("values", [[0, 1, 2, 1], [0, 0.5, 1, 1], [-1, 1, 1, 1]])
def test_true_is_not_a_number_where_there_were_others(tmp_path: Path, values: list[object]) -> None:
    _, encoding = read_table(booleans(tmp_path / "a.csv", values), label="y")
    with pytest.raises(DataError, match="expected numbers in column 'b'; got 'true' in data row 1"):
        read_new_table(booleans(tmp_path / "b.csv", BOOLEANS["words"]), encoding)


def test_zero_is_not_false_among_other_categories(tmp_path: Path) -> None:
    values = ["true", "false", "maybe", "true"]
    _, encoding = read_table(booleans(tmp_path / "a.csv", values), label="y")
    with pytest.warns(UserWarning, match="4 of 4 cells in column 'b' have a category"):
        new = read_new_table(booleans(tmp_path / "b.csv", BOOLEANS["bits"]), encoding)
    assert not new.x.any()
