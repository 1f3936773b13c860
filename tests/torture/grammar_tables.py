"""Tables that are mostly valid: CSV, TSV and Parquet."""

import csv
import datetime
import io
import random
import string
from collections.abc import Callable
from typing import Any

from cases import Case
from damage import damaged_bytes

WORDS = ("a", "b", "red", "blue", "Oslo", "São Paulo", "x y", "0a", "é", "中", "no", "yes", "true")
ODD_CELLS = (
    "", " ", "NA", "nan", "?", "-", "--", "+", "1e", "e5", ".", "1.2.3", "1,2", "1 000", "0x1f",
    "inf", "-inf", "1e999", "9" * 400, "1" + "0" * 5000 + "x", "=1+1", "\x00", "\u202e", '"', "'",
    "\ufeff", "1_000", "１", "TRUE", "None", "\t", "a" * 3000, "-1", "2024-02-30", "0000-00-00",
    "9999-12-31", "31/31/2024", "1.1.0001", "2024-01-01T25:00", "2024-01-01T00:00:00+99:99",
)  # fmt: skip
SENTENCES = (
    "the patient came back after two weeks ",
    "no complaints, but tired — see letter ",
    "Überweisung an die Klinik: später mehr ",
    "中文 的 一 句 话 ",
    'wrote: "call me"; (again) <b>now</b> ',
    "word " * 40,
)
DATES = (
    "%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y %H:%M", "%Y-%m-%dT%H:%M:%SZ", "%Y/%m/%d",
    "%Y-%m-%d %H:%M:%S+02:00", "%m/%d/%Y %I:%M %p", "%Y-%m-%dT%H:%M:%S.123", "%b %d %Y",
)  # fmt: skip
ODD_LINES = ("", ",", ",,,,,,,,,,,,", '"', '"a', "\x00", "\r", "a,b", "é" * 50, "#", ";;;")


def csv_case(chance: random.Random) -> Case:
    """A text table, with damage in a third of the cases."""
    name = chance.choice(("data.csv", "data.csv", "data.tsv", "data.txt"))
    comma = name != "data.tsv" and chance.random() < 0.15
    delimiter = "\t" if name == "data.tsv" else ";" if comma else chance.choice(",,,;|\t")
    columns = columns_of(chance, comma=comma)
    label = chance.choice(sorted(columns)) if chance.random() < 0.03 else "label"
    rows = [[cell or "" for cell in row] for row in zip(*columns.values(), strict=True)]
    damaged = chance.random() < 0.33
    if damaged and chance.random() < 0.5:
        for _ in range(chance.choice((1, 1, 2, 5))):
            row = chance.choice(rows)
            row[chance.randrange(len(row))] = chance.choice(ODD_CELLS)
    content = written(chance, [list(columns), *rows], delimiter)
    if damaged and chance.random() < 0.6:
        lines = content.split(b"\n")
        lines.insert(chance.randrange(len(lines)), chance.choice(ODD_LINES).encode())
        content = b"\n".join(lines)
    elif damaged:
        content = damaged_bytes(chance, content)
    options = {"name": name, "label": label, "later": chance.random() < 0.2}
    if chance.random() < 0.1:
        options["categorical"] = [chance.choice(sorted(set(columns) - {label}))]
    elif chance.random() < 0.1:
        options["ignore"] = [chance.choice(sorted(set(columns) - {label}))]
    return Case("csv", {name: content}, options, 40 * len(content), damaged)


def large_table_case(chance: random.Random) -> Case:
    """A table that is read in blocks, with damage in a third of the cases."""
    made = csv_case(chance) if chance.random() < 0.7 else parquet_case(chance)
    options = {key: value for key, value in made.options.items() if key != "later"}
    return Case("large table", made.files, options, made.decoded, made.damaged)


def parquet_case(chance: random.Random) -> Case:
    """A Parquet table of many types, with damage in a third of the cases."""
    import pyarrow as pa
    from pyarrow import parquet

    n = chance.randrange(4, 40)
    columns = {"label": pa.array(_labels(chance, n))}
    for name in chance.sample(("a", "b", "c d", "é", "0", "x" * 60), chance.randrange(1, 5)):
        columns[name] = _arrow(chance, n)
    table = pa.table(columns)
    buffer = io.BytesIO()
    parquet.write_table(
        table,
        buffer,
        compression=chance.choice(("none", "snappy", "gzip", "zstd")),
        use_dictionary=chance.random() < 0.7,
        row_group_size=chance.choice((1, 7, 1000)),
        version=chance.choice(("1.0", "2.4", "2.6")),
    )
    content = buffer.getvalue()
    damaged = chance.random() < 0.3
    if damaged:
        content = damaged_bytes(chance, content)
    name = chance.choice(("data.parquet", "data.pq"))
    options = {"name": name, "label": "label", "later": chance.random() < 0.2}
    return Case("parquet", {name: content}, options, 40 * len(content), damaged)


