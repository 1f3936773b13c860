"""The reader of TOML and JSON: each type at each depth, and errors that name the place."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from dessl._entries import EntryError, Measured, Numbers, check_call, check_name, read_as, read_toml


@dataclass(frozen=True)
class Inner:
    labels: int
    share: float = 0.0
    draw: Literal["mcar", "balanced"] = "mcar"


@dataclass(frozen=True)
class Outer:
    name: str
    data: tuple[Inner, ...]
    sure: bool = False
    levels: Mapping[str, Inner] = field(default_factory=dict)
    by_profile: Mapping[Literal["fast", "paper"], int] = field(default_factory=dict)
    size: int | tuple[int, int] | None = None
    weights: Sequence[float] | None = None
    risk: Measured = 0.0
    curves: dict[str, Numbers] = field(default_factory=dict)
    free: Any = None


WHOLE: dict[str, Any] = {"name": "a", "data": [{"labels": 3}]}


def test_a_dataclass_is_the_same_after_a_trip_through_its_entries() -> None:
    one = Outer("a", (Inner(3, 0.5, "balanced"), Inner(4)), sure=True, levels={"x": Inner(1)},
                by_profile={"fast": 2}, size=(2, 3), weights=(1.0, 2.0), risk=0.5,
                curves={"x": [1.0, {"y": None}]}, free=[{"b": "c"}])  # fmt: skip
    assert read_as(Outer, dataclasses.asdict(one)) == one


def test_numbers_that_json_does_not_know_are_read_back() -> None:
    assert math.isnan(read_as(Outer, WHOLE | {"risk": None}).risk)
    assert read_as(Outer, WHOLE | {"risk": "-Infinity"}).risk == -math.inf
    assert read_as(Inner, {"labels": 3, "share": 1}).share == 1.0


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ([], "x.toml must be a table; got []"),
        ({"data": []}, "x.toml is missing name"),
        (WHOLE | {"nmae": "b"}, "x.toml has no entry 'nmae'; did you mean 'name'?"),
        (WHOLE | {"zzz": 1}, "x.toml has no entry 'zzz'; it has name, data, sure"),
        (WHOLE | {"name": 3}, "x.toml: name must be text; got 3"),
        (WHOLE | {"sure": "no"}, "x.toml: sure must be true or false; got 'no'"),
        (WHOLE | {"data": {"labels": 3}}, "x.toml: data must be a list"),
        (WHOLE | {"data": [3]}, "x.toml: data[0] must be a table; got 3"),
        (WHOLE | {"data": [{}]}, "x.toml: data[0] is missing labels"),
        (
            WHOLE | {"data": [{"labels": 3}, {"labels": "sixty"}]},
            "x.toml: data[1].labels must be a whole number; got 'sixty'",
        ),
        (WHOLE | {"data": [{"labels": True}]}, "data[0].labels must be a whole number; got True"),
        (WHOLE | {"data": [{"labels": 1.5}]}, "data[0].labels must be a whole number; got 1.5"),
        (
            WHOLE | {"data": [{"labels": 3, "share": math.inf}]},
            "data[0].share must be a finite number; got inf",
        ),
        (
            WHOLE | {"data": [{"labels": 3, "draw": "balnced"}]},
            "data[0].draw must be one of 'mcar', 'balanced'; got 'balnced'; did you mean",
        ),
        (WHOLE | {"levels": {"x": {"label": 3}}}, "levels.x has no entry 'label'; did you mean"),
        (WHOLE | {"levels": 3}, "levels must be a table; got 3"),
        (WHOLE | {"by_profile": {"fats": 3}}, "an entry of by_profile must be one of 'fast'"),
        (WHOLE | {"by_profile": {"fast": "x"}}, "by_profile.fast must be a whole number; got 'x'"),
        (WHOLE | {"size": "x"}, "size must be a whole number or a list of whole numbers or null"),
        (WHOLE | {"size": [1]}, "size must be"),
        (WHOLE | {"weights": [1.0, "x"]}, "weights must be a list of finite numbers or null"),
        (WHOLE | {"risk": "x"}, "risk must be a number, null or 'Infinity'; got 'x'"),
        (WHOLE | {"curves": {"y": [1, {"z": "q"}]}}, "curves.y[1].z must be a number"),
    ],
)
def test_errors_name_the_place_and_what_was_expected(entries: Any, says: str) -> None:
    with pytest.raises(EntryError) as caught:
        read_as(Outer, entries, source="x.toml")
    assert says in str(caught.value)


def test_without_a_file_the_class_is_named() -> None:
    with pytest.raises(EntryError, match="Outer is missing name, data"):
        read_as(Outer, {})


class Built:
    def __init__(self, n: int, *, width: float = 1.0, view: Any = None) -> None: ...


def needs_tensor(row: "NoSuchType", hard: bool = False) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def test_a_table_is_checked_against_what_it_is_passed_to() -> None:
    check_call(Built, {"width": 2}, given=["n"])
    check_call(needs_tensor, {"row": [1], "hard": True})  # a type unknown here is not looked at
    for entries, says in (
        ({"widht": 2.0}, "a: model has no entry 'widht'; did you mean 'width'?"),
        ({"n": 2}, "a: model has no entry 'n'"),
        ({"width": [2.0]}, "a: model.width must be a finite number"),
    ):
        with pytest.raises(EntryError, match=says):
            check_call(Built, entries, given=["n"], source="a", at="model")
    with pytest.raises(EntryError, match="Built is missing n"):
        check_call(Built, {})


def test_a_name_that_is_not_known_is_said_with_the_nearest() -> None:
    check_name("brier", ["accuracy", "brier"])
    with pytest.raises(
        EntryError, match=r"metrics\[0\] must be one of .* got 'accuracie'; did you"
    ):
        check_name("accuracie", ["accuracy", "brier"], at="metrics[0]")
    with pytest.raises(EntryError, match="must be one of nothing; got 'x'"):
        check_name("x", [])


def test_a_file_that_is_no_toml_is_named_with_the_line(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("a = 1\nb = \n")
    with pytest.raises(EntryError, match=r"a\.toml must be TOML; .*line 2"):
        read_toml(file)
    file.write_bytes(b"\xff")
    with pytest.raises(EntryError, match=r"a\.toml must be TOML"):
        read_toml(file)
    file.write_text("a = [1, {b = 2}]")
    assert read_toml(file) == {"a": [1, {"b": 2}]}


@pytest.mark.parametrize("name", [{}, [1], {"name": "x"}])
def test_a_table_in_the_place_of_a_name_is_refused(name: object) -> None:
    with pytest.raises(EntryError, match="model must be one of 'a', 'b'; got"):
        check_name(name, {"a": 1, "b": 2}, at="model")
