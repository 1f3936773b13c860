import json
from pathlib import Path
from typing import Any

import pytest

from dessl.data.errors import DataError
from dessl.data.formats.columns import CategoricalColumn, NumericColumn
from dessl.data.formats.encoding import TableEncoding
from dessl.data.formats.fitting import read_new_table, read_table

ENCODING = TableEncoding(
    "y",
    ("no", "yes"),
    (
        NumericColumn("age", median=40.5, mean=1 / 3, scale=1e-300, indicator=True),
        CategoricalColumn("town", ("Oslo", "Tromsø"), indicator=False),
    ),
    {"id": "it only numbers the rows"},
)


@pytest.mark.parametrize("flag", ["decimal_comma", "boolean"])
def test_an_encoding_saved_before_a_flag_existed_does_not_have_it(flag: str) -> None:
    entries = ENCODING.as_dict()
    assert entries["columns"][0].pop(flag) is False
    assert TableEncoding.from_dict(entries) == ENCODING


def test_json_carries_the_encoding_exactly() -> None:
    assert TableEncoding.from_dict(json.loads(json.dumps(ENCODING.as_dict()))) == ENCODING


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("version",), 2),
        (("label",), None),
        (("class_names",), 3),
        (("class_names",), [1, 2]),
        (("left_out",), []),
        (("more",), 1),
        (("columns", 0, "kind"), "wavelet"),
        (("columns", 0, "scale"), 0.0),
        (("columns", 0, "mean"), float("nan")),
        (("columns", 0, "median"), "x"),
        (("columns", 0, "indicator"), 1),
        (("columns", 0, "decimal_comma"), "yes"),
        (("columns", 0, "boolean"), 1),
        (("columns", 0, "more"), 1),
        (("columns", 1, "categories"), [1]),
        (("columns", 1, "name"), 7),
        (("columns", 1), 5),
    ],
)
def test_anything_else_is_refused(path: tuple[Any, ...], value: Any) -> None:
    entries: Any = ENCODING.as_dict()
    place = entries
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(DataError, match=r"model.json: expected a table encoding of version 1"):
        TableEncoding.from_dict(entries, source="model.json")


@pytest.mark.parametrize("entries", [None, [], "text", {}, 7])
def test_what_is_no_mapping_is_refused(entries: Any) -> None:
    with pytest.raises(DataError, match="expected a table encoding"):
        TableEncoding.from_dict(entries)


def written(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_only_unused_columns_are_suggested_for_a_missing_one(tmp_path: Path) -> None:
    rows = [f"{k % 7},{k % 5},{'ab'[k % 2]}" for k in range(20)]
    _, encoding = read_table(written(tmp_path / "a.csv", "c3,c13,y", *rows), label="y")
    with pytest.raises(DataError, match=r"the column\(s\) 'c3'; got 'c13', 'y'\. Pass a table"):
        read_new_table(written(tmp_path / "b.csv", "c13,y", "1,a"), encoding)
    with pytest.raises(DataError, match=r"Did you mean 'C 3'\? Pass a table"):
        read_new_table(written(tmp_path / "b.csv", "c13,C 3,y", "1,2,a"), encoding)


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (("abc", "2024-01-03"), "numbers in column 'n'; got 'abc'"),
        (("1,234", "2024-01-03"), "that show what the comma means"),
        (("4", "soon"), "dates in column 'day'"),
    ],
)
def test_errors_in_new_rows_do_not_advise_options_of_fit(
    tmp_path: Path, cells: tuple[str, str], said: str
) -> None:
    rows = [f"{k % 7};2024-01-{k % 5 + 10};{'ab'[k % 2]}" for k in range(20)]
    _, encoding = read_table(written(tmp_path / "a.csv", "n;day;y", *rows), label="y")
    new = written(tmp_path / "b.csv", "n;day;y", ";".join((*cells, "a")))
    with pytest.raises(DataError, match=said) as caught:
        read_new_table(new, encoding)
    assert "if the column has categories, fit the model again with categorical= (dessl fit" in str(
        caught.value
    )


def test_a_label_column_without_labels_is_said_to_be_empty(tmp_path: Path) -> None:
    rows = [f"{k % 7},{mark}" for k, mark in enumerate(["", "NA"] * 5)]
    path = written(tmp_path / "a.csv", "n,y", *rows)
    with pytest.raises(DataError, match="got none: all 10 cells are empty or mark a missing label"):
        read_table(path, label="y", missing_labels=["NA"])
