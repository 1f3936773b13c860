"""Excel workbooks: cells as openpyxl wrote them, dates, sheets, and files that try to hurt."""

import datetime
import io
import random
import zipfile
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pytest

from dessl.data.errors import DataError
from dessl.data.formats.fitting import read_new_table, read_table
from dessl.data.formats.tables import arrow_table, open_table

DAY, MOMENT = datetime.date(2024, 2, 29), datetime.datetime(1999, 12, 31, 18, 30, 5)


def saved(path: Path, rows: list[list[object]], **more: list[list[object]]) -> Path:
    book = openpyxl.Workbook()
    book.active.title = "first"
    for row in rows:
        book.active.append(row)
    for name, others in more.items():
        sheet = book.create_sheet(name)
        for row in others:
            sheet.append(row)
    book.save(path)
    return path


def cells(path: Path, **options: str) -> dict[str, list[str]]:
    columns = open_table(path, **options).columns.items()
    return {name: [column.cell(row) for row in range(len(column))] for name, column in columns}


def test_every_kind_of_cell(tmp_path: Path) -> None:
    rows = [["n", "t", "b", "d", "m", "e"], [1.5, "Å <&> 'x'", True, DAY, MOMENT, "#N/A"]]
    rows += [
        [-3, " b ", False, None, None, None],
        [None] * 6,
        [1e-300, "007", None, DAY, None, "x"],
    ]
    assert cells(saved(tmp_path / "a.xlsx", [*rows, [None] * 6, [""] * 6])) == {
        "n": ["1.5", "-3", "", "1e-300"],
        "t": ["Å <&> 'x'", "b", "", "007"],
        "b": ["True", "False", "", ""],
        "d": ["2024-02-29", "", "", "2024-02-29"],
        "m": ["1999-12-31T18:30:05", "", "", ""],
        "e": ["", "", "", "x"],
    }


def test_a_workbook_is_read_as_the_csv_file_of_its_sheet(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(40, 9, 50), "town": rng.choice(["Oslo", "Rome"], 50)})
    frame["seen"] = pd.date_range("2020-01-01", periods=50, freq="31h")
    frame.loc[3, ["age", "seen"]] = None
    frame["y"] = ["a", "b", None, "b", "a"] * 10
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_excel(tmp_path / "a.xlsx", index=False)
    data, encoding = read_table(tmp_path / "a.csv", label="y")
    excel, _ = read_table(tmp_path / "a.xlsx", label="y")
    np.testing.assert_allclose(excel.x, data.x, atol=2e-6)
    np.testing.assert_array_equal(excel.y, data.y)
    assert excel.feature_names == data.feature_names
    np.testing.assert_allclose(read_new_table(tmp_path / "a.xlsx", encoding).x, data.x, atol=2e-6)


def test_long_sheets_are_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path / "a.xlsx", [["a", "b"], *([k, None] for k in range(7)), [None, "x"]])
    monkeypatch.setattr("dessl.data.formats.excel.BLOCK", 3)
    assert cells(path) == {"a": [*map(str, range(7)), ""], "b": [""] * 7 + ["x"]}


