"""Record: what one run gave, as one JSON file, and the folder of an experiment's records.

OUT/experiment.json    what was run: the experiment as its profile has it
OUT/runs/KEY.json      one for each run, written when it has finished
OUT/training/          checkpoints of what has not
"""

import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from dessl._entries import Measured, Numbers, read_as
from dessl._files import write_whole
from dessl.data import DataError
from dessl.experiments.specification import Experiment
from dessl.training import Event

EXPERIMENT, RUNS, TRAINING = "experiment.json", "runs", "training"
WORDS = ("title", "paper", "targets", "metrics", "notes")  # of an experiment: none changes a run
EVENTS = 50  # most of a history that a record keeps


@dataclass(frozen=True)
class Record:
    """One run: what it was, how it went, and what came of it.

    Attributes:
        experiment: Name.
        profile: One of the profiles.
        key: Of the cell, unique in an experiment.
        data: Name of the data set, which says where it is rebuilt or made up.
        labels: Labels that were drawn, validation included.
        method: Name of the method.
        title: Its title.
        risk: What was minimised.
        lam: λ.
        seed: Of the split.
        settings: All there is to know to run it again.
        metrics: On the test set, by name; per-class accuracies and the reliability diagram too.
        arrays: Curves of experiments that give some.
        history: Evaluations during the run, thinned to ``EVENTS``.
        training: Selected step, steps done, mode, seconds (a run's share, where several were
            trained at once), runs that were, and whether the run diverged.
        made_with: Versions, machine and commit.
    """

    experiment: str
    profile: str
    key: str
    data: str
    labels: int
    method: str
    title: str
    risk: str
    lam: float
    seed: int
    settings: dict[str, Any]
    metrics: dict[str, Numbers]
    training: dict[str, Any]
    made_with: dict[str, Any]
    arrays: dict[str, Numbers] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def from_dict(cls, entries: Any, source: Path) -> Self:
        """Read one back.

        Raises:
            DataError: It is no record.
        """
        known = {one.name for one in dataclasses.fields(cls)}
        if not isinstance(entries, dict) or not set(entries) <= known:
            raise _damaged(source, "other entries than a record's")
        try:
            record = read_as(cls, entries)
            _check_free_entries(record)
        except TypeError as error:
            raise _damaged(source, str(error)) from error
        return record


@dataclass(frozen=True)
class _Shown:
    """What is shown of a record's entries whose names are free."""

    data: dict[str, Any]
    steps: int
    seconds: float
    evaluated_at: list[int]
    validation: list[dict[str, Measured]]


def _check_free_entries(record: Record) -> None:
    training, history = record.training, record.history
    shown = {
        "data": record.settings.get("data") or {},
        "steps": training.get("steps") or 0,
        "seconds": training.get("seconds") or 0,
        "evaluated_at": [event.get("step") for event in history],
        "validation": [event.get("validation") or {} for event in history],
    }
    read_as(_Shown, shown)


def write_record(out: Path, record: Record) -> None:
    """Write a record, whole or not at all."""
    text = json.dumps(dataclasses.asdict(record), indent=1, allow_nan=False, ensure_ascii=False)
    write_whole(out / RUNS / f"{record.key}.json", text + "\n")


def read_records(out: Path) -> list[Record]:
    """Every record in a folder, by name.

    Raises:
        DataError: A file is no record, or a copy of another.
    """
    records = []
    for file in sorted((out / RUNS).glob("*.json")):
        record = Record.from_dict(_json(file), file)
        if record.key != file.stem:  # a copy would count as one more split
            raise _damaged(file, f"that of {record.key!r}")
        records.append(record)
    return records


def finished(out: Path) -> list[Record]:
    """The records of a folder's experiment.

    Raises:
        DataError: A file is no record of this experiment, or runs differ in what data they had.
    """
    experiment, records = read_experiment(out), read_records(out)
    wanted = experiment["name"], experiment.get("profile")
    for record in records:
        if (record.experiment, record.profile) != wanted:
            raise DataError.of(
                out / RUNS / f"{record.key}.json",
                expected="a run of {!r} at profile {!r}".format(*wanted),
                got=f"one of {record.experiment!r} at profile {record.profile!r}",
                do="Move it to the folder of its own experiment.",
            )
    for asked in {_asked(record) for record in records}:
        one_data_set(out, asked, data_names(records, asked))
    return records


