"""The folder of an experiment: what was run in it, and whether its records belong together.

OUT/experiment.json    what was run: the experiment as its profile has it
OUT/runs/KEY.json      one for each run, written when it has finished
OUT/training/          checkpoints of what has not
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dessl._entries import read_as
from dessl._files import write_whole
from dessl.data import DataError
from dessl.data.errors import few
from dessl.results.record import RUNS, Record, damaged, read_json, read_records
from dessl_paper.specification import Experiment

EXPERIMENT, TRAINING = "experiment.json", "training"
WORDS = ("title", "paper", "targets", "metrics", "notes")  # of an experiment: none changes a run


def begin(out: Path, experiment: Experiment, *, resume: bool) -> None:
    """Make the folder ready, refusing one that holds other results.

    Raises:
        DataError: As :func:`entries_to_write` does.
    """
    new = entries_to_write(out, experiment, resume=resume)
    write_whole(out / EXPERIMENT, json.dumps(new, indent=1, ensure_ascii=False) + "\n")


def entries_to_write(out: Path, experiment: Experiment, *, resume: bool) -> dict[str, Any]:
    """What the folder's file is to say: of the experiment, and of the runs that are there.

    Raises:
        DataError: It holds results of other settings, or any where ``resume`` is False, or what is
            no experiment's.
    """
    new: dict[str, Any] = json.loads(json.dumps(experiment.as_dict()))
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
            got=f"one that holds {few([repr(name) for name in theirs], most=3)}",
            do="Choose another --out.",
        )
    return new


def _visible(folder: Path) -> list[str]:
    """What a folder holds that is not hidden, as a file is that a killed process left half."""
    if not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


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
    entries = read_json(path)
    try:
        read_as(Experiment, entries)
    except TypeError as error:
        raise damaged(path, str(error), "an experiment") from error
    return dict(entries)


def finished(out: Path) -> list[Record]:
    """The records of a folder's experiment.

    Raises:
        DataError: A file is no record of this experiment, or runs of one method differ in what
            data they had, or in how they were trained.
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
    _check_alike(out, records)
    return records


def _check_alike(out: Path, records: Iterable[Record]) -> None:
    """Refuse runs of one method whose settings differ in more than the split and λ."""
    first: dict[str, Record] = {}
    for record in records:
        same = first.setdefault(f"{record.method} {record.settings.get('data')}", record)
        for part in sorted(record.settings.keys() & same.settings.keys()):
            if said := _difference(record.settings[part], same.settings[part]):
                raise DataError.of(
                    out / RUNS / f"{record.key}.json",
                    expected=f"the {part} of {same.key!r}, a run of the same method",
                    got=said,
                    do="Remove the run that does not belong here, or run the experiment anew.",
                )


def _difference(own: Any, other: Any) -> str | None:
    """What is not the same in settings that both have; older runs may lack some."""
    if not (isinstance(own, dict) and isinstance(other, dict)):
        return None if own == other else f"{own!r}, not {other!r}"
    for name in sorted((own.keys() & other.keys()) - {"seed", "lam"}):
        if own[name] != other[name]:
            return f"{name} = {own[name]!r}, not {other[name]!r}"
    return None


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


def _asked(record: Record) -> str:
    setting = record.settings.get("data")
    return str(setting.get("name", record.data)) if isinstance(setting, dict) else record.data
