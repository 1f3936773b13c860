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
from dessl.cli.options import Reading
from dessl.cli.output import noted_warnings, say, show_run
from dessl.cli.sources import check_labels_file, kind_of, training_data
from dessl.data import SemiData
from dessl.data.formats.answers import in_rows_of, read_answers, teacher_columns
from dessl.data.formats.columns import as_text
from dessl.data.formats.tables import Table, open_table
from dessl.recipes.predictor import TaughtPredictor
from dessl.report.page import write_report
from dessl.results.facts import MODEL, REPORT, TRAINING, write_facts
from dessl.results.taught import taught_facts
from dessl.safety import audit
from dessl.saved import SavedModel
from dessl.teachers import Answers, NetworkSetting, Taught, learn_from_answers
from dessl.teachers.answers import warn_of_chance
from dessl.teachers.refused import refused_groups, refused_propensity
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
        words = ("--propensity", "--teacher", "dessl evaluate --propensity")
        raise ValueError(refused_propensity(*words))
    if "group" in odd:
        raise ValueError(refused_groups("--group", "--teacher", "dessl evaluate --group"))
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
        columns = _columns(file, options["teacher"], Reading.typed_in(options))
        _check_apart(columns, options)
        data = _gold_rows(source, options, columns)
        found = audit(data, cheap=True, propensities=False, seed=options["seed"])
        with own_folder(out, SETTINGS, resume=options["resume"], identity=identity):
            taught = _taught(data, options, out / TRAINING)
            sha256 = identity["files"][source]
            details = {"teachers": columns, "data_sha256": sha256}
            if options["other_answers"]:
                details["other_answers"] = options["other_answers"]
            if data.encoding is None:  # otherwise it has them
                details["missing_labels"] = list(options["missing_label"] or ())
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
            f"files, but {source} has no such table. Put the answers in one, or omit --teacher. "
            "For images, save the vectors of a pretrained model as .npy, and pass those."
        )
    if kind == "table" and labels is not None:
        raise ValueError(
            "--labels cannot be used with --teacher on a table: all its gold labels are used. "
            "Omit it."
        )
    if kind == "table":
        return str(source)
    check_labels_file(source, kind, labels)
    return str(labels)


def _taught(data: SemiData, options: Mapping[str, Any], out: Path) -> Taught:
    steps, listens = options["steps"], bool(options["teacher_at_prediction"])
    setting = NetworkSetting(**{"steps": steps, "student_steps": steps} if steps else {})
    with whole_bar(3, shown=True, every=True):
        return learn_from_answers(
            data, at_prediction=listens, seed=options["seed"], setting=setting, out=out
        )


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
    table = open_table(_answers_file(options), **Reading.typed_in(options).options)
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
        reading=Reading.typed_in(options),
    )
    given = tuple(options["missing_label"] or ())
    missing = given if data.encoding is None else data.encoding.missing_labels
    read = read_answers(
        table, columns, data.class_names, missing, fitting=True,
        other_answers=options["other_answers"],
    )  # fmt: skip
    if embedded:
        read = in_rows_of(table, read, len(data))
    else:
        _note_other_answers(table, data, options["label"])
    data.teachers = {
        name: Answers.of(answers, data.class_names, name=name) for name, answers in read.items()
    }
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


def _saved(taught: Taught, data: SemiData, details: dict[str, Any]) -> SavedModel:
    return SavedModel(
        TaughtPredictor(taught),
        taught.class_names,
        tuple(data.x.shape[1:]),
        image=False,
        encoding=data.encoding,
        details=details,
    )
