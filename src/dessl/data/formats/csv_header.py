"""The first line of a CSV: the names of its columns, and what stands between them."""

import codecs
import csv
import io
import re
from pathlib import Path

DELIMITERS = (",", ";", "\t", "|")
HEADER_BYTES = 2**20
QUOTED = re.compile(r'(?:^|(?<=[,;\t|\n]))"[^"]*(?:""[^"]*)*"(?=[,;\t|\r\n]|$)')


def csv_header(path: Path, delimiter: str | None) -> tuple[list[str], str]:
    """The column names of a CSV, and its delimiter: the one given, or else the likeliest.

    Raises:
        ValueError: The file, or its first line, is in another coding than UTF-8.
    """
    with path.open("rb") as file:
        start_bytes = file.read(HEADER_BYTES)
    if start_bytes.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError("UTF-16")
    start = start_bytes.decode("utf-8-sig", errors="surrogateescape")
    if delimiter is None:
        delimiter = likely_delimiter(start)
    names = next(csv.reader(io.StringIO(start, newline=""), delimiter=delimiter), [])
    if any("\udc80" <= character <= "\udcff" for character in "".join(names)):
        raise ValueError("column names in another coding")  # bytes that are not UTF-8
    return names, delimiter


def likely_delimiter(start: str) -> str:
    r"""The comma, semicolon, tab or bar that divides the first line, by the start of a CSV.

    What stands in quotes does not count. One that is in the second line as often goes before the
    others, then the most frequent.

    >>> likely_delimiter('"age, in years";"height, cm";sick\n31;170,5;no\n')
    ';'
    """
    first, second = [*QUOTED.sub("", start).split("\n", 2), ""][:2]

    def likelihood(delimiter: str) -> tuple[bool, int]:
        count = first.count(delimiter)
        return 0 < count == second.count(delimiter), count

    return max(DELIMITERS, key=likelihood)
