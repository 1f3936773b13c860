"""Excel workbooks (.xlsx): the cells of one sheet as text, as a CSV file of it would have them.

A workbook is a zip of XML files. Sizes are checked before anything is unpacked, cells are read one
after the other, and nothing is computed: a formula has the value that Excel saved with it.
"""

import re
import xml.parsers.expat as expat
import zipfile
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dessl._checks import quoted
from dessl.data.errors import DataError, few
from dessl.data.formats.cells import arrow_module
from dessl.data.formats.clock import DAY, text_of
from dessl.data.formats.reading import (
    CHUNK,
    FETCH_AGAIN,
    check_deflated,
    check_limit,
    file_size,
    reading,
)
from dessl.data.formats.zipped import ZIP_ERRORS

SUFFIXES = (".xlsx", ".xlsm")
EXPECTED = "an Excel workbook (.xlsx)"
OLD_EXCEL = b"\xd0\xcf\x11\xe0"  # how .xls files begin, and workbooks with a password
WIDEST, LONGEST = 16_384, 2**20  # columns and rows that a sheet of Excel can have
LONGEST_CODE = 255  # characters of a number format
EMPTY = 2**18  # cells of empty rows between others, in a whole sheet
BLOCK = 16_384  # rows that are Python objects at one time
DATE_FORMATS = {*range(14, 18), 22, *range(27, 32), *range(34, 37), *range(50, 59)}
TIME_FORMATS = {*range(18, 22), 32, 33}
NOT_A_PART = re.compile(r'"[^"]*"|\\.|\[[^][]*\]|[_*].')  # of a number format: words, colours, ...
FIRST_DAY = {False: datetime(1899, 12, 30), True: datetime(1904, 1, 1)}
Attributes = dict[str, str]


class _Handler:
    """A handler for one XML file of the workbook; names come without their namespace."""

    def start(self, tag: str, attributes: Attributes) -> None:
        """Handle the start of an element."""

    def end(self, tag: str, text: str) -> None:
        """Handle the end of an element, after this text."""


class _Book(_Handler):
    """Names and numbers of the sheets, and where the calendar begins."""

    def __init__(self) -> None:
        self.sheets: dict[str, str] = {}
        self.from_1904 = False

    def start(self, tag: str, attributes: Attributes) -> None:
        if tag == "sheet":
            self.sheets[attributes["name"]] = attributes["id"]
        elif tag == "workbookPr":
            self.from_1904 = attributes.get("date1904") in ("1", "true")


class _Links(_Handler):
    """The files that numbers stand for."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}

    def start(self, tag: str, attributes: Attributes) -> None:
        if tag == "Relationship" and attributes["Type"].endswith("/worksheet"):
            target = attributes["Target"]
            base = PurePosixPath("/") if target.startswith("/") else PurePosixPath("/xl")
            self.files[attributes["Id"]] = str(base / target).lstrip("/")


class _Strings(_Handler):
    """The texts that cells refer to by number."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._parts: list[str] = []
        self._aside = False  # in a reading aid, which is not part of the text

    def start(self, tag: str, _attributes: Attributes) -> None:
        if tag == "rPh":
            self._aside = True

    def end(self, tag: str, text: str) -> None:
        if tag == "t" and not self._aside:
            self._parts.append(text)
        elif tag == "rPh":
            self._aside = False
        elif tag == "si":
            self.texts.append("".join(self._parts))
            self._parts.clear()


Shown = Literal["number", "date", "time"]


class _Styles(_Handler):
    """How each style of cells shows a number."""

    def __init__(self) -> None:
        self.shown: list[Shown] = []
        self._formats: dict[int, Shown] = dict.fromkeys(DATE_FORMATS, "date")
        self._formats |= dict.fromkeys(TIME_FORMATS, "time")
        self._in_cells = False

    def start(self, tag: str, attributes: Attributes) -> None:
        if tag == "numFmt":
            # Cut: the pattern looks for the end of each bracket, and Excel allows 255 characters.
            code = NOT_A_PART.sub("", attributes["formatCode"][:LONGEST_CODE].lower())
            if "y" in code or "d" in code or "mmm" in code:
                self._formats[int(attributes["numFmtId"])] = "date"
            elif "h" in code:  # not [h], which counts more than 24 hours
                self._formats[int(attributes["numFmtId"])] = "time"
        elif tag == "cellXfs":
            self._in_cells = True
        elif tag == "xf" and self._in_cells:
            self.shown.append(self._formats.get(int(attributes.get("numFmtId", "0")), "number"))

    def end(self, tag: str, _text: str) -> None:
        if tag == "cellXfs":
            self._in_cells = False


