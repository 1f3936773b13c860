"""JSON lines (.jsonl, .ndjson): a table with one JSON object per line, as an Arrow table.

Keys are columns, in the order in which they first appear; a line without a key, and null, are empty
cells. A column of numbers stays one; numbers among text become text. Lists and objects are not
read: a column of them can only be ignored.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dessl._checks import quoted
from dessl.data.errors import DataError, few
from dessl.data.formats.cells import arrow_module
from dessl.data.formats.reading import reading

SUFFIXES = (".jsonl", ".ndjson")
ADVICE = "Write one JSON object per line, in UTF-8."


def json_lines_table(path: Path) -> Any:
    """Return the rows of a file of JSON lines.

    Args:
        path: The file, in UTF-8; empty lines are skipped.

    Raises:
        DataError: A line is not a JSON object, or repeats a key.
    """
    columns: dict[str, list[Any]] = {}
    for n, row in enumerate(_rows(path), 1):
        for name, value in row.items():
            columns.setdefault(name, [None] * (n - 1)).append(value)
        for values in columns.values() if len(row) < len(columns) else ():
            if len(values) < n:
                values.append(None)
    with reading(path, "text that UTF-8 can write", UnicodeEncodeError, do=ADVICE):  # half a pair
        return arrow_module().table({name: _array(values) for name, values in columns.items()})


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with (
        reading(path, "JSON lines in UTF-8", UnicodeDecodeError, do=ADVICE),
        path.open(encoding="utf-8-sig") as file,
    ):
        for number, line in enumerate(file, 1):
            if line.strip():
                yield _row(path, number, line)


def _row(path: Path, number: int, line: str) -> dict[str, Any]:
    """One line's object."""
    try:
        row = json.loads(line, object_pairs_hook=_pairs)
    except (ValueError, RecursionError) as error:
        raise _wrong(path, number, str(error) or "an object within too many others") from error
    if not isinstance(row, dict):
        raise _wrong(path, number, f"a {type(row).__name__}")
    return row


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"the key {few([quoted(name) for name in twice])} twice")
    return found


def _wrong(path: Path, number: int, got: str) -> DataError:
    return DataError.of(
        path,
        expected="one JSON object per line, with different keys",
        got=f"{got} in line {number:,}",
        do='Write lines such as {"text": "...", "label": "spam"}; a JSON list has to be split.',
    )


def _array(values: list[Any]) -> Any:
    """A column as an Arrow array; lists and objects are empty lists, which are not read."""
    arrow, kinds = arrow_module(), {type(value) for value in values} - {type(None)}
    if kinds & {list, dict}:
        return arrow.array([[]] * len(values))
    if len(kinds) == 1 or kinds <= {int, float}:
        try:
            return arrow.array(values)
        except (arrow.ArrowException, OverflowError):
            pass  # whole numbers beyond 64 bits
    return arrow.array([None if value is None else str(value) for value in values], arrow.string())
