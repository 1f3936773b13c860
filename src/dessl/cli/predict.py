"""``dessl predict``: predict new rows with a run's model and write them to a file."""

import csv
import io
from pathlib import Path
from typing import Annotated

import typer
from torch import Tensor

from dessl._files import write_whole
from dessl.cli.fit_folder import aside_of
from dessl.cli.options import AsJson, DataArgument, RunFolder, Sheet
from dessl.cli.output import noted_warnings, show, show_json
from dessl.cli.sources import Expected, new_rows
from dessl.data import DataError
from dessl.results.facts import MODEL, TWIN
from dessl.saved import SavedModel, load_model

Twin = Annotated[
    bool, typer.Option("--complete-case", help="Use the model trained on labelled rows only.")
]
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how a cell begins that spreadsheets run


def predict(
    run: RunFolder,
    data: DataArgument,
    out: Annotated[Path, typer.Option(help="Write the predictions to this .csv or .parquet file.")],
    sheet: Sheet = None,
    complete_case: Twin = False,
    as_json: AsJson = False,
) -> None:
    """Predict the class of each row, with the probability of every class.

    Example: dessl predict runs/people new.csv --out predictions.csv
    """
    if out.suffix.lower() not in (".csv", ".parquet"):
        raise ValueError(f"--out must end in .csv or .parquet; got {out}.")
    if out.resolve() == Path(data).resolve():
        raise ValueError(
            f"--out {out} is DATA itself and would be overwritten. Choose another file."
        )
    model = run_model(run, complete_case=complete_case)
    with noted_warnings():
        rows, names = new_rows(data, Expected.of(model), labels=False, sheet=sheet)
    probabilities = model.predict_proba(rows.x)
    columns = _columns(names, probabilities, model.class_names)
    content = _csv(columns) if out.suffix.lower() == ".csv" else _parquet(columns)
    write_whole(out, content)
    counts = probabilities.argmax(1).bincount(minlength=len(model.class_names)).tolist()
    if as_json:
        named = dict(zip(model.class_names, counts, strict=True))
        show_json({"predictions": str(out), "rows": len(names), "predicted": named})
        return
    for name, count in zip(model.class_names, counts, strict=True):
        show(f"{name}: {count}")
    show(f"Predictions: {out}")


def run_model(run: Path, *, complete_case: bool) -> SavedModel:
    """Load a run's model, or its complete-case twin.

    Raises:
        DataError: The folder does not contain a finished run.
    """
    place = run / (TWIN if complete_case else MODEL)
    if not place.exists() and aside_of(place).is_dir():  # killed while it was being replaced
        place = aside_of(place)
    try:
        return load_model(place)
    except FileNotFoundError as error:
        raise DataError.of(
            run,
            expected="the folder of a finished run",
            got="no model" if run.is_dir() else "no such folder",
            do="Pass the folder given to dessl fit as --out.",
        ) from error


def _columns(
    names: tuple[str, ...], probabilities: Tensor, class_names: tuple[str, ...]
) -> dict[str, list[object]]:
    best = probabilities.argmax(1).tolist()
    columns: dict[str, list[object]] = {
        "row": list(names),
        "prediction": [class_names[number] for number in best],
    }
    for number, name in enumerate(class_names):
        columns[f"p({name})"] = probabilities[:, number].tolist()
    return columns


def _csv(columns: dict[str, list[object]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(map(_harmless, columns))
    for row in zip(*columns.values(), strict=True):
        writer.writerow(map(_harmless, row))
    return buffer.getvalue()


def _harmless(cell: object) -> object:
    """A cell that no spreadsheet runs as a formula: such a text gets an apostrophe before it.

    >>> [_harmless(cell) for cell in ("=1+1", "@sum", "-1", "+4.5e3", "benign", 0.25)]
    ["'=1+1", "'@sum", '-1', '+4.5e3', 'benign', 0.25]
    """
    if not isinstance(cell, str) or not cell.startswith(FORMULA):
        return cell
    try:
        float(cell)  # a number: a class such as -1 stays what it is
    except ValueError:
        return f"'{cell}"
    return cell


def _parquet(columns: dict[str, list[object]]) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    buffer = io.BytesIO()
    parquet.write_table(pa.table(columns), buffer)
    return buffer.getvalue()
