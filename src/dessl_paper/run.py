"""The runner: trains every cell of an experiment that has no record yet, alone or in groups."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from dessl._entries import read_as
from dessl._files import sweep, write_whole
from dessl.data import DataError, SemiData
from dessl.data.errors import few
from dessl.results.record import RUNS, read_json, write_record
from dessl.training.folder import LOCK, locked_folder
from dessl.training.ranks import from_first, held_by_first, rank, ranks, spread
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
from dessl_paper.specification import (
    Cell,
    DataSetting,
    Experiment,
    cells_of,
    common_name,
    populations,
)

CELLS = "cells.json"  # in the folder of a training run: the cells that it trains
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
    """Run the cells that have no record yet; each record is written when its run finishes.

    Under ``torchrun`` training runs are spread over the ranks; a population is split into one part
    per rank. All ranks must share the folder.

    Args:
        experiment: What to run.
        out: Folder for its records.
        device: Where to train.
        resume: Whether to resume from the folder's records and checkpoints.
        progress: Whether to show a bar for the current run, in a terminal.
        notice: Called before each training run with its name, the number of finished cells, and
            the number of all cells.
    """
    first, known = rank() == 0, {cell.key: cell for cell in cells_of(experiment)}
    with held_by_first(lambda: _held(out, experiment, resume=resume)):
        left = from_first(partial(_left, experiment, known, out, shares=ranks()))
        runner = _Runner(
            experiment,
            out,
            torch.device(device),
            left,
            progress and first,
            notice if first else None,
        )
        spread([partial(runner.run, [known[key] for key in keys]) for keys in left.groups])


class _Left(NamedTuple):
    """Remaining work: keys of cells, groups to train together, and data of earlier records."""

    keys: set[str]
    groups: list[list[str]]
    data: dict[str, set[str]]


def _left(experiment: Experiment, known: dict[str, Cell], out: Path, *, shares: int) -> _Left:
    done = finished(out)
    keys = known.keys() - {record.key for record in done}
    groups = _groups(experiment, known, keys, out / TRAINING, shares)
    names = {setting.name: data_names(done, setting.name) for setting in experiment.data}
    return _Left(keys, [[cell.key for cell in group] for group in groups], names)


class _Runner:
    """Trains groups of cells one after another and writes their records, on one rank.

    Args:
        experiment: What to run.
        out: Folder for its records.
        device: Where to train.
        left: The work that remained at the start.
        progress: Whether to show a bar for the current run.
        notice: Called before each training run, as in :func:`run_experiment`.
    """

    def __init__(
        self,
        experiment: Experiment,
        out: Path,
        device: torch.device,
        left: _Left,
        progress: bool,
        notice: Notice | None,
    ) -> None:
        self.experiment, self.kind, self.out = experiment, kind_of(experiment), out
        self.device, self.left, self.progress, self.notice = device, left, progress, notice
        self._keys = {cell.key for cell in cells_of(experiment)}
        self._data: tuple[DataSetting, SemiData] | None = None  # the last data set read

    def run(self, group: list[Cell]) -> None:
        """Train some cells together and write a record for each that has none."""
        name = common_name(group)
        data = self._rows(group[0].data) if self.kind.PUBLIC_DATA else None
        if self.notice:
            finished = {path.stem for path in (self.out / RUNS).glob("*.json")}  # by any rank
            self.notice(name, len(self._keys & finished), len(self._keys))
        folder = self.out / TRAINING / name
        write_whole(folder / CELLS, json.dumps([cell.key for cell in group]) + "\n")
        for record in self.kind.run_cells(
            self.experiment, group, self.left.keys, data, folder, progress=self.progress
        ):
            write_record(self.out, record)
        shutil.rmtree(folder, ignore_errors=True)

    def _rows(self, setting: DataSetting) -> SemiData:
        if self._data is None or self._data[0] != setting:
            data = experiment_data(setting, curve=self.experiment.curve).to(self.device)
            one_data_set(self.out, setting.name, [data.name, *self.left.data[setting.name]])
            self._data = setting, data
        return self._data[1]


@contextmanager
def _held(out: Path, experiment: Experiment, *, resume: bool) -> Iterator[None]:
    """Lock the folder, so that no other process trains in it.

    At the end the folder of checkpoints is removed, unless the user keeps files in it.
    """
    training = out / TRAINING
    if (out / EXPERIMENT).is_file():
        entries_to_write(out, experiment, resume=resume)  # rejects it before the lock is made
    else:
        begin(out, experiment, resume=resume)
    with locked_folder(training):
        begin(out, experiment, resume=True)
        for left in (out / RUNS).glob(".*.json.*"):  # of a process that was killed
            sweep(left.with_name(left.name[1:].rpartition(".")[0]))
        yield
        for file in training.glob(f"*/{CELLS}"):  # started in other groups
            shutil.rmtree(file.parent, ignore_errors=True)
    with suppress(OSError):
        (training / LOCK).unlink()
        training.rmdir()


def begin(out: Path, experiment: Experiment, *, resume: bool) -> None:
    """Write the folder's ``experiment.json``; reject a folder that has other results.

    Raises:
        DataError: As :func:`entries_to_write` does.
    """
    new = entries_to_write(out, experiment, resume=resume)
    write_whole(out / EXPERIMENT, json.dumps(new, indent=1, ensure_ascii=False) + "\n")


def entries_to_write(out: Path, experiment: Experiment, *, resume: bool) -> dict[str, Any]:
    """The entries of the folder's file: those of the experiment, with the notes of earlier runs.

    Raises:
        DataError: The folder has results of other settings, or any results if ``resume`` is False,
            or files that do not belong to an experiment.
    """
    new = _as_json(experiment)
    if (out / EXPERIMENT).is_file():
        old = _as_json(read_experiment(out))
        if not resume:
            raise DataError.of(
                out,
                expected="no results, because resume is off",
                got=f"results of {old['name']!r}",
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
        new["notes"] = old["notes"]  # the notes that apply to the existing runs
    elif theirs := _visible(out):
        raise DataError.of(
            out,
            expected=f"an empty folder, or a folder of results with {EXPERIMENT}",
            got=f"a folder with {few([repr(name) for name in theirs], most=3)}",
            do="Choose another --out.",
        )
    return new


def _as_json(experiment: Experiment) -> dict[str, Any]:
    entries: dict[str, Any] = json.loads(json.dumps(experiment.as_dict()))
    return entries


def _visible(folder: Path) -> list[str]:
    """Files of a folder that are not hidden; incomplete files of a killed process are hidden."""
    if not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def _groups(
    experiment: Experiment, known: dict[str, Cell], left: set[str], training: Path, shares: int
) -> Iterator[list[Cell]]:
    """Cells to train together: first those whose training has started, in the same groups.

    A population that was interrupted while its records were written then resumes at its end,
    instead of being retrained for the missing records. New groups are divided among the ranks.
    """
    begun: set[str] = set()
    for file in sorted(training.glob(f"*/{CELLS}")):
        keys = _keys(file)
        if known.keys() >= set(keys) and left & set(keys):
            begun |= set(keys)
            yield [known[key] for key in keys]
    todo = [cell for key, cell in known.items() if key in left - begun]
    yield from populations(experiment, todo, shares)


def _keys(file: Path) -> list[str]:
    """The cells of an unfinished training run; none if the file is damaged, so that it restarts."""
    try:
        return read_as(_Begun, {"cells": read_json(file)}, source=file.name).cells
    except (OSError, ValueError):  # what a damaged file or a wrong entry raises
        return []


@dataclass(frozen=True)
class _Begun:
    """The content of ``CELLS``: the keys of the cells."""

    cells: list[str]
