"""How a table becomes features: fitted once, saved as JSON, applied to every later table."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dessl._checks import quoted
from dessl.data.errors import DataError, did_you_mean, few
from dessl.data.formats.columns import CategoricalColumn, NumericColumn, as_text
from dessl.data.formats.csv_dialect import check_text_encoding
from dessl.data.formats.dates import DateColumn
from dessl.data.formats.moments import DATE_PARTS
from dessl.data.formats.reading import MAX_BYTES, Labels, byte_count, check_limit
from dessl.data.formats.tables import Table
from dessl.data.formats.texts import TextColumn
from dessl.data.formats.times import CLOCK_PARTS, TimeColumn
from dessl.data.unknown_classes import UnknownClassesError

VERSION = 1
OPTIONAL = {"missing_labels", "missing", "text_encoding"}  # entries that some files lack
EncodedColumn: TypeAlias = NumericColumn | CategoricalColumn | DateColumn | TimeColumn | TextColumn
KINDS: dict[str, type[EncodedColumn]] = {
    "numeric": NumericColumn,
    "categorical": CategoricalColumn,
    "date": DateColumn,
    "time": TimeColumn,
    "text": TextColumn,
}


@dataclass(frozen=True)
class TableEncoding:
    """A fitted encoding of tables: which columns become which features, and labels which classes.

    Numbers have their mean subtracted; a missing one is replaced by the median and marked by a
    feature of its own; scaling is left to training. Categories become one 0/1 feature each; a
    category that was too rare, or that did not occur when the encoding was fitted (with a warning),
    gives zeros in all of them. A column that was complete when the encoding was fitted has no mark:
    a warning counts later gaps.

    Attributes:
        label: The column of the labels.
        class_names: The classes in order.
        columns: The encoded columns, in the order of their features.
        left_out: Columns that were dropped, and why.
        missing_labels: Marks of a missing label, besides an empty cell.
        missing: Marks of a missing cell in any column, besides an empty one.
        text_encoding: Encoding of the CSV file that it was fitted to, and of later ones; None for
            UTF-8.

    >>> age = NumericColumn("age", median=40.0, mean=41.0, scale=2.0, indicator=True)
    >>> encoding = TableEncoding("sick", ("no", "yes"), (age,))
    >>> TableEncoding.from_dict(encoding.as_dict()) == encoding, encoding.feature_names
    (True, ('age', 'age is missing'))
    """

    label: str
    class_names: tuple[str, ...]
    columns: tuple[EncodedColumn, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    missing_labels: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    text_encoding: str | None = None

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One name for each feature."""
        return tuple(name for column in self.columns for name in column.feature_names)

    def features(self, table: Table, *, max_bytes: int = MAX_BYTES) -> NDArray[np.float32]:
        """A table's rows as float32 (n, features).

        Raises:
            DataError: A column is missing, or a cell of a numeric one is not a number.
        """
        table = table.without(self.missing)
        absent = [column.name for column in self.columns if column.name not in table.columns]
        if absent:
            used = {self.label, *self.left_out, *(column.name for column in self.columns)}
            unused = [name for name in table.columns if name not in used]
            raise DataError.of(
                table.source,
                expected=f"the column(s) {few([quoted(name) for name in absent])}",
                got=few([quoted(name) for name in table.columns], most=20),
                do=f"{did_you_mean(absent[0], unused)} Pass a table with the columns of the "
                "training data, of numbers or text. If a column was not measured, add it with "
                "empty cells, and expect less accurate predictions.",
            )
        shape = (len(table), len(self.feature_names))
        check_limit(table.source, byte_count(shape, 4), max_bytes)
        x = np.empty(shape, np.float32)
        start = 0
        unmarked: dict[str, int] = {}
        for column in self.columns:
            width = len(column.feature_names)
            with np.errstate(over="ignore"):
                x[:, start : start + width], unmarked[column.name] = column.features(table)
            if not np.isfinite(x[:, start : start + width]).all():
                raise DataError.of(
                    table.source,
                    expected=f"numbers of ordinary size in column {quoted(column.name)}",
                    got="numbers too large for float32",
                    do="Correct them, or take their logarithm.",
                )
            start += width
        _warn_of_unmarked(table, unmarked)
        return x

    def labels(self, table: Table) -> Labels:
        """A table's labels as int64 (n,), -1 for an empty cell or if there is no such column.

        Raises:
            UnknownClassesError: A label is not one of the classes.
        """
        if self.label not in table.columns:
            return np.full(len(table), -1, np.int64)
        column = as_text(table.columns[self.label].without(self.missing))
        place = dict.fromkeys(("", *self.missing_labels), -1)
        place |= {name: number for number, name in enumerate(self.class_names)}
        texts = column.texts.to_pylist()
        if any(text not in place for text in texts):
            rows = np.bincount(column.codes, minlength=len(texts)).tolist()
            counts = {text: n for text, n in zip(texts, rows, strict=True) if text not in place}
            where = f"in column {quoted(self.label)}"
            raise UnknownClassesError.of_labels(table.source, where, counts, self.class_names)
        return np.array([place[text] for text in texts], np.int64)[column.codes]

    def as_dict(self) -> dict[str, Any]:
        """The encoding as JSON can represent it."""
        columns = []
        for column in self.columns:
            kind = next(name for name, one in KINDS.items() if isinstance(column, one))
            own = column.as_dict() if isinstance(column, TextColumn) else asdict(column)
            entries = {"kind": kind} | own
            columns.append({k: list(v) if isinstance(v, tuple) else v for k, v in entries.items()})
        entries = {
            "version": VERSION,
            "label": self.label,
            "class_names": list(self.class_names),
            "columns": columns,
            "left_out": dict(self.left_out),
            "missing_labels": list(self.missing_labels),
        }
        if self.missing:
            entries["missing"] = list(self.missing)
        if self.text_encoding is not None:
            entries["text_encoding"] = self.text_encoding
        return entries

    @classmethod
    def from_dict(cls, entries: Any, *, source: str | Path = "the encoding") -> "TableEncoding":
        """Rebuild from the result of :meth:`as_dict`.

        Raises:
            DataError: The entries are not those of an encoding.
        """
        try:
            keys = {"version", "label", "class_names", "columns", "left_out"}
            if set(entries) - OPTIONAL != keys or entries["version"] != VERSION:
                raise ValueError(f"the entries {', '.join(map(str, entries))}")
            return cls(
                _text(entries["label"]),
                tuple(_text(name) for name in entries["class_names"]),
                tuple(_column(column) for column in entries["columns"]),
                {_text(k): _text(v) for k, v in entries["left_out"].items()},
                tuple(_text(mark) for mark in entries.get("missing_labels", ())),
                tuple(_text(mark) for mark in entries.get("missing", ())),
                _encoding_name(entries.get("text_encoding")),
            )
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise DataError.of(
                source,
                expected=f"a table encoding of version {VERSION}",
                got=str(error)[:200],
                do="Fit the encoding again.",
            ) from error


