"""A CSV's delimiter, encoding and column names are found in its first lines."""

import codecs
from pathlib import Path

import pytest

from dessl.data.formats.csv_dialect import Dialect, csv_header, dialect_of, likely_delimiter


@pytest.mark.parametrize(
    ("start", "delimiter"),
    [
        ("a;b,c,d\n1;2,3,4\n", ","),
        ('"age, y";"bp, mm, sys, x";outcome\n71;111.2;sick\n', ";"),
        ('"a ""b, c"", d";e\r\n1;2\r\n', ";"),
        ('"two,\nlines, here";b\n1;2\n', ";"),
        ("age, in years, at entry;bp;y\n71;111.2;sick\n", ";"),
        ("age, in years, at entry;bp;y", ","),
        ('a;b\n"1,2,3";"4,5"\n', ";"),
        ('5" pipe;6" pipe, cut;y\n1;2;a\n', ";"),
        ("a\tb|c\td\n1\t2\t3\n", "\t"),
        ("only\n1\n", ","),
        ("", ","),
    ],
)
def test_the_delimiter_is_looked_for_outside_quotes(start: str, delimiter: str) -> None:
    assert likely_delimiter(start) == delimiter


def test_names_are_read_with_the_delimiter_found_or_given(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('"age, y";"bp, mm";outcome\n1;2;a\n')
    assert csv_header(path, None) == (["age, y", "bp, mm", "outcome"], ";")
    assert csv_header(path, "|")[1] == "|"


@pytest.mark.parametrize("given", [None, "utf-8", "UTF8", "utf-8-sig", "latin-1"])
def test_a_byte_order_mark_means_utf_8(tmp_path: Path, given: str | None) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(codecs.BOM_UTF8 + "größe;y\n1;a\n".encode())
    assert dialect_of(path, None, given) == Dialect(["größe", "y"], ";", None)


def test_another_encoding_is_kept_for_arrow(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("größe,y\n1,a\n".encode("cp1252"))
    found = dialect_of(path, None, "cp1252")
    assert found == Dialect(["größe", "y"], ",", "cp1252")
    assert found.arrow_options()["read_options"].encoding == "cp1252"
    with pytest.raises(ValueError, match="column names in another encoding"):
        dialect_of(path, None, None)
