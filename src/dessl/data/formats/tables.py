"""CSV, Parquet, Excel and JSON-lines tables as columns of numbers or text, not yet encoded."""

import codecs
import csv
import io
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dessl._checks import quoted
from dessl.data.errors import DataError, few
from dessl.data.formats.cells import Column, arrow_module
from dessl.data.formats.excel import SUFFIXES as EXCEL
from dessl.data.formats.excel import sheet_table
from dessl.data.formats.json_lines import SUFFIXES as JSON_LINES
from dessl.data.formats.json_lines import json_lines_table
from dessl.data.formats.reading import MAX_BYTES, check_limit, file_size, how_to_convert, reading

CSV = (".csv", ".tsv", ".txt")
DELIMITERS = (",", ";", "\t", "|")
HEADER_BYTES = 2**20
QUOTED = re.compile(r'(?:^|(?<=[,;\t|\n]))"[^"]*(?:""[^"]*)*"(?=[,;\t|\r\n]|$)')
PANDAS_INDEX = re.compile(r"__index_level_\d+__")  # row numbers, not a column of the user


@dataclass(frozen=True)
class Table:
    """The columns of one table by name.

    Attributes:
        source: Name in error messages.
        columns: Columns of numbers or text.
        unread: The types of all other columns.
        n_rows: The number of rows.
    """

    source: Path
    columns: dict[str, Column]
    unread: dict[str, str]
    n_rows: int

    def __len__(self) -> int:
        return self.n_rows

    def without(self, marks: Collection[str]) -> "Table":
        """The table with empty cells in place of these marks of missing ones."""
        if not marks:
            return self
        columns = {name: column.without(marks) for name, column in self.columns.items()}
        return replace(self, columns=columns)


def open_table(
    path: str | Path,
    *,
    delimiter: str | None = None,
    sheet: str | None = None,
    text_encoding: str | None = None,
    missing: Collection[str] = (),
    max_bytes: int = MAX_BYTES,
) -> Table:
    """The columns of a table: CSV (``.csv``, ``.tsv``, ``.txt``), Parquet, Excel, JSON lines.

    Args:
        path: The file; its extension gives the kind. A CSV has column names in its first line.
        delimiter: Delimiter of a CSV; by default the comma, semicolon, tab or bar that separates
            the names in the first line; those in quotes do not count.
        sheet: Sheet of an Excel workbook, whose first non-empty row has the names; by default the
            first.
        text_encoding: Encoding of a CSV, such as cp1252; UTF-8 by default, and if the file begins
            with a UTF-8 byte order mark.
        missing: Marks of missing cells, besides empty ones: text, compared without spaces around
            it. A number stands for every cell with its value.
        max_bytes: A larger file, or one whose metadata states more, is refused unread.

    Raises:
        DataError: The file is missing, damaged, ragged or empty.
    """
    table = arrow_table(
        path,
        delimiter=delimiter,
        sheet=sheet,
        text_encoding=text_encoding,
        max_bytes=max_bytes,
    )
    return as_table(Path(path), table).without(missing)


def arrow_table(
    path: str | Path,
    *,
    delimiter: str | None = None,
    sheet: str | None = None,
    text_encoding: str | None = None,
    max_bytes: int = MAX_BYTES,
) -> Any:
    """The same as an Arrow table: CSV columns are text, others keep the types of their file."""
    path = Path(path)
    size = file_size(path, "a CSV, Parquet, Excel or JSON-lines table")
    check_limit(path, size, max_bytes)
    suffix = path.suffix.lower()
    if not size:
        raise DataError.of(
            path,
            expected="a table with column names in its first line",
            got="an empty file",
            do="Check the path, or save the table again.",
        )
    if sheet is not None and suffix not in EXCEL:
        raise ValueError(f"sheet is for Excel workbooks, but {path} is not one. Omit it.")
    check_text_encoding(text_encoding)
    if text_encoding is not None and not is_csv(path):
        raise ValueError(f"the encoding of text is for CSV files, but {path} is not one. Omit it.")
    if suffix in (*EXCEL, *JSON_LINES):
        excel = suffix in EXCEL
        table = (
            sheet_table(path, sheet=sheet, max_bytes=max_bytes) if excel else json_lines_table(path)
        )
        check_names(path, table.column_names)
        return table
    if suffix in (".parquet", ".pq"):
        return _parquet(path, max_bytes)
    if suffix in CSV:
        return _csv(path, delimiter, text_encoding)
    raise DataError.of(
        path,
        expected="a table named .csv, .tsv, .txt, .parquet, .pq, .xlsx or .jsonl",
        got=f"suffix {quoted(suffix)}",
        do=how_to_convert(path),
    )


