"""Excel workbooks that are mostly valid, as the XML files that they consist of."""

import io
import random
import zipfile
from collections.abc import Callable
from xml.sax.saxutils import escape, quoteattr

from cases import Case
from damage import damaged_bytes, damaged_files
from grammar_tables import columns_of

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
LINKS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
SHEETS = ("Sheet1", "data", "Daten é", "a & b")
ODD_XML = (
    "<!DOCTYPE x [<!ENTITY a 'aaaa'>]>", "<c", "</row>", '<c r="ZZZ9"><v>1</v></c>',
    '<c r="A1" t="s"><v>99999999</v></c>', '<c t="s"><v>-1</v></c>', '<c><v>1e999</v></c>',
    '<row r="1048576"><c r="A1048576"><v>1</v></c></row>', '<row r="0"/>', '<row r="x"/>', "&a;",
    '<c r="A1" s="99"><v>45000</v></c>', '<c t="q"><v>x</v></c>', "<v>5</v>", "\x00", "<x/>" * 50,
    '<row r="99999999999999999999"/>', '<c s="-5"><v>1</v></c>', "<a>" * 3000,
)  # fmt: skip


def excel_case(chance: random.Random) -> Case:
    """A workbook, with damage in a third of the cases."""
    columns = columns_of(chance, comma=False)
    rows = [[cell or "" for cell in row] for row in zip(*columns.values(), strict=True)]
    strings: list[str] = []
    sheet = chance.choice(SHEETS)
    members = {
        "[Content_Types].xml": f"{HEAD}<Types/>",
        "xl/workbook.xml": _book(chance, sheet),
        "xl/_rels/workbook.xml.rels": f'{HEAD}<Relationships xmlns="{PACKAGE}"><Relationship '
        f'Id="rId1" Type="{LINKS}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": _sheet(chance, [list(columns), *rows], strings),
        "xl/sharedStrings.xml": _shared(strings),
    }
    if chance.random() < 0.7:
        members["xl/styles.xml"] = _styles()
    damaged = chance.random() < 0.35
    if damaged and chance.random() < 0.5:
        name = chance.choice(sorted(members))
        at = chance.randrange(len(members[name]))
        if chance.random() < 0.7:  # where an element ends
            at = members[name].find(">", at) + 1
        members[name] = members[name][:at] + chance.choice(ODD_XML) + members[name][at:]
        files = {key: text.encode() for key, text in members.items()}
    else:
        files = {key: text.encode() for key, text in members.items()}
        if damaged:
            files = damaged_files(chance, files)
    content = _zipped(chance, files)
    if damaged and chance.random() < 0.25:
        content = damaged_bytes(chance, content)
    name = chance.choice(("data.xlsx", "data.xlsx", "data.xlsm"))
    options = {"name": name, "label": "label", "later": chance.random() < 0.2}
    if chance.random() < 0.2:
        options["sheet"] = sheet if chance.random() < 0.8 else "other"
    return Case("excel", {name: content}, options, 60 * sum(map(len, files.values())), damaged)


def _book(chance: random.Random, sheet: str) -> str:
    second = '<sheet name="empty" sheetId="2" r:id="rId2"/>' if chance.random() < 0.2 else ""
    epoch = '<workbookPr date1904="1"/>' if chance.random() < 0.1 else ""
    return (
        f'{HEAD}<workbook xmlns="{MAIN}" xmlns:r="{LINKS}">{epoch}<sheets>'
        f'<sheet name={quoteattr(sheet)} sheetId="1" r:id="rId1"/>{second}</sheets></workbook>'
    )


def _styles() -> str:
    return (
        f'{HEAD}<styleSheet xmlns="{MAIN}"><numFmts count="1"><numFmt numFmtId="164" '
        'formatCode="yyyy\\-mm\\-dd"/></numFmts><cellXfs count="3"><xf numFmtId="0"/>'
        '<xf numFmtId="14"/><xf numFmtId="164"/></cellXfs></styleSheet>'
    )


def _shared(strings: list[str]) -> str:
    texts = "".join(f"<si><t>{_clean(text)}</t></si>" for text in strings)
    return f'{HEAD}<sst xmlns="{MAIN}">{texts}</sst>'


def _clean(text: str) -> str:
    return escape("".join(letter for letter in text if letter >= " "))


def _sheet(chance: random.Random, rows: list[list[str]], strings: list[str]) -> str:
    places = chance.random() < 0.8  # some programs leave them out
    first = chance.choice((1, 1, 1, 3))
    lines = []
    for number, row in enumerate(rows, first):
        cells = [
            _cell(chance, text, f"{chr(65 + k)}{number}" if places else "", strings)
            for k, text in enumerate(row)
        ]
        lines.append(f'<row r="{number}">{"".join(cells)}</row>')
    return f'{HEAD}<worksheet xmlns="{MAIN}"><sheetData>{"".join(lines)}</sheetData></worksheet>'


def _cell(chance: random.Random, text: str, place: str, strings: list[str]) -> str:
    at = f' r="{place}"' if place else ""
    if not text:
        return f"<c{at}/>" if not place or chance.random() < 0.5 else ""
    try:
        float(text)
        plain = text.strip().lstrip("+-")[:1].isdigit()
    except ValueError:
        plain = False
    makers: list[Callable[[], str]] = [lambda: _of_string(text, at, strings)]
    if plain:
        makers += 4 * [lambda: f"<c{at}><v>{text.strip()}</v></c>"]
    else:
        makers.append(lambda: f'<c{at} t="inlineStr"><is><t>{_clean(text)}</t></is></c>')
        makers.append(lambda: f'<c{at} t="str"><f>A1</f><v>{_clean(text)}</v></c>')
    if chance.random() < 0.02:
        day = chance.randrange(1, 60_000)
        return f'<c{at} s="{chance.randrange(3)}"><v>{day}</v></c>'
    return chance.choice(makers)()


def _of_string(text: str, at: str, strings: list[str]) -> str:
    if text not in strings:
        strings.append(text)
    return f'<c{at} t="s"><v>{strings.index(text)}</v></c>'


def _zipped(chance: random.Random, files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    kind = chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(buffer, "w", kind, compresslevel=1) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, kind)
    return buffer.getvalue()
