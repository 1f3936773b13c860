"""``dessl fit --teacher``: few gold labels, and answers from a source that may be wrong.

RUN/model/        the student, and the model of the teachers' answers if they also answer new rows
RUN/facts.json    how good each teacher is, what was kept and why; shown in RUN/report.html
RUN/training/     checkpoints, used to resume a killed run
"""

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from dessl._checks import quoted
from dessl.cli.errors import command, resumable
from dessl.cli.fit_folder import (
    FINISHED_ALREADY,
    check_same_run,
    drop_large_checkpoints,
    finished_facts,
    mark_finished,
    naming_options,
    own_folder,
    put_model,
)
from dessl.cli.options import AS_IT_IS, Reading
from dessl.cli.output import noted_warnings, say, show_run
from dessl.cli.sources import check_labels_file, kind_of, training_data
from dessl.data import SemiData
from dessl.data.errors import DataError, few
from dessl.data.formats.answers import probability_columns, read_answers, teacher_columns
from dessl.data.formats.columns import as_text
from dessl.data.formats.npy import row_places
from dessl.data.formats.tables import Table, open_table
from dessl.recipes.predictor import TaughtPredictor
from dessl.report.page import write_report
from dessl.results.facts import MODEL, REPORT, TRAINING, write_facts
from dessl.results.taught import taught_facts
from dessl.safety import audit
from dessl.saved import SavedModel
from dessl.teachers import Answers, NetworkSetting, Taught, learn_from_answers
from dessl.teachers.answers import answered_by_any, warn_of_chance
from dessl.training.progress import whole_bar

ONLY = {
    "data", "out", "label", "labels", "ignore", "categorical", "missing_label", "all_classes",
    "sheet", "encoding", "missing", "teacher", "teacher_at_prediction", "other_answers", "steps",
    "seed", "device", "resume", "as_json",
}  # fmt: skip
SETTINGS = {"risk": "taught", "lam": 0, "networks": 0, "pool": False}  # of the run's folder