def is_csv(path: str | Path) -> bool:
    """Whether a file is a CSV, by its extension."""
    return Path(path).suffix.lower() in CSV


def check_text_encoding(name: str | None) -> None:
    """Refuse a name that is not an encoding of text."""
    try:
        "".encode(name or "utf-8")
    except (LookupError, ValueError) as error:
        raise ValueError(
            "text_encoding (--encoding) must be an encoding that Python knows, such as utf-8, "
            f"latin-1, cp1252, cp1250, utf-16 or shift_jis; got {name!r}."
        ) from error


def warn_of_empty_rows(table: Table, *, stacklevel: int = 2) -> None:
    """Warn about rows that are empty in every column.

    Args:
        table: The table.
        stacklevel: Same as in ``warnings.warn``, as if called in place of this function.
    """
    empty = np.full(len(table), len(table.columns) > 1 and not table.unread)
    for column in table.columns.values():
        if not empty.any():  # in most tables after the first column
            return
        empty &= column.is_empty()
    if empty.any():
        warnings.warn(
            f"{table.source}: {empty.sum()} of {len(table)} rows are empty in every column, as "
            "spreadsheets leave them below a table; they count as unlabelled rows. Delete them.",
            UserWarning,
            stacklevel=stacklevel + 1,
        )


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


def table_blocks(
    path: Path,
    *,
    columns: Sequence[str] | None = None,
    delimiter: str | None = None,
    text_encoding: str | None = None,
) -> Iterator[Any]:
    """Yield a CSV or Parquet table in blocks of some megabytes, as in :func:`arrow_table`.

    Args:
        path: The file.
        columns: Columns to read; all by default.
        delimiter: Delimiter of a CSV; guessed by default.
        text_encoding: Encoding of a CSV, as in :func:`open_table`.

    Raises:
        DataError: The file is damaged or ragged.
    """
    arrow = arrow_module()
    if path.suffix.lower() in (".parquet", ".pq"):
        with (
            reading(path, "a Parquet table", arrow.ArrowException, ValueError, TypeError),
            arrow.parquet.ParquetFile(path) as file,
        ):
            check_names(path, file.schema_arrow.names)
            names = [n for n in file.schema_arrow.names if not PANDAS_INDEX.fullmatch(n)]
            for batch in file.iter_batches(columns=columns or names, use_threads=False):
                yield arrow.Table.from_batches([batch])
        return
    check_text_encoding(text_encoding)
    with _reading_csv(path, text_encoding), path.open("rb") as file:
        names, options = _csv_options(path, delimiter, text_encoding)
        if columns is not None:
            options["convert_options"].include_columns = list(columns)
        with arrow.csv.open_csv(file, **options) as reader:
            if columns is None and reader.schema.names != names:
                raise ValueError("column names that cannot be distinguished from data")
            for batch in reader:
                yield arrow.Table.from_batches([batch])


def _csv(path: Path, delimiter: str | None, text_encoding: str | None) -> Any:
    with _reading_csv(path, text_encoding):
        names, options = _csv_options(path, delimiter, text_encoding)
        with path.open("rb") as file:  # an open file: a path would be decompressed by its suffix
            table = arrow_module().csv.read_csv(file, **options)
        if table.column_names != names:
            raise ValueError("column names that cannot be distinguished from data")
    return table


@contextmanager
def _reading_csv(path: Path, text_encoding: str | None) -> Iterator[None]:
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


def _csv_options(
    path: Path, delimiter: str | None, text_encoding: str | None
) -> tuple[list[str], dict[str, Any]]:
    """The names of a CSV's columns, and how Arrow reads it: every cell as text."""
    arrow = arrow_module()
    with path.open("rb") as file:
        marked = file.read(3) == codecs.BOM_UTF8
    if marked or (text_encoding and codecs.lookup(text_encoding).name in ("utf-8", "utf-8-sig")):
        text_encoding = None
    names, delimiter = csv_header(path, delimiter, text_encoding)
    check_names(path, names)
    return names, {
        "read_options": arrow.csv.ReadOptions(
            use_threads=False, block_size=2**23, encoding=text_encoding or "utf8"
        ),
        "parse_options": arrow.csv.ParseOptions(
            delimiter=delimiter,
            newlines_in_values=True,
            ignore_empty_lines=len(names) > 1,  # with one column, it is a missing cell
        ),
        "convert_options": arrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, arrow.string())
        ),
    }


