"""``dessl fit --teacher``: few gold labels, and the answers of somebody who may be wrong.

RUN/model/        the student, and what takes the teachers' answers if they will answer new rows
RUN/taught.json   how good each teacher is, what was kept and why
"""

import json
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dessl._files import write_whole
from dessl.cli.errors import command
from dessl.cli.fit_folder import (
    FINISHED_ALREADY,
    TAUGHT,
    is_finished,
    mark_finished,
    own_folder,
    put_model,
)
from dessl.cli.output import noted_warnings, say, show, show_json
from dessl.cli.sources import fingerprint, kind_of, training_data
from dessl.cli.stopping import saying
from dessl.data import DataError, SemiData
from dessl.data.formats.answers import read_answers, teacher_columns
from dessl.data.formats.tables import open_table
from dessl.recipes.predictor import TaughtPredictor
from dessl.results.facts import MODEL
from dessl.results.machine import machine_facts
from dessl.saved import SavedModel
from dessl.teachers import Answers, NetworkSetting, Taught, learn_from_answers
from dessl.training.progress import whole_bar

ONLY = {
    "data", "out", "label", "ignore", "categorical", "missing_label", "all_classes", "sheet",
    "teacher", "teacher_at_prediction", "steps", "seed", "device", "resume", "as_json",
}  # fmt: skip
SETTINGS = {"risk": "taught", "lam": 0, "networks": 0, "pool": False}  # of the run's folder


def check_alone(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Refuse options of ``dessl fit`` that have no meaning for a student of a teacher."""
    odd = [name for name, value in options.items() if name not in ONLY and value != defaults[name]]
    if odd:
        named = ", ".join("--" + name.replace("_", "-") for name in odd)
        raise ValueError(
            f"{named} cannot be used with --teacher: answers have a way of their own, and all gold "
            "labels judge it out of fold. Omit it."
        )


def fit_taught(options: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    """Train a student on gold labels and a teacher's answers, and say how good both are."""
    started, out, source = time.perf_counter(), options["out"], options["data"]
    if kind_of(source) != "table":
        raise ValueError("--teacher names columns of a table, but DATA is not one. Omit it.")
    if options["resume"] and is_finished(out, asked, (TAUGHT,), (MODEL,)):
        say(FINISHED_ALREADY.format(out=out))
        _show(out, read_taught(out), as_json=options["as_json"])
        return
    line = f"Interrupted. Nothing was kept; to start over: {command()}"
    with saying(line), noted_warnings() as notes:
        columns = _columns(source, options["teacher"], options["sheet"])
        data = _gold_rows(source, options, columns)
        with own_folder(out, SETTINGS, resume=options["resume"]):
            torch.set_num_threads(1)  # so small a network only waits for a second thread
            steps, listens = options["steps"], bool(options["teacher_at_prediction"])
            setting = NetworkSetting(**{"steps": steps, "student_steps": steps} if steps else {})
            with whole_bar(3, shown=True):
                taught = learn_from_answers(
                    data, at_prediction=listens, seed=options["seed"], setting=setting
                )
            details = {"teachers": columns, "data_sha256": fingerprint(source)}
            put_model(out / MODEL, _saved(taught, data, details))
            entries = {
                "command": command(),
                "report": taught.report.as_dict(),
                "sentences": str(taught.report).splitlines(),
                "seconds": round(time.perf_counter() - started, 2),
                "made_with": machine_facts(),
                "warnings": list(notes),
            }
            write_whole(out / TAUGHT, json.dumps(entries, indent=1, allow_nan=False) + "\n")
            mark_finished(out, asked)
    _show(out, entries, as_json=options["as_json"])


def read_taught(out: Path) -> dict[str, Any]:
    """Read what a run with teachers found.

    Raises:
        DataError: The file is damaged.
    """
    place = out / TAUGHT
    try:
        found = json.loads(place.read_bytes())
        if all(isinstance(line, str) for line in found["sentences"]):
            return dict(found)
    except (ValueError, RecursionError, LookupError, TypeError):
        pass
    raise DataError.of(
        place,
        expected="what a run with teachers found, as JSON",
        got="something else",
        do="Remove it and run the command again.",
    )


def answers_to(model: SavedModel, source: str, *, sheet: str | None = None) -> list[Answers] | None:
    """Read the teachers' answers to new rows, for a model that takes them; None for the student."""
    if not isinstance(model.model, TaughtPredictor) or model.model.taught.listening is None:
        return None
    table, columns = open_table(source, sheet=sheet), model.details["teachers"]
    absent = [one for names in columns.values() for one in names if one not in table.columns]
    if absent:
        say(f"Note: {source} has no column {absent[0]!r}: the student answers without its teacher.")
        return None
    missing = () if model.encoding is None else model.encoding.missing_labels
    return _answers(read_answers(table, columns, model.class_names, missing), model.class_names)


def probabilities(model: SavedModel, source: str, x: Tensor, *, sheet: str | None = None) -> Tensor:
    """Return probabilities (n, classes) of rows of DATA, with its teachers' answers if it can."""
    return model.predict_proba(x, answers_to(model, source, sheet=sheet))


def _answers(read: Mapping[str, Any], class_names: Sequence[str]) -> list[Answers]:
    return [Answers.of(values, class_names, name=name) for name, values in read.items()]


def _columns(source: str, names: Sequence[str], sheet: str | None) -> dict[str, list[str]]:
    table = open_table(source, sheet=sheet)
    known = [*table.columns, *table.unread]
    return {name: list(teacher_columns(known, name, source)) for name in names}


def _gold_rows(
    source: str, options: Mapping[str, Any], columns: Mapping[str, Sequence[str]]
) -> SemiData:
    """The rows without their teachers' columns, and the teachers' answers beside them."""
    data = training_data(
        source,
        label=options["label"],
        ignore=[*(options["ignore"] or ()), *(one for names in columns.values() for one in names)],
        categorical=options["categorical"] or (),
        missing_labels=options["missing_label"] or (),
        all_classes=options["all_classes"],
        sheet=options["sheet"],
    )
    missing = () if data.encoding is None else data.encoding.missing_labels
    table = open_table(source, sheet=options["sheet"])
    read = read_answers(table, columns, data.class_names, missing)
    data.teachers = read
    return data


def _saved(taught: Taught, data: SemiData, details: dict[str, Any]) -> SavedModel:
    return SavedModel(
        TaughtPredictor(taught),
        taught.class_names,
        tuple(data.x.shape[1:]),
        image=False,
        encoding=data.encoding,
        details=details,
    )


def _show(out: Path, entries: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        show_json(entries)
        return
    for sentence in entries["sentences"]:
        show(sentence)
    show(f"Model: {out / MODEL}")
    show(f"Next:  dessl predict {shlex.quote(str(out))} DATA --out predictions.csv")