def check_alone(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Refuse options of ``dessl fit`` that do not apply with ``--teacher``."""
    odd = [name for name, value in options.items() if name not in ONLY and value != defaults[name]]
    if "propensity" in odd:
        raise ValueError(
            "--propensity cannot be used with --teacher: the student and its evaluation need gold "
            "labels drawn at random from all rows. Without that, the results are biased, also if "
            "you omit --propensity. Draw gold labels at random; or fit without --teacher; or, for "
            "an unbiased evaluation of this student, run dessl evaluate --propensity on rows that "
            "it was not trained on."
        )
    if odd:
        named = ", ".join("--" + name.replace("_", "-") for name in odd)
        raise ValueError(
            f"{named} cannot be used with --teacher: a student has its own training procedure and "
            "is evaluated on all gold labels by cross-fitting. Omit it."
        )


def fit_taught(options: Mapping[str, Any], identity: Mapping[str, Any]) -> None:
    """Train a student on gold labels and a teacher's answers, and report how good both are."""
    started, out, source = time.perf_counter(), options["out"], options["data"]
    file = _answers_file(options)
    if options["resume"] and (before := finished_facts(out, identity, (MODEL,))):
        say(FINISHED_ALREADY.format(out=out))
        show_run(out, before, as_json=options["as_json"])
        return
    if options["resume"]:
        check_same_run(out, identity)
    with resumable(out), naming_options(out, identity), noted_warnings() as notes:
        columns = _columns(file, options["teacher"], _reading(options))
        _check_apart(columns, options)
        data = _gold_rows(source, options, columns)
        found = audit(data, cheap=True, propensities=False, seed=options["seed"])
        with own_folder(out, SETTINGS, resume=options["resume"], identity=identity):
            taught = _taught(data, options, out / TRAINING)
            sha256 = identity["files"][source]
            details = {"teachers": columns, "data_sha256": sha256}
            if options["other_answers"]:
                details["other_answers"] = options["other_answers"]
            put_model(out / MODEL, _saved(taught, data, details))
            facts = taught_facts(
                taught,
                data,
                command=command(),
                seconds=time.perf_counter() - started,
                settings={"teachers": columns},
                warnings=tuple(notes),
                seed=options["seed"],
            )
            facts = replace(facts, audit=found)
            write_facts(out, facts)
            write_report(out / REPORT, facts)
            mark_finished(out, identity, (MODEL,))
            drop_large_checkpoints(out)
    show_run(out, facts, as_json=options["as_json"])


def _answers_file(options: Mapping[str, Any]) -> str:
    """The table with gold labels and answers: DATA, or the file of labels of embeddings."""
    source, labels = options["data"], options["labels"]
    kind = kind_of(source)
    if kind not in ("table", "npy") or (kind == "npy" and str(labels).endswith(".npy")):
        raise ValueError(
            "--teacher names columns of a table, or of the table of labels (--labels) of .npy "
            "files, but there is no table. Put the answers in one, or omit --teacher."
        )
    if kind == "table" and labels is not None:
        raise ValueError(
            "--labels cannot be used with --teacher on a table: all its gold labels are used. "
            "Omit it."
        )
    if kind == "table":
        return str(source)
    check_labels_file(source, kind, labels)
    if options["teacher_at_prediction"]:
        raise ValueError(
            "--teacher-at-prediction needs a table: answers to new rows are columns of DATA, and "
            ".npy files have none. Omit it; the student predicts alone."
        )
    return str(labels)


def _taught(data: SemiData, options: Mapping[str, Any], out: Path) -> Taught:
    steps, listens = options["steps"], bool(options["teacher_at_prediction"])
    setting = NetworkSetting(**{"steps": steps, "student_steps": steps} if steps else {})
    with whole_bar(3, shown=True, every=True):
        return learn_from_answers(
            data, at_prediction=listens, seed=options["seed"], setting=setting, out=out
        )


def answers_to(
    model: SavedModel,
    source: str,
    *,
    reading: Reading = AS_IT_IS,
    other_answers: str | None = None,
) -> list[Answers] | None:
    """Read the teachers' answers to new rows, for a model that uses them; None for the student.

    Args:
        model: The model.
        source: A table of new rows.
        reading: How the table is read; what it does not say is as in training.
        other_answers: ``"missing"`` to treat answers that are not a class as no answer; by default
            as in training.
    """
    if not isinstance(model.model, TaughtPredictor) or model.model.taught.listening is None:
        return None
    table = open_table(source, **reading.like(model.encoding, source).options)
    columns = model.details["teachers"]
    absent = _absent(table, columns)
    for name in absent:
        _check_form(table, model, name)
    if len(absent) == len(columns):
        say(f"Note: {source} has no column {absent[0]!r}: the student predicts alone.")
        return None
    columns = {name: own for name, own in columns.items() if name not in absent}
    missing = () if model.encoding is None else model.encoding.missing_labels
    other = other_answers or model.details.get("other_answers")
    cells = read_answers(table, columns, model.class_names, missing, other_answers=other)
    if absent:
        named = few([quoted(name) for name in absent])
        say(f"Note: {source} has no answers of {named}: only those of the other teachers are used.")
    read = _answers(cells, model.class_names)
    answered = answered_by_any(read)
    if bool(answered.all()):
        return read
    silent = f"{int((~answered).sum()):,} of {len(answered):,}"
    say(f"Note: {silent} rows have no answer: the student predicts them alone.")
    return read if bool(answered.any()) else None


def _absent(table: Table, columns: Mapping[str, Sequence[str]]) -> list[str]:
    """The teachers that have none of their columns in the table; some of them are an error."""
    absent = []
    for name, own in columns.items():
        lacking = [one for one in own if one not in table.columns]
        if lacking and len(lacking) < len(own):
            raise DataError.of(
                table.source,
                expected=f"all columns of the probabilities of {quoted(name)}, or none",
                got=f"no column {few([quoted(one) for one in lacking])}",
                do="Add it, or omit the others to predict without this teacher.",
            )
        if lacking:
            absent.append(name)
    return absent


def _check_form(table: Table, model: SavedModel, name: str) -> None:
    """Refuse a table with probabilities of a teacher that gave classes in training, or reversed."""
    own = model.details["teachers"][name]
    classes = list(own) == [name]
    other = [name]
    if classes:
        other = [
            next((one for one in probability_columns(name, c) if one in table.columns), "")
            for c in model.class_names
        ]
    features = set() if model.encoding is None else {one.name for one in model.encoding.columns}
    if any(one not in table.columns or one in features for one in other):
        return
    forms = ["classes", "probabilities"] if classes else ["probabilities", "classes"]
    raise DataError.of(
        table.source,
        expected=f"{forms[0]} of teacher {quoted(name)}, as in training, in "
        f"{few([quoted(one) for one in own])}",
        got=f"{forms[1]} in {few([quoted(one) for one in other])}",
        do=f"Pass {forms[0]}; or remove {few([quoted(one) for one in other])} to predict without "
        "this teacher.",
    )


def probabilities(
    model: SavedModel,
    source: str,
    x: Tensor,
    *,
    reading: Reading = AS_IT_IS,
    other_answers: str | None = None,
) -> Tensor:
    """Return probabilities (n, classes) of DATA, using the teachers' answers if the model does."""
    answers = answers_to(model, source, reading=reading, other_answers=other_answers)
    return model.predict_proba(x, answers)


def _answers(read: Mapping[str, Any], class_names: Sequence[str]) -> list[Answers]:
    return [Answers.of(values, class_names, name=name) for name, values in read.items()]


def _reading(options: Mapping[str, Any]) -> Reading:
    return Reading.of(options["sheet"], options["encoding"], options["missing"])


def _columns(source: str, names: Sequence[str], reading: Reading) -> dict[str, list[str]]:
    table = open_table(source, **reading.options)
    known = [*table.columns, *table.unread]
    return {name: list(teacher_columns(known, name, source)) for name in names}


def _check_apart(columns: Mapping[str, Sequence[str]], options: Mapping[str, Any]) -> None:
    """Refuse a column that is both a teacher's answers and something else."""
    others = {"label": [options["label"]], "categorical": options["categorical"] or []}
    for name, own in columns.items():
        for option, names in others.items():
            if both := [one for one in own if one in names]:
                raise ValueError(
                    f"--teacher {name!r} and --{option} name the same column {both[0]!r}. A "
                    "teacher's answers must be in columns of their own."
                )


def _gold_rows(
    source: str, options: Mapping[str, Any], columns: Mapping[str, Sequence[str]]
) -> SemiData:
    """The rows without the teachers' columns, and the teachers' answers."""
    table = open_table(_answers_file(options), **_reading(options).options)
    embedded = kind_of(source) == "npy"
    teachers = [] if embedded else [one for names in columns.values() for one in names]
    data = training_data(
        source,
        label=options["label"],
        ignore=[*(options["ignore"] or ()), *teachers],
        categorical=options["categorical"] or (),
        missing_labels=options["missing_label"] or (),
        all_classes=options["all_classes"],
        labels=options["labels"],
        reading=_reading(options),
    )
    given = tuple(options["missing_label"] or ())
    missing = given if data.encoding is None else data.encoding.missing_labels
    read = read_answers(
        table, columns, data.class_names, missing, fitting=True,
        other_answers=options["other_answers"],
    )  # fmt: skip
    if embedded:
        read = _in_rows(read, row_places(table, len(data)), len(data))
    else:
        _note_other_answers(table, data, options["label"])
    data.teachers = {one.name: one for one in _answers(read, data.class_names)}
    warn_of_chance(list(data.teachers.values()), data.y)
    return data


def _note_other_answers(table: Table, data: SemiData, label: str) -> None:
    """Point out features that have no values but classes, as the answers of a further teacher."""
    if data.encoding is None:
        return
    classes, marks = set(data.class_names), {"", *data.encoding.missing_labels}
    for name in (one.name for one in data.encoding.columns):
        texts = {*as_text(table.columns[name]).texts.to_pylist()} - marks - {None}
        if len(texts) > 1 and texts <= classes:
            say(
                f"Note: {quoted(name)} is a feature, but has only classes of {quoted(label)}. If "
                f"these are answers of another source, pass --teacher {shlex.quote(name)} or "
                f"--ignore {shlex.quote(name)}: as a feature, new rows need them too."
            )


def _in_rows(read: Mapping[str, Any], places: Any, n_rows: int) -> dict[str, Any]:
    """The answers of a table's lines, in the order of the rows; rows without a line have none."""
    found: dict[str, Any] = {}
    for name, lines in read.items():
        if isinstance(lines, np.ndarray):
            found[name] = np.full((n_rows, lines.shape[1]), np.nan)
            found[name][places] = lines
        else:
            found[name] = [None] * n_rows
            for place, answer in zip(places.tolist(), lines, strict=True):
                found[name][place] = answer
    return found


def _saved(taught: Taught, data: SemiData, details: dict[str, Any]) -> SavedModel:
    return SavedModel(
        TaughtPredictor(taught),
        taught.class_names,
        tuple(data.x.shape[1:]),
        image=False,
        encoding=data.encoding,
        details=details,
    )
