"""Advice about files names options; advice about data frames names none."""

import re
import time

import pytest

from dessl.data.formats.advice import MEASURED, Advice, FrameAdvice, PandasAdvice

OPTIONS = re.compile(r"--[a-z]|\b(missing|ignore|categorical)=")
PANDAS = re.compile(r"X\[|X\.|pd\.|np\.|NaN")


def sentences(advice: Advice) -> list[str]:
    cells = ("57%", "$23,810", "-inf", "unknown")
    return [
        *(advice.not_numbers("a b", cell, comma=False, several=False) for cell in cells),
        advice.category("a b"),
        advice.unread("a b"),
        advice.not_a_date("a b"),
        advice.group("a b"),
        advice.far_marks(["-999"]),
        advice.far_marks([]),
        advice.dropped({"a b": "constant"}),
    ]


@pytest.mark.parametrize("advice", [PandasAdvice(), PandasAdvice().later])
def test_a_frame_has_no_options(advice: Advice) -> None:
    said = sentences(advice)
    assert not any(OPTIONS.search(one) for one in said)
    assert sum("X['a b']" in one or "columns='a b'" in one for one in said) == 8
    assert ("train again with" in advice.category("a")) == advice.fitted


@pytest.mark.parametrize("advice", [FrameAdvice(), FrameAdvice().later])
def test_a_frame_of_another_library_has_words(advice: FrameAdvice) -> None:
    said = [*sentences(advice), advice.columns, advice.identifiers(["a b"])]
    assert not any(OPTIONS.search(one) or PANDAS.search(one) for one in said)
    assert ("train again with" in advice.category("a")) == advice.fitted


def test_a_file_has_no_pandas() -> None:
    said = sentences(Advice())
    assert not any(PANDAS.search(one) for one in said)
    assert sum(bool(OPTIONS.search(one)) for one in said) == 9
    assert "pass --ignore 'a b'" in Advice().group("a b")
    assert "dessl fit --categorical" in Advice().later.category("a")


def test_pandas_is_not_told_to_read_decimal_commas() -> None:
    said = PandasAdvice().not_numbers("a", "unknown", comma=True, several=True)
    assert said.startswith("Correct the cells, or replace what is not a number by NaN; or, if")


@pytest.mark.parametrize(("cell", "also"), [("57%", ""), ("€1.5", ""), ("$23,810", " and the")])
def test_separators_are_named_if_there_are_any(cell: str, also: str) -> None:
    said = Advice().not_numbers("a", cell, comma=False, several=False)
    sign = next(one for one in cell if one in "%€$")
    assert said.startswith(f"Remove the sign '{sign}'{also or ' from'}")


@pytest.mark.parametrize(
    ("cell", "pattern"),
    [("8,009.39", "[,]"), ("8.009,39", "[.]"), ("8 009", r"\s"), ("8'009", None)],
)
def test_separators_of_thousands_alone_are_removed(cell: str, pattern: str | None) -> None:
    said = PandasAdvice().not_numbers("a", cell, comma=False, several=False)
    assert said.startswith("Remove the separators of thousands: X['a'].astype('string').str.rep")
    left = re.sub(pattern or "[']", "", cell)
    assert re.fullmatch("8009([.,]39)?", left)
    assert pattern is None or f"replace({pattern!r}, ''" in said


@pytest.mark.parametrize(
    ("cell", "left"),
    [
        ("$23,810.50", "23810.50"),
        ("12,50 €", "12,50 "),
        ("1 234,50 €", "1234,50"),
        ("1,234 %", "1234 "),
        ("45,5 %", "45,5 "),
    ],
)
def test_a_decimal_comma_is_not_removed_with_a_sign(cell: str, left: str) -> None:
    said = PandasAdvice().not_numbers("a", cell, comma=False, several=False)
    pattern = re.search(r"replace\('(.*?)', '', regex", said)
    assert pattern is not None
    assert re.sub(pattern[1], "", cell) == left


def test_units_are_recognised_in_linear_time() -> None:
    found = MEASURED.match("12 kg/m³·s²")
    assert found is not None
    assert found["unit"] == "kg/m³·s²"
    started = time.perf_counter()
    assert MEASURED.match("1 m" + "²" * 22 + "!") is None
    assert time.perf_counter() - started < 0.1
