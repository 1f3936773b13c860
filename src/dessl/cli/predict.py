"""``dessl predict``: predict new rows with a run's model; write CSV, Parquet or JSON lines.

A spreadsheet runs a CSV cell as a formula if it begins with one of = + - @ or a control character.
Such a text gets an apostrophe in front, and so does one that already has apostrophes before such a
character. Numbers stay as they are. To undo it, remove one apostrophe wherever apostrophes come
before such a character. Parquet and JSON lines keep every cell as it is.
"""

import csv
import io
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dessl._files import write_whole
from dessl.cli.options import (
    AsJson,
    Encoding,
    Missing,
    OtherAnswers,
    Reading,
    RunFolder,
    Sheet,
    SkipDamaged,
)
from dessl.cli.output import noted_warnings, say, show, show_json

if TYPE_CHECKING:
    from torch import Tensor

    from dessl.saved import SavedModel

FORMATS = (".csv", ".parquet", ".jsonl", ".ndjson")
FORMULA = re.compile("'*[=+\\-@\t\r\n\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}"
                     "\N{FULLWIDTH HYPHEN-MINUS}\N{FULLWIDTH COMMERCIAL AT}]")  # fmt: skip
OURS = ("row", "prediction", "confidence")  # columns, before one of probabilities for each class
Twin = Annotated[
    bool, typer.Option("--complete-case", help="Use the model trained on labelled rows only.")
]
NewData = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A table, an .npz file or a folder of images, like the training data; '-' for a "
        "table on standard input (CSV or Parquet).",
    ),
]
Out = Annotated[
    Path,
    typer.Option(
        help="Write to this .csv, .parquet or .jsonl file; '-' for CSV on standard output."
    ),
]
AnswersFile = Annotated[
    str | None,
    typer.Option(
        "--answers",
        metavar="FILE",
        help="Table with the teachers' answers to the rows of .npy files, for a model that was "
        "fitted with --teacher-at-prediction. In a table, they are columns of DATA.",
    ),
]
Keep = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN,...", help="Columns of DATA to keep; repeatable."),
]
KeepAll = Annotated[bool, typer.Option("--keep-all", help="Keep all columns of DATA.")]
AtLeast = Annotated[
    float,
    typer.Option(min=0, max=1, help="Leave predictions below this confidence empty."),
]
Formulas = Annotated[
    bool,
    typer.Option(
        "--formulas",
        help="Do not escape CSV cells that a spreadsheet would run as formulas. By default, they "
        "get a leading apostrophe.",
    ),
]


def predict(
    run: RunFolder,
    data: NewData,
    out: Out,
    keep: Keep = None,
    keep_all: KeepAll = False,
    at_least: AtLeast = 0.0,
    sheet: Sheet = None,
    encoding: Encoding = None,
    missing: Missing = None,
    skip_damaged: SkipDamaged = False,
    answers: AnswersFile = None,
    other_answers: OtherAnswers = None,
    complete_case: Twin = False,
    formulas: Formulas = False,
    as_json: AsJson = False,
) -> None:
    """Predict the class of each row, with the probability of every class.

    The confidence is the probability of the predicted class.

    Example: dessl predict runs/people new.csv --out predictions.csv

    Example: dessl predict runs/people new.csv --keep id,name --at-least 0.9 --out sure.csv

    Example: cat new.csv | dessl predict runs/people - --keep-all --out predictions.jsonl
    """
    check_format(out)
    if out.resolve() == Path(data).resolve() and data != "-":
        raise ValueError(
            f"--out {out} is DATA itself and would be overwritten. Choose another file."
        )
    model = run_model(run, complete_case=complete_case)
    with noted_warnings(), _file_of(data) as source:
        reading = Reading.of(sheet, encoding, missing)
        kept = _kept_columns(
            source,
            keep or (),
            every=keep_all,
            taken=_our_names(model),
            reading=reading.like(model.encoding, source),
        )
        names, probabilities = _predicted(
            model, source, reading, answers, other_answers, skip_damaged
        )
    columns = kept | _columns(names, probabilities, model.class_names, at_least)
    content = file_content(out, columns, harmless=not formulas)
    if str(out) == "-":
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
    else:
        write_whole(out, content)
    _show_counts(out, columns["prediction"], model.class_names, as_json=as_json)


def _show_counts(
    out: Path, predicted: Sequence[str | None], class_names: tuple[str, ...], *, as_json: bool
) -> None:
    counts = {name: predicted.count(name) for name in class_names}
    unsure = predicted.count(None)
    on_stdout = str(out) == "-"  # taken by the predictions: the counts go to stderr
    if as_json and not on_stdout:
        entries = {"predictions": str(out), "rows": len(predicted), "predicted": counts}
        show_json(entries | {"abstained": unsure})
        return
    print_line = say if on_stdout else show
    for name, count in counts.items():
        print_line(f"{name}: {count}")
    if unsure:
        print_line(f"No prediction (confidence below --at-least): {unsure}")
    if not on_stdout:
        show(f"Predictions: {out}")


@contextmanager
def _file_of(data: str) -> Iterator[str]:
    """The file to read: DATA, or standard input."""
    from dessl.data import DataError

    if data != "-":
        yield data
        return
    content = sys.stdin.buffer.read()
    with tempfile.TemporaryDirectory() as folder:
        suffix = ".parquet" if content.startswith(b"PAR1") else ".csv"
        place = Path(folder, f"input{suffix}")
        place.write_bytes(content)
        try:
            yield str(place)
        except DataError as error:
            raise DataError(str(error).replace(str(place), "standard input")) from error


def _our_names(model: "SavedModel") -> tuple[str, ...]:
    return (*OURS, *(f"p({name})" for name in model.class_names))