class _Sheet(_Handler):
    """The rows of a sheet below the first that is not empty, which has the names of the columns."""

    def __init__(
        self, path: Path, strings: list[str], shown: list[Shown], from_1904: bool, max_bytes: int
    ) -> None:
        self.names: list[str] = []
        self._texts: list[dict[str, int]] = []  # of each column its different texts, numbered
        self._numbers: list[list[NDArray[np.int32]]] = []  # and which of them the rows have
        self._strings, self._shown, self._from_1904 = strings, shown, from_1904
        self._path, self._max_bytes = path, max_bytes
        self._rows: list[list[str]] = []
        self._cells: dict[int, str] = {}
        self._row = self._column = self._n_rows = self._n_empty = self._n_gaps = 0
        self._kind, self._style, self._value = "n", 0, ""
        self._times: dict[int, dict[str, str]] = {}  # of each column the numbers of its times
        self._spans: set[int] = set()  # columns in which a time is not one of a day

    def start(self, tag: str, attributes: Attributes) -> None:
        if tag == "row":
            self._begin_row(int(attributes.get("r", self._row + 1)))
        elif tag == "c":
            place = attributes.get("r")
            self._column = _column_number(place) if place else self._column + 1
            self._kind = attributes.get("t", "n")
            self._style, self._value = int(attributes.get("s", "0")), ""

    def end(self, tag: str, text: str) -> None:
        if tag == "v" or (tag == "t" and self._kind == "inlineStr"):
            self._value += text
        elif tag == "c" and self._value:
            self._cells[self._column] = self._text(self._value)
        elif tag == "row":
            self._end_row()

    def table(self) -> Any:
        """All rows, as an Arrow table of text.

        A text that many cells refer to is kept once: otherwise a small workbook could fill the
        memory.
        """
        arrow = arrow_module()
        self._flush()
        columns = [
            arrow.DictionaryArray.from_arrays(
                np.concatenate(numbers or [np.zeros(0, np.int32)]),
                arrow.array(self._as_spans(place, texts), arrow.string()),
            )
            for place, (texts, numbers) in enumerate(zip(self._texts, self._numbers, strict=True))
        ]
        return arrow.Table.from_arrays(columns, self.names)

    def _as_spans(self, place: int, texts: Iterable[str]) -> list[str]:
        """The texts of a column; its times are numbers, as Excel has them, if one is no time."""
        known = self._times.get(place + 1, {}) if place + 1 in self._spans else {}
        return [known.get(text, text) for text in texts]

    def _begin_row(self, number: int) -> None:
        if not self._row < number <= LONGEST:
            raise ValueError(f"row {number} after row {self._row}")
        if self.names:
            self._n_empty += number - self._row - 1  # rows that the file leaves out
        self._row, self._column = number, 0
        self._cells.clear()

    def _end_row(self) -> None:
        filled = {place: text for place, text in self._cells.items() if text and not text.isspace()}
        if not self.names:
            width = max(filled, default=0)
            self.names = [filled.get(place, "") for place in range(1, width + 1)]
            self._texts, self._numbers = [{} for _ in self.names], [[] for _ in self.names]
            return
        if not filled:
            self._n_empty += 1
            return
        if max(filled) > len(self.names):
            raise ValueError(f"a cell in row {self._row} of a column that has no name")
        rows = self._n_rows + self._n_empty + 1
        check_limit(self._path, 8 * rows * len(self.names), self._max_bytes)
        self._add_empty()  # only those above another row count
        self._rows.append([filled.get(place, "") for place in range(1, len(self.names) + 1)])
        self._n_rows += 1
        if len(self._rows) == BLOCK:
            self._flush()

    def _add_empty(self) -> None:
        n, self._n_empty = self._n_empty, 0
        self._n_gaps += n
        if self._n_gaps * len(self.names) > EMPTY:
            raise DataError.of(
                self._path,
                expected="rows one below the other",
                got=f"{self._n_gaps:,} empty rows above row {self._row:,}",
                do="Delete the empty rows in Excel, or clear that row.",
            )
        if n:
            self._flush()
            for texts, numbers in zip(self._texts, self._numbers, strict=True):
                numbers.append(np.full(n, texts.setdefault("", len(texts)), np.int32))
            self._n_rows += n

    def _flush(self) -> None:
        if self._rows:
            for place, column in enumerate(zip(*self._rows, strict=True)):
                texts = self._texts[place]
                numbers = [texts.setdefault(text, len(texts)) for text in column]
                self._numbers[place].append(np.array(numbers, np.int32))
            self._rows = []

    def _text(self, value: str) -> str:
        if self._kind == "s":
            number = int(value)
            if number < 0:
                raise ValueError(f"a text with the number {number}")
            return self._strings[number]
        if self._kind == "b":
            return "True" if value == "1" else "False"
        if self._kind == "e":  # such as #N/A
            return ""
        if self._kind != "n":
            return value
        serial = float(value)
        shown = self._shown[self._style] if self._style < len(self._shown) else "number"
        if shown == "date":
            return _date(serial, from_1904=self._from_1904) or value
        if shown != "time":
            return value
        if not 0 <= serial < 1:
            self._spans.add(self._column)
            return value
        text = text_of(serial)
        self._times.setdefault(self._column, {})[text] = value
        return text


