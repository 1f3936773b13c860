"""CSV, Parquet, Excel and JSON-lines tables as columns of numbers or text, not yet encoded."""

import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dessl._checks import quoted
from dessl.data.errors import DataError, few
from dessl.data.formats.advice import Advice
from dessl.data.formats.cells import FILE, Column, arrow_module
from dessl.data.formats.csv_dialect import SUFFIXES as CSV
from dessl.data.formats.csv_dialect import check_text_encoding, dialect_of, is_csv, reading_csv
from dessl.data.formats.excel import SUFFIXES as EXCEL
from dessl.data.formats.excel import sheet_table
from dessl.data.formats.json_lines import SUFFIXES as JSON_LINES
from dessl.data.formats.json_lines import json_lines_table
from dessl.data.formats.reading import MAX_BYTES, check_limit, file_size, how_to_convert, reading

PARQUET = (".parquet", ".pq")
SUFFIXES = (*CSV, *PARQUET, *EXCEL, *JSON_LINES)
PANDAS_INDEX = re.compile(r"__index_level_\d+__")  # row numbers, not a column of the user


@dataclass(frozen=True)
class Table:
    """The columns of one table by name.

    Attributes:
        source: Name in error messages.
        columns: Columns of numbers or text.
        unread: The types of all other columns.
        n_rows: The number of rows.
        advice: What to do about its errors.
    """

    source: Path
    columns: dict[str, Column]
    unread: dict[str, str]
    n_rows: int
    advice: Advice = FILE

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
    if suffix in PARQUET:
        return _parquet(path, max_bytes)
    if is_csv(path):
        return _csv(path, delimiter, text_encoding)
    raise DataError.of(
        path,
        expected="a table named .csv, .tsv, .txt, .parquet, .pq, .xlsx or .jsonl",
        got=f"suffix {quoted(suffix)}",
        do=how_to_convert(path),
    )


def warn_of_empty_rows(table: Table) -> None:
    """Warn about rows that are empty in every column."""
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
            stacklevel=4,
        )


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
    if path.suffix.lower() in PARQUET:
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
    with reading_csv(path, text_encoding), path.open("rb") as file:
        dialect = dialect_of(path, delimiter, text_encoding)
        check_names(path, dialect.names)
        options = dialect.arrow_options()
        if columns is not None:
            options["convert_options"].include_columns = list(columns)
        with arrow.csv.open_csv(file, **options) as reader:
            if columns is None and reader.schema.names != dialect.names:
                raise ValueError("column names that cannot be distinguished from data")
            for batch in reader:
                yield arrow.Table.from_batches([batch])


def _csv(path: Path, delimiter: str | None, text_encoding: str | None) -> Any:
    with reading_csv(path, text_encoding):
        dialect = dialect_of(path, delimiter, text_encoding)
        check_names(path, dialect.names)
        with path.open("rb") as file:  # an open file: a path would be decompressed by its suffix
            table = arrow_module().csv.read_csv(file, **dialect.arrow_options())
        if table.column_names != dialect.names:
            raise ValueError("column names that cannot be distinguished from data")
    return table


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


def as_table(source: Path, table: Any, advice: Advice = FILE) -> Table:
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
    return Table(source, columns, unread, table.num_rows, advice)


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