def _kept_columns(
    source: str, wanted: Sequence[str], *, every: bool, taken: Sequence[str], reading: Reading
) -> dict[str, Any]:
    """The columns of DATA to keep, unchanged."""
    if not wanted and not every:
        return {}
    from dessl._checks import quoted
    from dessl.cli.sources import kind_of
    from dessl.data import DataError
    from dessl.data.errors import did_you_mean, few
    from dessl.data.formats.tables import arrow_table

    if kind_of(source) != "table":
        raise ValueError("--keep and --keep-all are for a table, but DATA is not one. Omit them.")
    table = arrow_table(source, sheet=reading.sheet, text_encoding=reading.text_encoding)
    names: list[str] = table.column_names if every else []
    for entry in wanted:
        names += [entry] if entry in table.column_names else entry.split(",")
    names = list(dict.fromkeys(names))
    for name in names:
        if name not in table.column_names:
            raise DataError.of(
                source,
                expected=f"a column {quoted(name)} to keep",
                got=few([quoted(other) for other in table.column_names], most=20),
                do=did_you_mean(name, table.column_names) or "Check the name.",
            )
    if both := [name for name in names if name in taken]:
        raise ValueError(
            f"the predictions have their own column {quoted(both[0])}. Rename the column in DATA, "
            "or choose the columns to keep with --keep."
        )
    return {name: table[name] for name in names}


def _predicted(
    model: "SavedModel",
    source: str,
    reading: Reading,
    answers: str | None,
    other_answers: str | None,
    skip_damaged: bool,
) -> "tuple[tuple[str, ...] | tuple[int, ...], Tensor]":
    """The names or numbers of all rows, and their probabilities."""
    from dessl.cli.new_answers import check_listens, probabilities
    from dessl.cli.new_rows import Expected, new_rows
    from dessl.cli.sources import kind_of

    if answers is not None and kind_of(source) != "npy":
        raise ValueError(
            "--answers is for .npy files: the answers to the rows of a table are its columns. "
            "Omit it."
        )
    if answers is not None:
        check_listens(model)
    rows, names = new_rows(
        source, Expected.of(model), labels=False, reading=reading, skip_damaged=skip_damaged
    )
    p = probabilities(
        model, source, rows.x, file=answers, reading=reading, other_answers=other_answers
    )
    return names, p


def _columns(
    names: tuple[str, ...] | tuple[int, ...],
    probabilities: "Tensor",
    class_names: tuple[str, ...],
    at_least: float,
) -> dict[str, Any]:
    confidence, best = probabilities.max(1)
    columns: dict[str, Any] = {
        "row": list(names),
        "prediction": [
            class_names[number] if sure >= at_least else None
            for number, sure in zip(best.tolist(), confidence.tolist(), strict=True)
        ],
        "confidence": confidence.tolist(),
    }
    for number, name in enumerate(class_names):
        columns[f"p({name})"] = probabilities[:, number].tolist()
    return columns


def run_model(run: Path, *, complete_case: bool) -> "SavedModel":
    """Load a run's model, or its twin; or a model that ``DeSSLClassifier.save`` wrote.

    Raises:
        DataError: The folder does not contain a finished run.
    """
    from dessl.cli.fit_folder import check_not_unfinished, old_model_place
    from dessl.data import DataError
    from dessl.results.facts import MODEL, TWIN
    from dessl.saved import SETTINGS, load_model

    place = run / (TWIN if complete_case else MODEL)
    if not complete_case and (run / SETTINGS).is_file():  # the folder of a model itself
        place = run
    if not place.exists() and old_model_place(place).is_dir():  # killed while it was being replaced
        place = old_model_place(place)
    try:
        return load_model(place)
    except FileNotFoundError as error:
        check_not_unfinished(run)
        if complete_case and any((run / name).exists() for name in (MODEL, SETTINGS)):
            raise DataError.of(
                run,
                expected="a run with a complete case",
                got="a model without one, as dessl fit --teacher and DeSSLClassifier.save write",
                do="Omit this option. To compare with a model of the labels alone, run dessl fit "
                "without --teacher, and pass that folder to dessl evaluate --against.",
            ) from error
        raise DataError.of(
            run,
            expected="the folder of a finished run",
            got="no model" if run.is_dir() else "no such folder",
            do="Pass the folder given to dessl fit as --out.",
        ) from error


def file_content(out: Path, columns: dict[str, Any], *, harmless: bool = True) -> bytes:
    """Return the columns in the format that the file's extension names.

    Args:
        out: The file; ``-`` is CSV.
        columns: By name; each an Arrow array or a list, None for an empty cell.
        harmless: Whether to defuse CSV cells that a spreadsheet would run as a formula.
    """
    suffix = out.suffix.lower()
    if suffix == ".parquet":
        return _parquet(columns)
    lists = {name: _listed(column) for name, column in columns.items()}
    text = _csv(lists, harmless) if suffix in (".csv", "") else _json_lines(lists)
    return text.encode()


def check_format(out: Path) -> None:
    """Refuse a file name with an unknown extension."""
    if str(out) != "-" and out.suffix.lower() not in FORMATS:
        raise ValueError(
            f"--out must end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}; got {out}."
        )


def without_formula(cell: object) -> object:
    """Return a cell that no spreadsheet runs as a formula.

    >>> [without_formula(cell) for cell in ("=1+1", "@sum", "-1", "+4.5e3", "benign", 0.25)]
    ["'=1+1", "'@sum", '-1', '+4.5e3', 'benign', 0.25]
    """
    if not isinstance(cell, str) or not FORMULA.match(cell):
        return cell
    try:
        float(cell)  # a number: a class such as -1 stays what it is
    except ValueError:
        return f"'{cell}"
    return cell


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