def columns_of(chance: random.Random, *, comma: bool) -> dict[str, list[str | None]]:
    """Three columns of any kind, and that of the labels."""
    n = chance.choice((4, 8, 12, 20, 40))
    names = chance.sample(("age", "dose", "site", "x1", "naïve", "a b", "id?", "2020"), 3)
    columns = {name: _column(chance, n, comma=comma) for name in names}
    columns["label"] = _labels(chance, n)
    order = list(columns)
    chance.shuffle(order)
    return {name: columns[name] for name in order}


def _labels(chance: random.Random, n: int) -> list[str | None]:
    kinds = chance.choice((("no", "yes"), ("0", "1"), ("a", "b", "c"), ("-", "+"), ("1.0", "2.0")))
    missing = chance.choice((0.0, 0.3, 0.7))
    drawn = [None if chance.random() < missing else chance.choice(kinds) for _ in range(n)]
    return [*kinds, *kinds, *drawn][:n]


def _column(chance: random.Random, n: int, *, comma: bool) -> list[str | None]:
    def number() -> str:
        text = chance.choice(
            (
                f"{chance.gauss(0, 10):.3f}",
                f"{chance.gauss(0, 10):.2e}",
                str(chance.randrange(-99, 99)),
            )
        )
        return text.replace(".", ",") if comma else text

    def word() -> str:
        return chance.choice(WORDS)

    makers: tuple[Callable[[], str], ...] = (
        number,
        number,
        lambda: str(chance.randrange(5)),
        word,
        lambda: chance.choice(WORDS[:3]),
        lambda: _day(chance, chance.choice(DATES[:1])),
        lambda: chance.choice(SENTENCES) + chance.choice(WORDS),
        lambda: "".join(chance.choices(string.printable[:95], k=chance.randrange(0, 8))),
    )
    make = chance.choice(makers)
    if chance.random() < 0.12:  # one way to write dates for the whole column
        form = chance.choice(DATES)
        make = lambda: _day(chance, form)  # noqa: E731
    empty = chance.choice((0.0, 0.0, 0.2))
    mark = chance.choice(("", "", "NA", "nan", "?"))
    return [mark if chance.random() < empty else make() for _ in range(n)]


def _day(chance: random.Random, form: str) -> str:
    seconds = chance.randrange(4 * 10**9) if chance.random() < 0.99 else chance.randrange(10**11)
    return (datetime.datetime(1950, 1, 1) + datetime.timedelta(seconds=seconds)).strftime(form)


def written(chance: random.Random, rows: list[list[str]], delimiter: str) -> bytes:
    """Rows as a text table, in one of the ways in which programs write it."""
    buffer = io.StringIO()
    quoting = chance.choice((csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    end = chance.choice(("\n", "\n", "\r\n"))
    writer = csv.writer(buffer, delimiter=delimiter, quoting=quoting, lineterminator=end)
    writer.writerows(rows)
    start = "\ufeff" if chance.random() < 0.1 else ""
    return (start + buffer.getvalue()).encode(errors="replace")


def _arrow(chance: random.Random, n: int) -> Any:
    import pyarrow as pa

    day = datetime.date(2020, 1, 1)
    makers: dict[Any, Callable[[], Any]] = {
        pa.int8(): lambda: chance.randrange(-128, 128),
        pa.int64(): lambda: chance.choice((0, 1, -1, 2**62, chance.randrange(1000))),
        pa.uint32(): lambda: chance.randrange(2**32),
        pa.float32(): lambda: chance.gauss(0, 1),
        pa.float64(): lambda: chance.choice((0.0, 1e30, -1e-300, chance.gauss(0, 1))),
        pa.bool_(): lambda: chance.random() < 0.5,
        pa.string(): lambda: chance.choice(WORDS),
        pa.large_string(): lambda: chance.choice(WORDS),
        pa.dictionary(pa.int8(), pa.string()): lambda: chance.choice(WORDS),
        pa.date32(): lambda: day + datetime.timedelta(chance.randrange(1000)),
        pa.timestamp("ms"): lambda: chance.randrange(2**40),
        pa.decimal128(8, 2): lambda: chance.randrange(1000),
        pa.binary(): lambda: chance.randbytes(3),
        pa.list_(pa.int8()): lambda: [1, 2],
        pa.struct([("x", pa.int8())]): lambda: {"x": 1},
        pa.null(): lambda: None,
    }
    kind = chance.choice(list(makers)[: 9 if chance.random() < 0.85 else None])
    empty = chance.choice((0.0, 0.0, 0.3))
    values = [None if chance.random() < empty else makers[kind]() for _ in range(n)]
    return pa.array(values, kind)
