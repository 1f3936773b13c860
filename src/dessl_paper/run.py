"""The runner: train every cell of an experiment that has no record yet, one by one or at once."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import torch

from dessl._entries import read_as
from dessl._files import sweep, write_whole
from dessl.data import DataError
from dessl.data.errors import few
from dessl.results.record import RUNS, read_json, write_record
from dessl.training.folder import LOCK, locked_folder
from dessl_paper.kinds import kind_of
from dessl_paper.results import (
    EXPERIMENT,
    TRAINING,
    data_names,
    finished,
    one_data_set,
    read_experiment,
)
from dessl_paper.sources import experiment_data
from dessl_paper.specification import Cell, Experiment, cells_of, common_name, populations

CELLS = "cells.json"  # in a training's folder: the cells that it is of
Notice = Callable[[str, int, int], None]

WORDS = ("title", "paper", "targets", "metrics", "notes")  # entries that change no run


def run_experiment(
    experiment: Experiment,
    out: Path,
    *,
    device: torch.device | str = "cpu",
    resume: bool = True,
    progress: bool = True,
    notice: Notice | None = None,
) -> None:
    """Run what has no record yet; each run's record is written as it finishes.

    Args:
        experiment: What to run.
        out: Folder of its records.
        device: Where to train.
        resume: Whether to resume from the folder's records and checkpoints.
        progress: Whether to show a bar for the current run, in a terminal.
        notice: Called before each training with its name, the cells done, and all cells.
    """
    cells, kind = cells_of(experiment), kind_of(experiment)
    training = out / TRAINING
    with _held(out, experiment, resume=resume):
        done = finished(out)
        left = {cell.key for cell in cells} - {record.key for record in done}
        groups = _groups(experiment, cells, left, training)
        for setting, some in groupby(groups, lambda group: group[0].data):
            data = None
            if kind.PUBLIC_DATA:
                data = experiment_data(setting, curve=experiment.curve).to(device)
                one_data_set(out, setting.name, [data.name, *data_names(done, setting.name)])
            for group in some:
                name = common_name(group)
                if notice:
                    notice(name, len(cells) - len(left), len(cells))
                folder = training / name
                write_whole(folder / CELLS, json.dumps([cell.key for cell in group]) + "\n")
                for record in kind.run_cells(
                    experiment, group, left, data, folder, progress=progress
                ):
                    write_record(out, record)
                    left.remove(record.key)
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _held(out: Path, experiment: Experiment, *, resume: bool) -> Iterator[None]:
    """Begin in a folder that no other process trains in.

    When all is done the folder of trainings is removed, unless the user keeps files in it.
    """
    training = out / TRAINING
    if (out / EXPERIMENT).is_file():
        entries_to_write(out, experiment, resume=resume)  # refuses before the lock is made
    else:
        begin(out, experiment, resume=resume)
    with locked_folder(training):
        begin(out, experiment, resume=True)
        for left in (out / RUNS).glob(".*.json.*"):  # of a process that was killed
            sweep(left.with_name(left.name[1:].rpartition(".")[0]))
        yield
        for file in training.glob(f"*/{CELLS}"):  # begun in other groups
            shutil.rmtree(file.parent, ignore_errors=True)
    with suppress(OSError):
        (training / LOCK).unlink()
        training.rmdir()


def begin(out: Path, experiment: Experiment, *, resume: bool) -> None:
    """Write the folder's ``experiment.json``; refuse a folder that has other results.

    Raises:
        DataError: As :func:`entries_to_write` does.
    """
    new = entries_to_write(out, experiment, resume=resume)
    write_whole(out / EXPERIMENT, json.dumps(new, indent=1, ensure_ascii=False) + "\n")


def entries_to_write(out: Path, experiment: Experiment, *, resume: bool) -> dict[str, Any]:
    """The entries of the folder's file: the experiment's, with what earlier runs had.

    Raises:
        DataError: It has results of other settings, or any if ``resume`` is False, or files that
            are not an experiment's.
    """
    new = _as_json(experiment)
    if (out / EXPERIMENT).is_file():
        old = _as_json(read_experiment(out))
        if not resume:
            raise DataError.of(
                out,
                expected="no results yet, as resume is off",
                got=f"those of {old['name']!r}",
                do="Choose another --out, or resume with --resume.",
            )
        free = ("seeds", "population", *WORDS)
        other = [key for key in new if key not in free and new[key] != old[key]]
        if other:
            raise DataError.of(
                out,
                expected=f"results of {experiment.name!r} at profile {experiment.profile!r}",
                got=f"other settings: {', '.join(other)}",
                do="Choose another --out.",
            )
        new["seeds"] = max(new["seeds"], old["seeds"])
        new["notes"] = old["notes"]  # those that were true of the runs
    elif theirs := _visible(out):
        raise DataError.of(
            out,
            expected=f"an empty folder, or one of results, with {EXPERIMENT}",
            got=f"one with {few([repr(name) for name in theirs], most=3)}",
            do="Choose another --out.",
        )
    return new


def _as_json(experiment: Experiment) -> dict[str, Any]:
    entries: dict[str, Any] = json.loads(json.dumps(experiment.as_dict()))
    return entries


def _visible(folder: Path) -> list[str]:
    """Files of a folder that are not hidden; those that a killed process left half are."""
    if not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def _groups(
    experiment: Experiment, cells: list[Cell], left: set[str], training: Path
) -> Iterator[list[Cell]]:
    """Cells to train together: first those whose training was begun, in the same groups.

    So a population that was interrupted while its records were written is resumed where it ended,
    and not trained again for the records that are missing.
    """
    known = {cell.key: cell for cell in cells}
    begun: set[str] = set()
    for file in sorted(training.glob(f"*/{CELLS}")):
        keys = _keys(file)
        if known.keys() >= set(keys) and left & set(keys):
            begun |= set(keys)
            yield [known[key] for key in keys]
    todo = [cell for cell in cells if cell.key in left - begun]
    yield from populations(experiment, todo)


def _keys(file: Path) -> list[str]:
    """The cells of a begun training; none if the file cannot be read, so that it starts again."""
    try:
        return read_as(_Begun, {"cells": read_json(file)}, source=file.name).cells
    except (OSError, ValueError):  # what a damaged file or a wrong entry raises
        return []


@dataclass(frozen=True)
class _Begun:
    """What ``CELLS`` of a training has: the keys of its cells."""

    cells: list[str]
