"""CSV and Parquet tables as columns of numbers or of text, before any encoding."""

import codecs
import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dessl.data.errors import DataError
from dessl.data.formats.reading import MAX_BYTES, check_limit, file_size, reading

DELIMITERS = (",", ";", "\t", "|")
HEADER_BYTES = 2**20


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        name: The column's name.
        numbers: float64 (n,) with NaN for missing, where the file itself says it holds numbers.
        texts: The distinct texts, trimmed; "" is a missing cell.
        codes: (n,) which of ``texts`` each row holds.
        truth: Whether the numbers are truth values, False and True in text.
    """

    name: str
    numbers: NDArray[np.float64] | None
    texts: NDArray[np.object_]
    codes: NDArray[np.int64]
    truth: bool = False

    def __len__(self) -> int:
        return len(self.codes if self.numbers is None else self.numbers)

    def cell(self, row: int) -> str:
        """One cell as text."""
        if self.numbers is not None:
            return f"{self.numbers[row]:g}"
        return str(self.texts[self.codes[row]])


@dataclass(frozen=True)
class Table:
    """The columns of one table by name; ``source`` is what errors call it."""

    source: Path
    columns: dict[str, Column]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


def open_table(
    path: str | Path, *, delimiter: str | None = None, max_bytes: int = MAX_BYTES
) -> Table:
    """A CSV (``.csv``, ``.tsv``, ``.txt``) or Parquet (``.parquet``, ``.pq``) file's columns.

    Args:
        path: The file, told by its suffix. A CSV is UTF-8 with column names in its first line.
        delimiter: Of a CSV; left out, the most frequent of comma, semicolon, tab and bar in the
            first line.
        max_bytes: A larger file, or one whose metadata promises more, is refused unread.

    Raises:
        DataError: The file is missing, damaged, ragged, empty or holds nested columns.
    """
    path = Path(path)
    size = file_size(path, "a CSV or Parquet table")
    check_limit(path, size, max_bytes)
    suffix = path.suffix.lower()
    if suffix in (".parquet", ".pq"):
        return _as_table(path, _parquet(path, max_bytes))
    if suffix in (".csv", ".tsv", ".txt"):
        return _as_table(path, _csv(path, delimiter))
    raise DataError.of(
        path,
        expected="a table named .csv, .tsv, .txt, .parquet or .pq",
        got=f"suffix {suffix!r}",
        do="Rename or convert it.",
    )


def arrow_module() -> Any:
    """PyArrow, or an error that says how to get it."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(
            "Reading tables needs pandas and pyarrow. Install them: pip install 'dessl[tables]'"
        ) from error
    return pyarrow


def _csv(path: Path, delimiter: str | None) -> Any:
    arrow = arrow_module()
    expected = "a UTF-8 CSV table with column names in its first line"
    do = "Save it again as a CSV file in UTF-8, with as many cells in every row as in the first."
    with reading(path, expected, arrow.ArrowException, ValueError, csv.Error, do=do):
        names, delimiter = _csv_header(path, delimiter)
        _check_names(path, names)
        with path.open("rb") as file:  # an open file: a path would be decompressed by its suffix
            table = arrow.csv.read_csv(
                file,
                read_options=arrow.csv.ReadOptions(use_threads=False, block_size=2**23),
                parse_options=arrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                convert_options=arrow.csv.ConvertOptions(
                    column_types=dict.fromkeys(names, arrow.string())
                ),
            )
        if table.column_names != names:
            raise ValueError("column names that cannot be told apart from data")
    return table


def _csv_header(path: Path, delimiter: str | None) -> tuple[list[str], str]:
    with path.open("rb") as file:
        start_bytes = file.read(HEADER_BYTES)
    if start_bytes.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError("UTF-16")
    start = start_bytes.decode("utf-8-sig", errors="ignore")
    if delimiter is None:
        first = start.split("\n", 1)[0]
        delimiter = max(DELIMITERS, key=first.count)
    names = next(csv.reader(io.StringIO(start, newline=""), delimiter=delimiter), [])
    return names, delimiter


def _parquet(path: Path, max_bytes: int) -> Any:
    arrow = arrow_module()
    with reading(path, "a Parquet table", arrow.ArrowException, ValueError, TypeError):
        with arrow.parquet.ParquetFile(path) as file:
            schema, metadata = file.schema_arrow, file.metadata
            _check_names(path, schema.names)
            check_limit(path, metadata.num_rows * 8 * max(1, len(schema.names)), max_bytes)
            groups = [metadata.row_group(k).total_byte_size for k in range(metadata.num_row_groups)]
            check_limit(path, sum(groups), max_bytes)
            texts = [field.name for field in schema if _is_text(field.type)]
        # As dictionaries: a long text repeated in every row is then kept, and decoded, once.
        with arrow.parquet.ParquetFile(path, read_dictionary=texts) as file:
            return file.read(use_threads=False)


def _is_text(kind: Any) -> bool:
    types = arrow_module().types
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _check_names(path: Path, names: Sequence[str]) -> None:
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if not names or repeated or not all(name.strip() for name in names):
        raise DataError.of(
            path,
            expected="columns with different, non-empty names",
            got=f"{repeated[0]!r} twice" if repeated else "a column without a name",
            do="Name each column once, in the first line.",
        )


def _as_table(source: Path, table: Any) -> Table:
    arrow = arrow_module()
    if table.num_rows == 0 or table.num_columns == 0:
        raise DataError.of(source, expected="at least one row", got="none", do="Add rows to it.")
    with reading(source, "columns of numbers or text", arrow.ArrowException, ValueError):
        table.validate(full=True)
        columns = {str(n): _column(source, str(n), table.column(n)) for n in table.column_names}
    return Table(source, columns)


def _column(source: Path, name: str, values: Any) -> Column:
    arrow = arrow_module()
    types, compute = arrow.types, arrow.compute
    if types.is_integer(values.type):
        try:
            values = compute.cast(values, arrow.float64())
        except arrow.ArrowInvalid:  # beyond 2**53, where neighbours would become one number
            values = compute.cast(values, arrow.string())
    kind = values.type
    content = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_boolean(kind) or types.is_floating(kind):
        numbers = compute.cast(values, arrow.float64(), safe=False).to_numpy()
        none = np.empty(0, np.object_)
        truth = bool(types.is_boolean(kind))
        return Column(name, numbers.astype(np.float64), none, np.empty(0, np.int64), truth)
    if not (_is_text(content) or types.is_null(kind)):
        raise DataError.of(
            source,
            expected=f"numbers or text in column {name!r}",
            got=f"type {kind}",
            do="Convert the column, or leave it out of the file.",
        )
    if types.is_null(kind):
        values = arrow.chunked_array([arrow.nulls(len(values), arrow.string())])
    coded = values if types.is_dictionary(kind) else values.dictionary_encode()
    whole = coded.unify_dictionaries().combine_chunks()
    if isinstance(whole, arrow.ChunkedArray):
        whole = whole.chunk(0)
    texts = [str(text or "").strip() for text in whole.dictionary.to_pylist()]
    codes = whole.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
    return _trimmed(name, [*texts, ""], codes.astype(np.int64))


def _trimmed(name: str, texts: list[str], codes: NDArray[np.int64]) -> Column:
    """The column with texts that became equal by trimming put together, sorted."""
    distinct = sorted({texts[code] for code in np.unique(codes)})
    place = {text: number for number, text in enumerate(distinct)}
    moved = np.array([place.get(text, -1) for text in texts], np.int64)
    return Column(name, None, np.array(distinct, np.object_), moved[codes])
