from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dessl.data.errors import DataError
from dessl.data.formats.tables import Table, check_names, open_table


def cells(table: Table, name: str) -> list[str]:
    column = table.columns[name]
    return [column.cell(row) for row in range(len(column))]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_told_by_the_first_line(tmp_path: Path, delimiter: str) -> None:
    path = tmp_path / "a.csv"
    rows = [["a", "b", "c"], ["1", "x y", ""], [" 2 ", "z", "q"]]
    path.write_text("\n".join(delimiter.join(row) for row in rows))
    table = open_table(path)
    assert len(table) == 2
    assert cells(table, "a") == ["1", "2"]
    assert cells(table, "b") == ["x y", "z"]
    assert cells(table, "c") == ["", "q"]


def test_quotes_line_ends_and_marks_of_other_programs(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'\xef\xbb\xbfname,"the, text"\r\nx,"two\nlines"\r\ny,"a ""word"""\r\n')
    table = open_table(path)
    assert list(table.columns) == ["name", "the, text"]
    assert cells(table, "the, text") == ["two\nlines", 'a "word"']


def test_words_that_look_like_missing_or_true_stay_text(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    words = ["NA", "null", "true", "2020-01-01", "007", "None"]
    path.write_text("w,v\n" + "".join(f"{word},1\n" for word in words))
    assert cells(open_table(path), "w") == words


def test_text_that_trimming_makes_equal_is_one_category(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("w,v\nred,1\n red,2\nred ,3\n,4\n  ,5\n")
    column = open_table(path).columns["w"]
    assert column.texts.tolist() == ["", "red"]
    assert column.codes.tolist() == [1, 1, 1, 0, 0]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"a,b\n1,2\n3\n", "Expected 2 columns, got 1: 3"),
        (b"a,b\n1,2\n3,4,5\n", "Expected 2 columns, got 3"),
        (b"a,a\n1,2\n", "different, non-empty names; got 'a' twice"),
        (b"a, \n1,2\n", "a column without a name"),
        (b"a,b\n", "at least one row; got none"),
        (b"", "got an empty file. Check the path"),
        (b"\n", "a column without a name"),
        (b"a,\xe4,y\n1,2,3\n", r"got column names in another encoding\. Save it again .* in UTF-8"),
        (b",a,y\n0,1,2\n", r"a first column without a name, .*index=False in pandas"),
        (b'"","a","y"\n"1",1,2\n', "row.names = FALSE in R"),
        (b",,y\n0,1,2\n", "a column without a name: number 1, 2. Name .* delete empty columns"),
        (b"n;y;;\n0;1;;\n", "a column without a name: number 3, 4. Name .* delete empty columns"),
        (b"a,b\n1,\xff\xfe\n", "text in column 2 that is not UTF-8, but perhaps Latin-1"),
        (b"\x1f\x8b\x08\x00\x00\x00", "expected"),
        (b"a,b\n\x00,\x00\n" * 2, None),
    ],
)
def test_a_csv_that_is_none(tmp_path: Path, content: bytes, complaint: str | None) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    if complaint is None:
        assert len(open_table(path)) == 3
        return
    with pytest.raises(DataError, match=complaint):
        open_table(path)


class CountedName(str):
    """A name that counts how often it is compared with another."""

    comparisons = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountedName.comparisons += 1
        return str.__eq__(self, other)


def test_the_names_of_many_columns_are_not_compared_in_pairs(tmp_path: Path) -> None:
    names = [CountedName(f"c{k}") for k in range(2000)]
    with pytest.raises(DataError, match="'c7' twice"):
        check_names(tmp_path / "a.csv", [*names, CountedName("c7")])
    assert CountedName.comparisons < 10 * len(names)  # in pairs: two million