def _parquet(path: Path, max_bytes: int) -> Any:
    arrow = arrow_module()
    with reading(path, "a Parquet table", arrow.ArrowException, ValueError, TypeError):
        with arrow.parquet.ParquetFile(path) as file:
            schema, metadata = file.schema_arrow, file.metadata
            check_names(path, schema.names)
            check_limit(path, metadata.num_rows * 8 * max(1, len(schema.names)), max_bytes)
            groups = [metadata.row_group(k).total_byte_size for k in range(metadata.num_row_groups)]
            check_limit(path, sum(groups), max_bytes)
            texts = [field.name for field in schema if _is_text(field.type)]
        # As dictionaries: a long text repeated in every row is then kept, and decoded, once.
        columns = [name for name in schema.names if not PANDAS_INDEX.fullmatch(name)]
        with arrow.parquet.ParquetFile(path, read_dictionary=texts) as file:
            return file.read(columns=columns, use_threads=False)


def _is_text(kind: Any) -> bool:
    types = arrow_module().types
    return bool(types.is_string(kind) or types.is_large_string(kind))


def check_names(path: Path, names: Sequence[str]) -> None:
    """Refuse columns without a name, or with repeated names."""
    if names and not names[0].strip() and all(name.strip() for name in names[1:]):
        raise DataError.of(
            path,
            expected="columns with different, non-empty names",
            got="a first column without a name, probably an index that was saved with the table",
            do="Save the table without the index (index=False in pandas, row.names = FALSE in R), "
            "or delete or name the column.",
        )
    nameless = [str(number) for number, name in enumerate(names, 1) if not name.strip()]
    if nameless or not names:
        raise DataError.of(
            path,
            expected="columns with different, non-empty names",
            got=f"a column without a name: number {few(nameless or ['1'])}",
            do="Name each column in the first line; delete empty columns and lines above the "
            "names.",
        )
    check_different(
        path,
        names,
        expected="columns with different, non-empty names",
        do="Give each column a different name in the first line.",
    )


def check_different(path: Path, names: Sequence[str], *, expected: str, do: str) -> None:
    """Refuse repeated names."""
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise DataError.of(path, expected=expected, got=f"{quoted(repeated[0])} twice", do=do)


def as_table(source: Path, table: Any) -> Table:
    """An Arrow table's columns of numbers or text."""
    arrow = arrow_module()
    if table.num_rows == 0 or table.num_columns == 0:
        raise DataError.of(source, expected="at least one row", got="none", do="Add rows to it.")
    with reading(source, "columns of numbers or text", arrow.ArrowException, ValueError):
        table.validate(full=True)
        read = {
            name: _column(name, values)
            for name, values in zip(table.column_names, table.columns, strict=True)
        }
    columns = {name: column for name, column in read.items() if column is not None}
    unread = {name: str(table.schema.field(name).type) for name in read if name not in columns}
    return Table(source, columns, unread, table.num_rows)


def _column(name: str, values: Any) -> Column | None:
    """A column of numbers or of text; None for any other type.

    Whole numbers and decimals become float64; booleans, dates and times become text as in a CSV.
    """
    arrow = arrow_module()
    types, compute, kind = arrow.types, arrow.compute, values.type
    if types.is_integer(kind):
        try:
            values = compute.cast(values, arrow.float64())
        except arrow.ArrowInvalid:  # beyond 2**53, where neighbours would become equal
            values = compute.cast(values, arrow.string())
    elif types.is_decimal(kind):
        values = compute.cast(values, arrow.float64())
    elif types.is_boolean(kind):
        values = compute.if_else(values, "True", "False")
    elif types.is_null(kind) or types.is_temporal(kind):
        values = compute.cast(values, arrow.string())
    kind = values.type
    if types.is_floating(kind):
        numbers = compute.cast(values, arrow.float64(), safe=False).to_numpy()
        return Column.of_numbers(name, numbers.astype(np.float64))
    if not _is_text(kind.value_type if types.is_dictionary(kind) else kind):
        return None
    return Column(name, None, values)
