"""Values for JSON: what is read back, and what stays as it is."""

import json
import math
from typing import Any

import pytest

from dessl._json import finite, json_ready

NESTED = {"a": [1.5, math.nan, {"b": (math.inf, -math.inf, None)}], "c": "NaN", "d": True, "e": 3}


def test_numbers_that_json_has_not_are_named() -> None:
    found = json_ready(NESTED)
    again = json.loads(json.dumps(found, allow_nan=False))
    assert again == found
    assert again["a"][:2] == [1.5, None]
    assert [value and float(value) for value in again["a"][2]["b"]] == [math.inf, -math.inf, None]
    assert {name: again[name] for name in "cde"} == {"c": "NaN", "d": True, "e": 3}


def test_only_finite_numbers_are_left() -> None:
    assert finite(NESTED) == {
        "a": [1.5, None, {"b": [None, None, None]}], "c": "NaN", "d": True, "e": 3,
    }  # fmt: skip


@pytest.mark.parametrize("change", [json_ready, finite])
@pytest.mark.parametrize("value", [0.0, -1e308, 5, "Infinity", None, [], {}, False])
def test_other_values_stay_as_they_are(change: Any, value: Any) -> None:
    assert change(value) == value
    assert type(change(value)) is type(value)


def test_the_original_is_left_alone() -> None:
    value = {"a": [math.nan]}
    assert json_ready(value) == {"a": [None]}
    assert math.isnan(value["a"][0])