def data_names(records: Iterable[Record], asked: str) -> set[str]:
    """What was found as the data set of a name in the experiment, in all runs on it."""
    return {record.data for record in records if _asked(record) == asked}


def one_data_set(out: Path, asked: str, found: Iterable[str]) -> None:
    """Refuse runs some of which had made-up or rebuilt rows, and others not."""
    names = sorted(set(found))
    if len(names) > 1:
        raise DataError.of(
            out,
            expected=f"one data set as {asked!r} in all runs",
            got=" and ".join(names),
            do=f"Remove the runs on one of them from {RUNS}/, or choose another --out.",
        )


def read_experiment(out: Path) -> dict[str, Any]:
    """What was run in a folder: :meth:`Experiment.as_dict`'s entries.

    Raises:
        DataError: It is no folder of an experiment.
    """
    path = out / EXPERIMENT
    if not path.is_file():
        raise DataError.of(
            out,
            expected=f"the folder of an experiment, with {EXPERIMENT}",
            got="none",
            do="Give the folder that dessl reproduce wrote.",
        )
    entries = _json(path)
    try:
        read_as(Experiment, entries)
    except TypeError as error:
        raise _damaged(path, str(error), "an experiment") from error
    return dict(entries)


def begin(out: Path, experiment: Experiment, *, resume: bool) -> None:
    """Make the folder ready, refusing one that holds other results.

    Raises:
        DataError: It holds results of other settings, or any where ``resume`` is False, or what is
            no experiment's.
    """
    new = json.loads(json.dumps(experiment.as_dict()))
    if (out / EXPERIMENT).is_file():
        old = read_experiment(out)
        if not resume:
            raise DataError.of(
                out,
                expected="no results yet, as resume is off",
                got=f"those of {old['name']!r}",
                do="Choose another --out, or go on with --resume.",
            )
        free = ("seeds", "population", *WORDS)
        other = [key for key in new if key not in free and new[key] != old.get(key)]
        if other:
            raise DataError.of(
                out,
                expected=f"results of {experiment.name!r} at profile {experiment.profile!r}",
                got=f"other settings: {', '.join(other)}",
                do="Choose another --out.",
            )
        new["seeds"] = max(new["seeds"], old.get("seeds", 1))
        new["notes"] = old.get("notes", new["notes"])  # what was said of those runs
    elif theirs := _visible(out):
        raise DataError.of(
            out,
            expected=f"an empty folder, or one of results, with {EXPERIMENT}",
            got=f"one that holds {', '.join(map(repr, theirs[:3]))}{', …' * (len(theirs) > 3)}",
            do="Choose another --out.",
        )
    write_whole(out / EXPERIMENT, json.dumps(new, indent=1, ensure_ascii=False) + "\n")


def _visible(folder: Path) -> list[str]:
    """What a folder holds that is not hidden, as a file is that a killed process left half."""
    if not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def thinned(history: Sequence[Event]) -> list[dict[str, Any]]:
    """At most ``EVENTS`` of a history, evenly spaced, the last among them."""
    n = len(history)
    chosen: Iterable[int] = range(n)
    if n > EVENTS:
        chosen = sorted({round((k + 1) * n / EVENTS) - 1 for k in range(EVENTS)})
    return [json.loads(history[k].as_line()) for k in chosen]


def _asked(record: Record) -> str:
    setting = record.settings.get("data")
    return str(setting.get("name", record.data)) if isinstance(setting, dict) else record.data


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _damaged(path, str(error)[:200]) from error


def _damaged(path: Path, why: str, what: str = "a run") -> DataError:
    return DataError.of(
        path, expected=f"JSON of {what}", got=why, do="The file is damaged: remove it, run again."
    )