def sheet_table(path: Path, *, sheet: str | None, max_bytes: int) -> Any:
    """The cells of a sheet as an Arrow table of texts by number, with the names in its first row.

    Args:
        path: The workbook.
        sheet: The name of the sheet; None for the first.
        max_bytes: The most bytes that the unpacked workbook, or the cells, may take.

    Raises:
        DataError: It is not a workbook, is damaged or has a password, or has no such sheet.
    """
    with path.open("rb") as file:
        if file.read(4) == OLD_EXCEL:
            raise DataError.of(
                path,
                expected=EXPECTED,
                got="an older format, or a workbook with a password",
                do="Save it in Excel as .xlsx, without a password.",
            )
    errors = (*ZIP_ERRORS, expat.ExpatError, TypeError, arrow_module().ArrowException)
    with reading(path, EXPECTED, *errors), zipfile.ZipFile(path) as archive:
        _check_members(path, archive, max_bytes)
        book, links, strings, styles = _Book(), _Links(), _Strings(), _Styles()
        _parse(archive, "xl/workbook.xml", book)
        _parse(archive, "xl/_rels/workbook.xml.rels", links)
        chosen = _chosen(path, book, links, sheet)
        for name, handler in (("sharedStrings", strings), ("styles", styles)):
            if f"xl/{name}.xml" in archive.namelist():
                _parse(archive, f"xl/{name}.xml", handler)
        cells = _Sheet(path, strings.texts, styles.shown, book.from_1904, max_bytes)
        _parse(archive, chosen, cells)
        return cells.table()


def _check_members(path: Path, archive: zipfile.ZipFile, max_bytes: int) -> None:
    size = file_size(path, EXPECTED)
    check_limit(path, sum(info.file_size for info in archive.infolist()), max_bytes)
    for info in archive.infolist():
        check_deflated(path, info.file_size, min(info.compress_size, size))


def _chosen(path: Path, book: _Book, links: _Links, sheet: str | None) -> str:
    files = {name: links.files[key] for name, key in book.sheets.items() if key in links.files}
    if not files or (sheet is not None and sheet not in files):
        raise DataError.of(
            path,
            expected="a sheet with cells" if sheet is None else f"a sheet named {quoted(sheet)}",
            got=few([quoted(name) for name in files], most=20) or "none",
            do="Check the name; upper and lower case differ." if files else FETCH_AGAIN,
        )
    return files[next(iter(files)) if sheet is None else sheet]


def _parse(archive: zipfile.ZipFile, name: str, handler: _Handler) -> None:
    """Read one XML file of the workbook in pieces."""
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    text: list[str] = []

    def start(tag: str, attributes: Attributes) -> None:
        text.clear()
        handler.start(_plain(tag), {_plain(key): value for key, value in attributes.items()})

    def end(tag: str) -> None:
        handler.end(_plain(tag), "".join(text))
        text.clear()

    def refuse(*_: Any) -> None:
        raise ValueError("a document type, which no workbook has")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = text.append, refuse
    with archive.open(name) as stream:
        while piece := stream.read(CHUNK):
            parser.Parse(piece, False)
        parser.Parse(b"", True)


def _plain(name: str) -> str:
    return name.rpartition(" ")[2]


def _column_number(place: str) -> int:
    """The number of a cell's column, from 1.

    >>> _column_number("A1"), _column_number("AB12")
    (1, 28)
    """
    found = re.fullmatch(r"([A-Z]{1,3})[0-9]{1,7}", place)
    number = 0
    for letter in found[1] if found else "":
        number = 26 * number + ord(letter) - ord("A") + 1
    if not 0 < number <= WIDEST:
        raise ValueError(f"a cell {place[:20]!r}")
    return number


def _date(serial: float, *, from_1904: bool) -> str | None:
    """A day, or a moment, as ISO text; None for a time alone and what is outside the calendar.

    >>> _date(45657, from_1904=False), _date(45657.75, from_1904=False), _date(0.5, from_1904=False)
    ('2024-12-31', '2024-12-31T18:00:00', None)
    """
    if not 1 <= serial < 2_958_466:  # the last day of 9999
        return None
    early = not from_1904 and serial < 60  # Excel has a 29 February 1900
    try:
        moment = FIRST_DAY[from_1904] + timedelta(seconds=round((serial + early) * DAY, 3))
    except OverflowError:
        return None
    midnight = moment.time() == datetime.min.time()
    return moment.date().isoformat() if midnight else moment.isoformat()
