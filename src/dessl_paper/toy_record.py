"""The toy example's cells: from an experiment's settings to a plan, and from a run to a record."""

import time
from dataclasses import asdict
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from dessl.results.record import Record
from dessl.training.progress import progress_bar
from dessl_paper.cells import Cell
from dessl_paper.outcome import identity, made_with
from dessl_paper.specification import Experiment
from dessl_paper.toy import ToyPlan, ToyRun, ToyStart, trained_toy, warm_start

DIGITS = 5
BINS = 50


def toy_plan(experiment: Experiment, cell: Cell) -> ToyPlan:
    """How a cell is trained: the experiment's settings with the cell's labels, λ and seed."""
    own = {"n_labelled": cell.data.labels, "lam": cell.lam, "seed": cell.seed}
    return ToyPlan.from_dict({**experiment.settings, **own})


# Methods of a split begin where the same warm start ended; a few splits are kept at hand.
_start = lru_cache(maxsize=8)(warm_start)


def toy_record(experiment: Experiment, cell: Cell, *, progress: bool = False) -> Record:
    """Train one method of the toy example, on the CPU, and give its record."""
    plan = toy_plan(experiment, cell)
    began = time.perf_counter()
    start = _start(plan)
    term = str(cell.method.surrogate.get("name", ""))
    with progress_bar(plan.steps, 0, shown=progress) as bar:
        run = trained_toy(start, cell.method.risk, term, progress=bar.advance)
    return Record(
        **identity(experiment, cell),
        data="toy",
        labels=plan.n_labelled,
        settings={"toy": asdict(plan), "surrogate": term},
        metrics={
            "overlap_posterior": run.overlap_posterior,
            "training_cross_entropy": run.training_cross_entropy[plan.steps],
        },
        arrays=_arrays(start, run),
        training={
            "diverged": None,
            "seconds": round(time.perf_counter() - began, 3),
            "runs_at_once": 1,
            "steps": plan.steps,
        },
        made_with=made_with(torch.device("cpu")),
    )


def _arrays(start: ToyStart, run: ToyRun) -> dict[str, Any]:
    rows = start.data.labelled_rows
    x, y = start.data.x[rows, 0].double(), start.data.y[rows]
    counts = {
        f"histogram_class{k}": torch.histc(x[y == k], BINS, 0, 10).long().tolist() for k in (0, 1)
    }
    return {
        "grid": _rounded(run.grid),
        "truth": _rounded(run.truth),
        "posterior": _rounded(run.posterior),
        "steps": list(run.training_cross_entropy),
        "training_cross_entropy": _rounded(torch.tensor([*run.training_cross_entropy.values()])),
        "histogram_edges": _rounded(torch.linspace(0, 10, BINS + 1)),
        **counts,
    }


def _rounded(values: Tensor) -> list[float]:
    return [round(value, DIGITS) for value in values.double().tolist()]
