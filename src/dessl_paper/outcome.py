"""What came of a run: its record, with the metrics of its model on the test rows."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import nn

from dessl.data import SemiData
from dessl.data.labels import MISSING
from dessl.data.parts import Part
from dessl.evaluation import Metrics, evaluate
from dessl.results.machine import commit, machine_facts
from dessl.results.record import Record, thinned
from dessl.training import TrainResult
from dessl_paper.cells import Cell
from dessl_paper.parts import shown
from dessl_paper.probe import probed
from dessl_paper.specification import Experiment


class Diverged(NamedTuple):
    """The end of a run that diverged: what is said of it, and what it took."""

    reason: str
    seconds: float


Ended: TypeAlias = TrainResult | Diverged


def training_record(
    experiment: Experiment, cell: Cell, data: SemiData, result: Ended, runs_at_once: int
) -> Record:
    """The record of a training that has ended, one way or the other."""
    training: dict[str, Any] = {
        "diverged": None,
        "seconds": round(result.seconds, 3),
        "runs_at_once": runs_at_once,
    }
    metrics: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    history: list[dict[str, Any]] = []
    if isinstance(result, Diverged):
        training["diverged"] = result.reason
    else:
        training |= {"selected_step": result.step, "steps": result.steps, "mode": result.mode}
        history = thinned(result.history)
        metrics, arrays = _measured(experiment, result, data)
    settings = {
        "data": asdict(cell.data),
        "model": dict(experiment.model),
        "views": dict(experiment.views),
        "surrogate": dict(cell.method.surrogate),
        "plan": cell.plan(experiment).as_dict(),
        "curve": experiment.curve,
    }
    return Record(
        **identity(experiment, cell),
        data=data.name,
        labels=int((data.y != MISSING).sum()) if cell.method.every_label else cell.data.labels,
        settings=settings,
        metrics=metrics,
        arrays=arrays,
        history=history,
        training=training,
        made_with=made_with(data.device),
    )


def identity(experiment: Experiment, cell: Cell) -> dict[str, Any]:
    """Which run of which experiment a record is of."""
    return {
        "experiment": experiment.name,
        "profile": experiment.profile,
        "key": cell.key,
        "method": cell.method.name,
        "title": cell.method.title,
        "risk": cell.method.risk,
        "lam": cell.lam,
        "seed": cell.seed,
    }


def made_with(device: torch.device) -> dict[str, Any]:
    """Versions, machine and commit, with the device that did the work."""
    facts = machine_facts() | {"commit": commit()}
    return facts | ({} if device.type == "cuda" else {"device": device.type})


def _measured(
    experiment: Experiment, result: TrainResult, data: SemiData
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Metrics and arrays of a trained model, on the test rows."""
    if experiment.kind == "probe":
        return probed(experiment, result.model, data)
    assert data.test is not None  # noqa: S101 (experiment_data refuses data without)
    return exact_metrics(result.model, data.test, experiment.views).as_dict(), {}


def exact_metrics(model: nn.Module, part: Part, views: Mapping[str, Any]) -> Metrics:
    """Metrics of a model of images on a part, with convolutions in full float32 on every device."""
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        return evaluate(model, part.x, part.y, transform=shown(views))
