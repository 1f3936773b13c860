"""Texts of a million characters: looked at once, and never quoted whole.

A pattern that reads a text in quadratic time would need hours for each of these.
"""

import re
from pathlib import Path

import numpy as np
import pytest

from dessl.data import SemiData
from dessl.data.errors import DataError
from dessl.data.formats.cells import COMMA_NUMBER, NUMBER, is_number
from dessl.data.formats.csv_dialect import likely_delimiter
from dessl.data.formats.excel import _Styles
from dessl.data.formats.tables import PANDAS_INDEX

LONG = 10**6
DIGITS = "9" * LONG
SHORTEST_MESSAGE, LONGEST_MESSAGE = 20, 3_000


@pytest.mark.parametrize("pattern", [NUMBER, COMMA_NUMBER])
@pytest.mark.parametrize(
    "text", [f"{DIGITS}x", f"1.{DIGITS}x", f"{DIGITS}.{DIGITS}x", f"1e{DIGITS}x", f".{DIGITS}x"]
)
def test_a_long_text_is_seen_to_be_no_number(pattern: str, text: str) -> None:
    assert not re.match(pattern, text)


@pytest.mark.parametrize(
    ("text", "number"), [(DIGITS, False), (f"0.{DIGITS}", True), (f"{DIGITS}e-{LONG}", True)]
)
def test_a_long_number_is_one_where_it_is_finite(text: str, number: bool) -> None:
    assert is_number(text) == number


@pytest.mark.parametrize(
    "piece", [',"a', '",', '"""', ',"x""', ',""""x', '""', ',"', ',"""x', ";a"]
)
@pytest.mark.parametrize("first", ["", '"'])
def test_a_long_header_has_a_delimiter(piece: str, first: str) -> None:
    start = (first + piece * (LONG // len(piece)))[:LONG]
    assert likely_delimiter(start) in ",;"


def test_a_long_column_name_is_no_index_of_pandas() -> None:
    assert not PANDAS_INDEX.fullmatch(f"__index_level_{DIGITS}_")


@pytest.mark.parametrize(
    ("piece", "shown"),
    [
        ("[", "number"),
        ('"', "number"),
        ("_", "number"),
        ("\\", "number"),
        ("[y", "date"),
        ("[h", "time"),
    ],
)
def test_a_long_number_format_of_excel(piece: str, shown: str) -> None:
    styles = _Styles()
    styles.start("numFmt", {"formatCode": piece * LONG, "numFmtId": "164"})
    styles.start("cellXfs", {})
    styles.start("xf", {"numFmtId": "164"})
    assert styles.shown == [shown]


def table(path: Path, cell: str, *, name: str = "n", label: str = "a", rows: int = 20) -> Path:
    lines = [f"{row or cell},{label if row % 2 else 'b'}" for row in range(rows)]
    path.write_text("\n".join([f"{name},y", *lines, ""]))
    return path


@pytest.mark.parametrize(
    "make",
    [
        lambda path: table(path, f"{DIGITS}x"),
        lambda path: table(path, f"-{DIGITS}"),
        lambda path: table(path, "1", name="n" * LONG),
        lambda path: table(path, "x", name="n" * 50_000),
    ],
)
def test_the_error_of_a_table_does_not_quote_a_long_cell_whole(tmp_path: Path, make) -> None:
    path = make(tmp_path / "a.csv")
    with pytest.raises(DataError) as caught:
        SemiData.from_file(path, label="y")
    assert SHORTEST_MESSAGE < len(str(caught.value)) < LONGEST_MESSAGE + len(str(path))


@pytest.mark.filterwarnings("ignore:.*dropped:UserWarning")
def test_the_warnings_of_a_table_do_not_quote_long_names_whole(tmp_path: Path) -> None:
    long = "a" * LONG
    lines = [f"{row * row % 7},{long if row % 2 else long.upper()}" for row in range(4)]
    (tmp_path / "a.csv").write_text("\n".join(["n,y", *lines, ""]))
    with pytest.warns(UserWarning, match="different classes") as caught:
        SemiData.from_file(tmp_path / "a.csv", label="y")
    assert max(len(str(entry.message)) for entry in caught) < LONGEST_MESSAGE


def test_the_error_of_an_npz_file_does_not_quote_long_labels_whole(tmp_path: Path) -> None:
    names = np.array([str(k) * 10_000 for k in range(30)])
    np.savez(tmp_path / "a.npz", x=np.eye(2), y=["x" * 10_000, "y"], class_names=names)
    with pytest.raises(DataError, match="not among the class names") as caught:
        SemiData.from_file(tmp_path / "a.npz")
    assert len(str(caught.value)) < LONGEST_MESSAGE