def test_sheets_are_chosen_by_name(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.xlsx", [["a"], [1]], other=[[None, None], ["b"], [2]])
    assert cells(path) == {"a": ["1"]}
    assert cells(path, sheet="other") == {"b": ["2"]}
    with pytest.raises(DataError, match="a sheet named 'Other'; got 'first', 'other'"):
        cells(path, sheet="Other")
    (tmp_path / "a.csv").write_text("a\n1\n")
    with pytest.raises(ValueError, match="sheet is for Excel workbooks"):
        cells(tmp_path / "a.csv", sheet="first")


def changed(path: Path, name: str, old: str, new: str) -> Path:
    """Rewrite one file of a workbook."""
    parts = {}
    with zipfile.ZipFile(path) as archive:
        parts = {info.filename: archive.read(info) for info in archive.infolist()}
    text = parts[name].decode()
    assert old in text
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, content in parts.items():
            archive.writestr(part, text.replace(old, new, 1) if part == name else content)
    return path


def test_shared_texts_as_excel_itself_writes_them(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.xlsx", [["a"], [7], [8], [9]])
    for old, new in (("7", "0"), ("8", "1"), ("9", "2")):
        changed(path, SHEET, f't="n"><v>{old}</v>', f't="s"><v>{new}</v>')
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(
            "xl/sharedStrings.xml",
            '<?xml version="1.0"?><sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/'
            'main"><si><t>plain</t></si><si><r><rPr><b/></rPr><t>bo</t></r><r><t xml:space='
            '"preserve">ld text</t></r></si><si><t>\u8ab2</t>'
            '<rPh sb="0" eb="1"><t>ka</t></rPh></si></sst>',
        )
    changed(
        path,
        "[Content_Types].xml",
        "</Types>",
        '<Override PartName="/xl/sharedStrings.xml" ContentType="application/vnd.openxmlformats-'
        'officedocument.spreadsheetml.sharedStrings+xml"/></Types>',
    )
    by_openpyxl = [row[0] for row in openpyxl.load_workbook(path).active.values]
    assert by_openpyxl == ["a", "plain", "bold text", "\u8ab2"]
    assert cells(path) == {"a": by_openpyxl[1:]}


def test_dates_from_1904_and_early_ones(tmp_path: Path) -> None:
    rows = [["d"], [datetime.date(1900, 1, 15)], [DAY], [datetime.time(18, 30)]]
    path = saved(tmp_path / "a.xlsx", rows)
    assert cells(path)["d"][:2] == ["1900-01-15", "2024-02-29"]
    assert cells(path)["d"][2] == "18:30:00"
    book = openpyxl.Workbook()
    book.epoch = openpyxl.utils.datetime.CALENDAR_MAC_1904
    for row in rows[:3]:
        book.active.append(row[:1])
    book.active["A2"].value = DAY
    book.save(path)
    assert cells(path)["d"] == ["2024-02-29", "2024-02-29"]


@pytest.mark.parametrize(
    ("form", "read"),
    [
        ("h:mm AM/PM", ["18:30:00", "00:00:00"]),
        ("hh:mm:ss", ["18:30:00", "00:00:00"]),
        ("[Red]h.mm", ["18:30:00", "00:00:00"]),
        ("[h]:mm:ss", ["0.7708333333333334", "0"]),  # hours that something took
        ('0.0 "h"', ["0.7708333333333334", "0"]),
        ("mm:ss", ["0.7708333333333334", "0"]),
    ],
)
def test_a_number_shown_as_a_time_of_day_is_one(tmp_path: Path, form: str, read: list[str]) -> None:
    book, both = openpyxl.Workbook(), openpyxl.Workbook()
    for row, value in enumerate(["t", 18.5 / 24, 0], 1):
        book.active.cell(row, 1, value).number_format = form
        both.active.cell(row, 1, value).number_format = form
        both.active.cell(row, 2, value).number_format = form
    both["Sheet"]["A4"], both["Sheet"]["A4"].number_format = 1.25, form
    both["Sheet"]["B1"], both["Sheet"]["B4"] = "other", "a"
    for one in (book, both):
        one.save(tmp_path / "a.xlsx")
        found = cells(tmp_path / "a.xlsx")
        if one is book:
            assert found["t"] == read
    # More than a day in a column: something took so long, and the whole column has numbers.
    assert found == {"t": ["0.7708333333333334", "0", "1.25"], "other": [*read, "a"]}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([["a", "a"], [1, 2]], "'a' twice"),
        ([["a", None, "b"], [1, 2, 3]], "a column without a name: number 2"),
        ([["a"], [1, 2]], "a cell in row 2 of a column that has no name"),
        ([["a"]], "at least one row; got none"),
        ([], "a column without a name"),
    ],
)
def test_sheets_that_are_no_tables(tmp_path: Path, rows: list[list[object]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        open_table(saved(tmp_path / "a.xlsx", rows))


SHEET, BOOK = "xl/worksheets/sheet1.xml", "xl/workbook.xml"


@pytest.mark.parametrize(
    ("part", "old", "new", "message"),
    [
        (SHEET, '<c r="A2"', '<c r="XFE2"', "a cell 'XFE2'"),
        (SHEET, '<c r="A2"', '<c r="XFD2"', "a column that has no name"),
        (SHEET, '<row r="2"', '<row r="1"', "row 1 after row 1"),
        (SHEET, '<row r="2"', '<row r="99999999999"', "row 99999999999 after row 1"),
        (SHEET, "<v>7</v>", "<v>seven</v>", "could not convert"),
        (SHEET, "</sheetData>", "", "mismatched tag"),
        (SHEET, 't="n"><v>7</v>', 't="s"><v>9</v>', "out of range"),
        (SHEET, 't="n"><v>7</v>', 't="s"><v>-1</v>', "a text with the number -1"),
        (BOOK, "<workbook ", '<!DOCTYPE a [<!ENTITY b "c">]><workbook ', "document type"),
        (BOOK, "<sheet ", "<nothing ", "a sheet with cells; got none"),
    ],
)
def test_damaged_workbooks(tmp_path: Path, part: str, old: str, new: str, message: str) -> None:
    path = saved(tmp_path / "a.xlsx", [["a"], [7]])
    with pytest.raises(DataError, match=message):
        open_table(changed(path, part, old, new))


def test_empty_rows_between_others_are_kept_up_to_a_limit(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.xlsx", [["a", "b"], [7, 8], [9, 10]])
    table = open_table(changed(path, SHEET, '<row r="3"', '<row r="50000"'))
    assert len(table) == 49_999
    assert [table.columns["b"].cell(row) for row in (0, 1, 49_997, 49_998)] == ["8", "", "", "10"]
    path = saved(tmp_path / "b.xlsx", [list("abcde"), [1, 2, 3, 4, 5]])
    with pytest.raises(DataError, match="1,048,574 empty rows above row 1,048,576"):
        open_table(changed(path, SHEET, '<row r="2"', '<row r="1048576"'))


def test_a_text_that_all_cells_share_is_kept_once(tmp_path: Path) -> None:
    text = "word " * 4_000
    cells = arrow_table(saved(tmp_path / "a.xlsx", [["a"], *[[text]] * 300]))["a"]
    assert cells.nbytes < 100_000
    assert cells[299].as_py() == text


def test_random_damage_inside_the_zip_gives_data_or_a_data_error(tmp_path: Path) -> None:
    """The checksums of a zip hide its XML files from bytes that are damaged outside."""
    path = saved(tmp_path / "a.xlsx", [["n", "d"], [1.5, DAY], [2, MOMENT], [None, DAY]])
    with zipfile.ZipFile(path) as archive:
        parts = {info.filename: archive.read(info) for info in archive.infolist()}
    names = (SHEET, BOOK, "xl/_rels/workbook.xml.rels", "xl/styles.xml")
    draw = random.Random(0)
    read = 0
    for _ in range(200):
        name = draw.choice(names)
        content = bytearray(parts[name])
        at, length = draw.randrange(len(content)), draw.randint(1, 30)
        if draw.random() < 0.5:
            content[at] = draw.choice(b'0123456789"<>=- A')
        else:
            content[at : at + length] = content[at - length : at + length]
        with zipfile.ZipFile(path, "w") as archive:
            for part, whole in parts.items():
                archive.writestr(part, bytes(content) if part == name else whole)
        try:
            read += len(open_table(path)) > 0
        except DataError:
            continue
    assert 20 < read < 180


def test_bombs_are_refused_before_they_are_unpacked(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.xlsx", [["a"], [7]])
    with pytest.raises(DataError, match="at most 3,000 bytes of data"):
        open_table(path, max_bytes=3_000)
    changed(path, SHEET, "<v>7</v>", f"<v>{' ' * 10**7}7</v>")
    with pytest.raises(DataError, match="at most 1,000,000 bytes of data"):
        open_table(path, max_bytes=10**6)
    buffer = bytearray(path.read_bytes())
    where = buffer.rindex(b"PK\x01\x02")
    buffer[where + 24 : where + 28] = (2**31).to_bytes(4, "little")
    path.write_bytes(buffer)
    with pytest.raises(DataError, match="compressed bytes can hold"):
        open_table(path)


def test_older_formats_and_other_zips(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    path.write_bytes(bytes.fromhex("d0cf11e0a1b11ae1") * 100)
    with pytest.raises(DataError, match="an older format, or a workbook with a password"):
        open_table(path)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.txt", "hello")
    path.write_bytes(buffer.getvalue())
    with pytest.raises(DataError, match=r"xl/workbook\.xml"):
        open_table(path)
