"""The runner: every cell of an experiment that has no record yet, one after another or at once."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path

import torch

from dessl._files import write_whole
from dessl.data import SemiData
from dessl.results.record import Record, write_record
from dessl.training import (
    DivergenceError,
    PopulationRun,
    TrainResult,
    train,
    train_population,
)
from dessl.training.folder import LOCK, locked_folder
from dessl_paper.cells import Cell, cells_of, common_name, populations
from dessl_paper.folder import (
    EXPERIMENT,
    TRAINING,
    begin,
    data_names,
    entries_to_write,
    finished,
    one_data_set,
)
from dessl_paper.outcome import Diverged, Ended, training_record
from dessl_paper.parts import network, shown, term
from dessl_paper.sources import experiment_data
from dessl_paper.specification import Experiment
from dessl_paper.toy_record import toy_record

CELLS = "cells.json"  # in a training's folder: whose it is
Notice = Callable[[str, int, int], None]


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
        resume: Whether to go on with the folder's records and checkpoints.
        progress: Whether to show a bar for the run in training, where there is a terminal.
        notice: Called before each training with its name, the cells done, and all cells.
    """
    cells = cells_of(experiment)
    training = out / TRAINING
    with _held(out, experiment, resume=resume):
        done = finished(out)
        left = {cell.key for cell in cells} - {record.key for record in done}
        groups = _groups(experiment, cells, left, training)
        for setting, some in groupby(groups, lambda group: group[0].data):
            data = None
            if experiment.kind != "toy":
                data = experiment_data(setting, curve=experiment.curve).to(device)
                one_data_set(out, setting.name, [data.name, *data_names(done, setting.name)])
            for group in some:
                name = common_name(group)
                if notice:
                    notice(name, len(cells) - len(left), len(cells))
                folder = training / name
                write_whole(folder / CELLS, json.dumps([cell.key for cell in group]) + "\n")
                for record in _records(experiment, group, left, data, folder, progress=progress):
                    write_record(out, record)
                    left.remove(record.key)
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _held(out: Path, experiment: Experiment, *, resume: bool) -> Iterator[None]:
    """Begin in a folder that no other process trains in; one that is held is left as it is.

    When all is done the folder of trainings goes, unless the user keeps more there.
    """
    training = out / TRAINING
    if (out / EXPERIMENT).is_file():
        entries_to_write(out, experiment, resume=resume)  # refuses before the lock is made
    else:
        begin(out, experiment, resume=resume)
    with locked_folder(training):
        begin(out, experiment, resume=True)
        yield
        for file in training.glob(f"*/{CELLS}"):  # begun in other groups
            shutil.rmtree(file.parent, ignore_errors=True)
    with suppress(OSError):
        (training / LOCK).unlink()
        training.rmdir()


def _groups(
    experiment: Experiment, cells: list[Cell], left: set[str], training: Path
) -> Iterator[list[Cell]]:
    """Cells to be trained together: first those whose training was begun, as it was begun.

    A population that was broken off while its records were written is so taken up where it ended,
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
    """What was begun, or nothing where the file cannot be read: it is then begun anew."""
    try:
        keys = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    known = isinstance(keys, list) and all(isinstance(key, str) for key in keys)
    return keys if known else []


def _records(
    experiment: Experiment,
    group: list[Cell],
    left: set[str],
    data: SemiData | None,
    folder: Path,
    *,
    progress: bool,
) -> Iterator[Record]:
    """Run some cells and give the records that are left to be written."""
    if data is None:
        for cell in group:
            yield toy_record(experiment, cell, progress=progress)
        return
    if experiment.population or len(group) > 1:  # begun as a population, it ends as one
        results = _population(experiment, group, data, folder, progress=progress)
    else:
        results = [trained_alone(experiment, group[0], data, folder, progress=progress)]
    for cell, result in zip(group, results, strict=True):
        if cell.key in left:
            yield training_record(experiment, cell, data, result, len(group))


def _population(
    experiment: Experiment, group: list[Cell], data: SemiData, folder: Path, *, progress: bool
) -> list[Ended]:
    """Runs at once."""
    y = data.y.cpu()
    first = group[0]
    results = train_population(
        network(experiment.model, data),
        term(first.method.surrogate, experiment.views),
        data,
        [PopulationRun(c.seed, c.draw(y), c.lam, c.method.risk) for c in group],
        first.plan(experiment),
        transform=shown(experiment.views),
        out=folder,
        progress=progress,
    )
    return [_unless_diverged(result) for result in results]


def _unless_diverged(result: TrainResult) -> Ended:
    """A run of a population, or what is said of one that diverged."""
    if not result.diverged:
        return result
    lam = result.plan.lam
    reason = f"the run diverged at step {result.steps}, with λ = {lam:g}."
    return Diverged(reason, result.seconds)


def trained_alone(
    experiment: Experiment, cell: Cell, data: SemiData, folder: Path, *, progress: bool
) -> Ended:
    """One run by itself."""
    began = time.perf_counter()
    try:
        return train(
            network(experiment.model, data),
            term(cell.method.surrogate, experiment.views, seed=cell.seed),
            data.with_labels(cell.draw(data.y.cpu())),
            cell.plan(experiment),
            transform=shown(experiment.views),
            out=folder,
            progress=progress,
        )
    except DivergenceError as error:
        return Diverged(str(error), time.perf_counter() - began)
