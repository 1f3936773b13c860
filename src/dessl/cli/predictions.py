"""The file of ``dessl predict``: CSV, Parquet or JSON lines, by its extension.

A spreadsheet runs a CSV cell as a formula if it begins with one of = + - @ or a control character.
So such a text gets an apostrophe before it, and so does one that has apostrophes before such a
character already. Numbers stay as they are. To undo it, remove one apostrophe where apostrophes
come before such a character. Parquet and JSON lines keep every cell as it is.
"""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

FORMATS = (".csv", ".parquet", ".jsonl", ".ndjson")
FORMULA = re.compile("'*[=+\\-@\t\r\n\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}"
                     "\N{FULLWIDTH HYPHEN-MINUS}\N{FULLWIDTH COMMERCIAL AT}]")  # fmt: skip


def file_content(out: Path, columns: dict[str, Any], *, harmless: bool = True) -> bytes:
    """Return the columns as a file of the kind that its name says.

    Args:
        out: The file; ``-`` is CSV.
        columns: By name; each an Arrow array or a list, None for an empty cell.
        harmless: Whether to change the cells of a CSV that a spreadsheet would run.
    """
    suffix = out.suffix.lower()
    if suffix == ".parquet":
        return _parquet(columns)
    lists = {name: _listed(column) for name, column in columns.items()}
    text = _csv(lists, harmless) if suffix in (".csv", "") else _json_lines(lists)
    return text.encode()


def check_format(out: Path) -> None:
    """Refuse a name whose extension is not of a known format."""
    if str(out) != "-" and out.suffix.lower() not in FORMATS:
        raise ValueError(
            f"--out must end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}; got {out}."
        )


def without_formula(cell: object) -> object:
    """Return a cell that no spreadsheet runs as a formula.

    >>> [without_formula(cell) for cell in ("=1+1", "@sum", "-1", "+4.5e3", "benign", 0.25)]
    ["'=1+1", "'@sum", '-1', '+4.5e3', 'benign', 0.25]
    >>> [with_formula(without_formula(cell)) for cell in ("=1+1", "'=1", "-1", "'quoted'")]
    ['=1+1', "'=1", '-1', "'quoted'"]
    """
    if not isinstance(cell, str) or not FORMULA.match(cell):
        return cell
    try:
        float(cell)  # a number: a class such as -1 stays what it is
    except ValueError:
        return f"'{cell}"
    return cell


def with_formula(cell: Any) -> Any:
    """Return the cell that :func:`without_formula` was given."""
    changed = isinstance(cell, str) and cell.startswith("'") and FORMULA.match(cell)
    return cell[1:] if changed else cell


def _listed(column: Any) -> list[Any]:
    return column.to_pylist() if hasattr(column, "to_pylist") else list(column)


def _csv(columns: dict[str, list[Any]], harmless: bool) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    made = without_formula if harmless else lambda cell: cell
    writer.writerow(map(made, columns))
    for row in zip(*columns.values(), strict=True):
        writer.writerow(map(made, row))
    return buffer.getvalue()


def _json_lines(columns: dict[str, list[Any]]) -> str:
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    return "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows)


def _parquet(columns: dict[str, Any]) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    buffer = io.BytesIO()
    parquet.write_table(pa.table(columns), buffer)
    return buffer.getvalue()
