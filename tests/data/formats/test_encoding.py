import json
from typing import Any

import pytest

from dessl.data.errors import DataError
from dessl.data.formats.columns import CategoricalColumn, NumericColumn
from dessl.data.formats.encoding import TableEncoding

ENCODING = TableEncoding(
    "y",
    ("no", "yes"),
    (
        NumericColumn("age", median=40.5, mean=1 / 3, scale=1e-300, indicator=True),
        CategoricalColumn("town", ("Oslo", "Tromsø"), indicator=False),
    ),
    {"id": "counts the rows"},
)


def test_an_encoding_saved_before_decimal_commas_has_none() -> None:
    entries = ENCODING.as_dict()
    assert entries["columns"][0].pop("decimal_comma") is False
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
