"""The dialect of a CSV: its encoding, delimiter and column names, and how Arrow reads it."""

import codecs
import csv
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from dessl.data.formats.cells import arrow_module
from dessl.data.formats.reading import reading

SUFFIXES = (".csv", ".tsv", ".txt")
DELIMITERS = (",", ";", "\t", "|")
HEADER_BYTES = 2**20  # at the start of a file, in which the column names must lie
BLOCK_BYTES = 2**23  # that Arrow reads at a time
QUOTED = re.compile(r'(?:^|(?<=[,;\t|\n]))"[^"]*(?:""[^"]*)*"(?=[,;\t|\r\n]|$)')


class Dialect(NamedTuple):
    """How to read a CSV.

    Attributes:
        names: The column names, in the first line.
        delimiter: What separates cells.
        text_encoding: Its encoding; None for UTF-8, with or without a byte order mark.
    """

    names: list[str]
    delimiter: str
    text_encoding: str | None

    def arrow_options(self) -> dict[str, Any]:
        """Return the options of Arrow's readers: every cell is read as text."""
        arrow = arrow_module()
        return {
            "read_options": arrow.csv.ReadOptions(
                use_threads=False, block_size=BLOCK_BYTES, encoding=self.text_encoding or "utf8"
            ),
            "parse_options": arrow.csv.ParseOptions(
                delimiter=self.delimiter,
                newlines_in_values=True,
                ignore_empty_lines=len(self.names) > 1,  # with one column, it is a missing cell
            ),
            "convert_options": arrow.csv.ConvertOptions(
                column_types=dict.fromkeys(self.names, arrow.string())
            ),
        }


def dialect_of(path: Path, delimiter: str | None, text_encoding: str | None) -> Dialect:
    """Return the dialect of a CSV.

    Args:
        path: The file.
        delimiter: Its delimiter; by default the most likely one.
        text_encoding: Its encoding; UTF-8 by default, and if it begins with a UTF-8 byte order
            mark.

    Raises:
        ValueError: The file, or its first line, is not in this encoding.
    """
    with path.open("rb") as file:
        marked = file.read(3) == codecs.BOM_UTF8
    if marked or (text_encoding and codecs.lookup(text_encoding).name in ("utf-8", "utf-8-sig")):
        text_encoding = None
    names, delimiter = csv_header(path, delimiter, text_encoding)
    return Dialect(names, delimiter, text_encoding)


def csv_header(
    path: Path, delimiter: str | None, text_encoding: str | None = None
) -> tuple[list[str], str]:
    """The column names of a CSV, and its delimiter: the given one, or the most likely one.

    Raises:
        ValueError: The file, or its first line, is not in this encoding, by default UTF-8.
    """
    with path.open("rb") as file:
        start_bytes = file.read(HEADER_BYTES)
    if text_encoding is not None:
        decoder = codecs.getincrementaldecoder(text_encoding)()
        start = decoder.decode(start_bytes)
    elif start_bytes.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError("UTF-16")
    else:
        start = start_bytes.decode("utf-8-sig", errors="surrogateescape")
    if delimiter is None:
        delimiter = likely_delimiter(start)
    names = next(csv.reader(io.StringIO(start, newline=""), delimiter=delimiter), [])
    if any("\udc80" <= character <= "\udcff" for character in "".join(names)):
        raise ValueError("column names in another encoding")
    return names, delimiter


def likely_delimiter(start: str) -> str:
    r"""The comma, semicolon, tab or bar that separates the first line, from the start of a CSV.

    Text in quotes does not count. One that occurs equally often in the second line is preferred,
    then the most frequent one.

    >>> likely_delimiter('"age, in years";"height, cm";sick\n31;170,5;no\n')
    ';'
    """
    first, second = [*QUOTED.sub("", start).split("\n", 2), ""][:2]
    counts = {one: first.count(one) for one in DELIMITERS}
    return max(counts, key=lambda one: (0 < counts[one] == second.count(one), counts[one]))


def is_csv(path: str | Path) -> bool:
    """Whether a file is a CSV, by its extension."""
    return Path(path).suffix.lower() in SUFFIXES


def check_text_encoding(name: str | None) -> None:
    """Refuse a name that is not an encoding of text."""
    try:
        "".encode(name or "utf-8")
    except (LookupError, ValueError) as error:
        raise ValueError(
            "text_encoding (--encoding) must be an encoding that Python knows, such as utf-8, "
            f"latin-1, cp1252, cp1250, utf-16 or shift_jis; got {name!r}."
        ) from error


@contextmanager
def reading_csv(path: Path, text_encoding: str | None) -> Iterator[None]:
    """Turn errors of reading a CSV into a DataError that says which encodings to try."""
    expected = f"a CSV table in {text_encoding or 'UTF-8'} with column names in its first line"
    do = (
        "Save it again as a CSV file in UTF-8, with the same number of cells in every row; or, if "
        "it is in another encoding, name it in text_encoding= (--encoding on the command line), "
        "such as cp1252 (Windows), latin-1 or utf-16."
    )
    problems = (arrow_module().ArrowException, ValueError, csv.Error)
    with reading(path, expected, *problems, do=do):
        try:
            yield
        except arrow_module().ArrowInvalid as error:
            if "invalid UTF8" in str(error):
                column = re.search(r"column #(\d+)", str(error))
                where = f" in column {int(column[1]) + 1}" if column else ""
                raise ValueError(
                    f"text{where} that is not UTF-8, but perhaps Latin-1 or Windows-1252"
                ) from error
            raise