def _warn_of_unmarked(table: Table, unmarked: Mapping[str, int]) -> None:
    """Warn about missing cells that no feature marks, because training had none."""
    counts = [f"{count} in {quoted(name)}" for name, count in unmarked.items() if count]
    if counts:
        warnings.warn(
            f"{table.source}: cells are missing in columns that were complete in training: "
            f"{few(counts)} (of {len(table)} rows). A missing number counts as the "
            "median of the training data, a missing category as none. Fill in the cells, or train "
            "on a table that has such gaps too.",
            UserWarning,
            stacklevel=3,
        )


def _column(entries: Any) -> EncodedColumn:
    values = dict(entries)
    kind = values.pop("kind")
    if kind not in KINDS:
        raise ValueError(f"a column of kind {quoted(kind)}")
    later = (values.get(name, False) for name in ("decimal_comma", "boolean"))  # not in older files
    flags = (values["indicator"], *later)
    if not all(isinstance(flag, bool) for flag in flags):
        raise TypeError(f"the flags {flags}")
    values["name"] = _text(values["name"])
    if kind == "text":
        return TextColumn.from_dict(values)
    for name in {"median", "mean", "scale"} & set(values):
        values[name] = _number(values[name])
    for name in {"low", "high"} & set(values):
        values[name] = None if values[name] is None else _number(values[name])
    if kind == "numeric" and values["scale"] <= 0:
        raise ValueError(f"scale {values['scale']}")
    if kind == "categorical":
        values["categories"] = tuple(_text(category) for category in values["categories"])
    if kind in ("date", "time"):
        values["parts"] = tuple(values["parts"])
        values["means"] = tuple(map(_number, values["means"]))
        known = set(values["parts"]) <= set(DATE_PARTS if kind == "date" else CLOCK_PARTS)
        if not known or len(values["parts"]) != len(values["means"]):
            raise ValueError(f"the parts {values['parts']} of a {kind}")
    if kind == "date" and values["first"] not in ("", "day", "month"):
        raise ValueError(f"{values['first']} first in a date")
    return KINDS[kind](**values)


def _encoding_name(value: Any) -> str | None:
    name = None if value is None else _text(value)
    check_text_encoding(name)
    return name


def _number(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{number} in place of a number")
    return number


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{quoted(value)} in place of text")
    return value