def test_any_character_may_be_in_a_name(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("größe,�\n1,2\n")  # the sign for an unknown character is a character
    assert list(open_table(path).columns) == ["größe", "�"]


def test_a_gzipped_csv_is_not_unfolded(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with pa.CompressedOutputStream(str(path), "gzip") as out:
        out.write(b"a,b\n" + b"1,2\n" * 1000)
    with pytest.raises(DataError, match="expected"):
        open_table(path)


def test_parquet_columns_of_every_plain_kind(tmp_path: Path) -> None:
    table = pa.table(
        {
            "i": pa.array([1, None, 3], pa.int16()),
            "f": pa.array([1.5, float("nan"), None], pa.float32()),
            "b": pa.array([True, False, None]),
            "s": pa.array(["x", None, " y "]),
            "d": pa.array(["x", "y", "x"]).dictionary_encode(),
            "n": pa.nulls(3),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    read = open_table(tmp_path / "a.parquet").columns
    np.testing.assert_array_equal(read["i"].numbers, [1, np.nan, 3])
    np.testing.assert_array_equal(read["f"].numbers, [1.5, np.nan, np.nan])
    assert [read["b"].cell(row) for row in range(3)] == ["True", "False", ""]
    assert [read["s"].cell(row) for row in range(3)] == ["x", "", "y"]
    assert [read["d"].cell(row) for row in range(3)] == ["x", "y", "x"]
    assert [read["n"].cell(row) for row in range(3)] == ["", "", ""]


def test_an_empty_line_of_one_column_is_a_missing_cell(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a\n1.0\n\n-3.0\n")
    assert cells(open_table(path), "a") == ["1.0", "", "-3.0"]
    path.write_text("a,b\n1,2\n\n3,4\n")
    assert cells(open_table(path), "a") == ["1", "3"]


def test_parquet_in_many_groups_keeps_its_order(tmp_path: Path) -> None:
    words = [f"w{k % 7}" for k in range(100)]
    pq.write_table(pa.table({"w": words}), tmp_path / "a.parquet", row_group_size=9)
    assert cells(open_table(tmp_path / "a.parquet"), "w") == words


@pytest.mark.parametrize("coding", ["latin-1", "utf-16"])
def test_other_codings_are_refused_with_advice_that_helps(tmp_path: Path, coding: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("name,size\nMüller,1\n".encode(coding))
    got = (
        "UTF-16"
        if coding == "utf-16"
        else ".* that is not UTF-8, but perhaps Latin-1 or Windows-1252"
    )
    advice = "Save it again as a CSV file in UTF-8.*--encoding on the command line.*cp1252"
    with pytest.raises(DataError, match=f"got {got}. {advice}"):
        open_table(path)
    assert cells(open_table(path, text_encoding=coding), "name") == ["Müller"]
    path.write_bytes("name,size\nMüller,1\n".encode())
    assert cells(open_table(path), "name") == ["Müller"]


@pytest.mark.parametrize("coding", ["cp1252", "utf-16", "utf-16-le", "shift_jis", "utf8"])
def test_a_named_encoding_is_used_for_names_and_cells(tmp_path: Path, coding: str) -> None:
    name, cell = ("名前", "東京") if coding == "shift_jis" else ("Größe", "naïve café")
    path = tmp_path / "a.csv"
    path.write_bytes(f"{name};n\n{cell};1\n".encode(coding))
    assert cells(open_table(path, text_encoding=coding), name) == [cell]


def test_a_byte_order_mark_is_stronger_than_a_named_encoding(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("größe\n1\n".encode("utf-8-sig"))
    assert cells(open_table(path, text_encoding="cp1252"), "größe") == ["1"]


def test_encodings_that_do_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("name,size\nMüller,1\n".encode())
    with pytest.raises(DataError, match="expected a CSV table in ascii with column names"):
        open_table(path, text_encoding="ascii")
    for name in ("utf8000", "rot13", "a\0b"):
        with pytest.raises(ValueError, match=r"--encoding\) must be an encoding that Python knows"):
            open_table(path, text_encoding=name)
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"is for CSV files, but .*parquet is not one"):
        open_table(tmp_path / "a.parquet", text_encoding="cp1252")


def test_marks_of_missing_cells_are_empty(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b,c\n-999,?,.\n -999.0 , ? ,.5\n999,what?,-999.5\n-0999,-9990,x.\n")
    table = open_table(path, missing=("-999", "?", "."))
    assert cells(table, "a") == ["", "", "999", ""]
    assert cells(table, "b") == ["", "", "what?", "-9990"]
    assert cells(table, "c") == ["", ".5", "-999.5", "x."]
    assert cells(open_table(path), "b")[0] == "?"


def test_marks_of_missing_cells_in_typed_columns(tmp_path: Path) -> None:
    words = pa.array(["-999", "x", None]).dictionary_encode()
    columns = {"i": [-999, 1, None], "f": [-999.0, 0.5, 2.0], "w": words}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    table = open_table(tmp_path / "a.parquet", missing=("-999", "none"))
    assert np.isnan(table.columns["i"].numbers).tolist() == [True, False, True]
    assert np.isnan(table.columns["f"].numbers).tolist() == [True, False, False]
    assert cells(table, "w") == ["", "x", ""]


def test_a_table_of_names_alone_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n")
    with pytest.raises(DataError, match=r"at least one row; got none. Add rows to it\."):
        open_table(tmp_path / "a.csv")


def test_parquet_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1 and nothing")
    with pytest.raises(DataError, match="expected a Parquet table"):
        open_table(path)
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), path)
    with pytest.raises(DataError, match="at least one row"):
        open_table(path)


def test_a_parquet_bomb_is_refused_by_its_metadata(
    tmp_path: Path, peak_bytes: Callable[..., int]
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": pa.array(np.zeros(5_000_000, np.int64))}), path)
    assert path.stat().st_size < 100_000
    before = pa.total_allocated_bytes()

    def attempt() -> None:
        with pytest.raises(DataError, match="at most 1,048,576 bytes of data; got 40,"):
            open_table(path, max_bytes=2**20)

    assert peak_bytes(attempt) < 2**22
    assert pa.total_allocated_bytes() - before < 2**20


def test_a_long_text_in_every_row_is_kept_once(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    text = "x" * 100_000
    column = pa.DictionaryArray.from_arrays(np.zeros(10_000, np.int32), [text])
    pq.write_table(pa.table({"a": column}), path)
    before = pa.default_memory_pool().max_memory()
    table = open_table(path)
    assert table.columns["a"].cell(9_999) == text
    assert pa.default_memory_pool().max_memory() - before < 2**25  # 1 GB if unfolded


def test_large_files_and_other_suffixes(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="at most 3 bytes"):
        open_table(path, max_bytes=3)
    path.rename(tmp_path / "a.ods")
    with pytest.raises(DataError, match=r"named .csv, .tsv, .*got suffix '.ods'. Save it as .xlsx"):
        open_table(tmp_path / "a.ods")
