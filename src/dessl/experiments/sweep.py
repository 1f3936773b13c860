"""The runner: every cell of an experiment that has no record yet, one after another or at once."""

import shutil
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from dessl.data import SemiData
from dessl.evaluation import evaluate
from dessl.experiments.cells import Cell, cells_of, common_name, populations
from dessl.experiments.machine import commit, machine_facts
from dessl.experiments.parts import network, shown, term
from dessl.experiments.probe import probed
from dessl.experiments.record import RUNS, TRAINING, Record, begin, thinned, write_record
from dessl.experiments.sources import experiment_data
from dessl.experiments.specification import Experiment
from dessl.training import (
    DivergenceError,
    PopulationRun,
    TrainResult,
    train,
    train_population,
)
from dessl.training.folder import locked_folder

Notice = Callable[[str, int, int], None]
Outcome = tuple[dict[str, Any], dict[str, Any]]


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
    begin(out, experiment, resume=resume)
    with locked_folder(out / TRAINING):
        cells = cells_of(experiment)
        todo = [cell for cell in cells if not (out / RUNS / f"{cell.key}.json").is_file()]
        done = len(cells) - len(todo)
        data: SemiData | None = None
        before = None
        for group in populations(experiment, todo):
            setting = group[0].data
            if data is None or setting != before:
                data = experiment_data(setting, curve=experiment.curve).to(device)
                before = setting
            if notice:
                notice(common_name(group), done, len(cells))
            folder = out / TRAINING / common_name(group)
            _run_group(experiment, group, data, out, folder, progress=progress)
            shutil.rmtree(folder, ignore_errors=True)
            done += len(group)
    shutil.rmtree(out / TRAINING, ignore_errors=True)


def _run_group(
    experiment: Experiment,
    group: list[Cell],
    data: SemiData,
    out: Path,
    folder: Path,
    *,
    progress: bool,
) -> None:
    began = time.perf_counter()
    if experiment.population:
        results: list[TrainResult | str] = [
            *_population(experiment, group, data, folder, progress=progress)
        ]
    else:
        results = [_alone(experiment, group[0], data, folder, progress=progress)]
    seconds = time.perf_counter() - began
    for cell, result in zip(group, results, strict=True):
        outcome = ({}, {}) if isinstance(result, str) else _outcome(experiment, result, data)
        spent = {"seconds": round(seconds / len(group), 3), "runs_at_once": len(group)}
        write_record(out, _record(experiment, cell, data, result, outcome, spent))


def _population(
    experiment: Experiment, group: list[Cell], data: SemiData, folder: Path, *, progress: bool
) -> list[TrainResult]:
    y = data.y.cpu()
    first = group[0]
    runs = [PopulationRun(c.seed, c.draw(y), c.lam, c.method.risk) for c in group]
    return train_population(
        network(experiment.model, data),
        term(first.method.surrogate, experiment.views),
        data,
        runs,
        first.plan(experiment),
        transform=shown(experiment.views),
        out=folder,
        progress=progress,
    )


def _alone(
    experiment: Experiment, cell: Cell, data: SemiData, folder: Path, *, progress: bool
) -> TrainResult | str:
    """One run by itself; what it died of, if it diverged."""
    try:
        return train(
            network(experiment.model, data),
            term(cell.method.surrogate, experiment.views),
            data.with_labels(cell.draw(data.y.cpu())),
            cell.plan(experiment),
            transform=shown(experiment.views),
            out=folder,
            progress=progress,
        )
    except DivergenceError as error:
        return str(error)


def _outcome(experiment: Experiment, result: TrainResult, data: SemiData) -> Outcome:
    """Metrics and arrays of a trained model, on the test rows."""
    if experiment.kind == "probe":
        return probed(experiment, result.model, data)
    assert data.test is not None  # noqa: S101 (experiment_data refuses data without)
    metrics = evaluate(result.model, *data.test, transform=shown(experiment.views))
    return metrics.as_dict(), {}


def _record(
    experiment: Experiment,
    cell: Cell,
    data: SemiData,
    result: TrainResult | str,
    outcome: Outcome,
    spent: dict[str, Any],
) -> Record:
    training: dict[str, Any] = {"diverged": result if isinstance(result, str) else None, **spent}
    history = []
    if not isinstance(result, str):
        training |= {"selected_step": result.step, "steps": result.steps, "mode": result.mode}
        history = thinned(result.history)
    return Record(
        experiment=experiment.name,
        profile=experiment.profile,
        key=cell.key,
        data=data.name,
        labels=len(data) if cell.method.every_label else cell.data.labels,
        method=cell.method.name,
        title=cell.method.title,
        risk=cell.method.risk,
        lam=cell.lam,
        seed=cell.seed,
        settings={
            "data": asdict(cell.data),
            "model": dict(experiment.model),
            "views": dict(experiment.views),
            "surrogate": dict(cell.method.surrogate),
            "plan": cell.plan(experiment).as_dict(),
            "curve": experiment.curve,
        },
        metrics=outcome[0],
        arrays=outcome[1],
        history=history,
        training=training,
        made_with=machine_facts() | {"commit": commit()},
    )
