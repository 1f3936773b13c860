"""Many runs of one architecture as one computation: how a λ-sweep over splits is trained.

Runs may differ in their label draw, seed, λ and risk. Each has the streams, the selection and the
early stopping that it would have alone, and ends with the same weights up to rounding (of the same
law with dropout, whose draws are the population's own; AdamW makes steps of rounding alone, where a
bias before BatchNorm has no other gradient). Its events say less of validation rows: no
correlation, no best λ, and no metric but accuracy and cross-entropy unless it is selected by one.
Complete-case runs are a population of their own: they never see an unlabelled row.
"""

import copy
import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dessl import _checks
from dessl.data import LabelDraw, SemiData
from dessl.objective import RiskKind
from dessl.surrogates import Surrogate, as_surrogate
from dessl.surrogates.base import forked
from dessl.training.checkpoint import Checkpoint, save_checkpoint
from dessl.training.folder import RunFolder, locked_folder, parts_identity, sha256_of
from dessl.training.plan import TrainPlan
from dessl.training.population_checks import check_surrogate
from dessl.training.population_run import Population
from dessl.training.population_watch import Validation
from dessl.training.progress import progress_bar
from dessl.training.run import TrainResult
from dessl.training.watch import levels

SAVE_SECONDS = 60.0  # between two checkpoints of a population


@dataclasses.dataclass(frozen=True)
class PopulationRun:
    """What one run of a population has of its own.

    Args:
        seed: Of its initial weights and its streams.
        draw: Which rows are labelled, held out for validation, and unlabelled.
        lam: λ, its peak.
        risk: ``"complete_case"``, ``"ssl"`` or ``"debiased"``.
    """

    seed: int
    draw: LabelDraw
    lam: float = 1.0
    risk: RiskKind = "debiased"

    def plan(self, shared: TrainPlan) -> TrainPlan:
        """The plan of this run alone, for :func:`dessl.train`."""
        own: dict[str, Any] = {"seed": self.seed, "lam": self.lam, "risk": self.risk}
        if self.risk != "debiased":
            own |= {"on": "unlabelled", "bound": None}
        return dataclasses.replace(shared, **own)


def train_population(
    model: Callable[[], nn.Module],
    surrogate: Surrogate | Callable[..., Tensor],
    data: SemiData,
    runs: Sequence[PopulationRun],
    plan: TrainPlan,
    *,
    device: torch.device | str | None = None,
    transform: Callable[[Tensor], Tensor] | None = None,
    chunk: int | None = None,
    out: str | Path | None = None,
    resume: bool = True,
    progress: bool = True,
) -> list[TrainResult]:
    """Train many runs at once and return one result for each, in their order.

    Args:
        model: Builds a model; called once for each run, with the run's seed set.
        surrogate: A term without state or random draws, such as entropy or pseudo-labels; what
            has them is refused, and trained one run at a time with :func:`dessl.train`.
        data: With all labels that any draw uses; one copy of its rows serves all runs.
        runs: What each run has of its own. All draws have as many labelled and validation rows.
        plan: What they share; its seed, λ and risk are not used. ``guard_every`` is not either: a
            run that diverges is ended at the next evaluation, with a warning, and the rest go on.
        device: Where to train; where the data is, when not given.
        transform: What the models see of a row in evaluation, as in :func:`dessl.train`.
        chunk: Most runs at a time, where all would not fit the device's memory.
        out: Folder for checkpoints, one a minute; None to keep nothing.
        resume: Whether to go on from the checkpoints in ``out``.
        progress: Whether to show a progress bar, where there is a terminal.

    >>> from dessl.data import draw_labels
    >>> from dessl.models import MLP
    >>> from dessl.surrogates import Entropy
    >>> g = torch.Generator().manual_seed(0)
    >>> x = torch.randn(60, 2, generator=g)
    >>> data = SemiData(x, (x[:, 0] > 0).long())
    >>> draw = draw_labels(data.y, 20, n_validation=8, generator=g)
    >>> runs = [PopulationRun(0, draw, lam, "ssl") for lam in (0.1, 1.0)]
    >>> plan = TrainPlan(steps=20, labelled_batch=6, unlabelled_batch=12)
    >>> results = train_population(lambda: MLP(2, 2, dropout=0.0), Entropy(), data, runs, plan)
    >>> [(result.plan.lam, result.steps, len(result.history)) for result in results]
    [(0.1, 20, 20), (1.0, 20, 20)]
    """
    surrogate = as_surrogate(surrogate)
    _check(data, runs, plan)
    data = data if device is None else data.to(device)
    if transform is None and data.is_image:
        transform = levels
    results: dict[int, TrainResult] = {}
    for number, members in enumerate(_groups(runs, chunk)):
        folder = None if out is None else Path(out) / f"population-{number}"
        with forked(data.device):
            population = built_population(
                model, surrogate, data, [runs[i] for i in members], plan, transform
            )
            with locked_folder(folder) as held, _advice(len(members)):
                saved = None
                if held:
                    identity = _identity(plan, population, [runs[i] for i in members], surrogate)
                    saved = held.begin(identity, resume=resume)
                _trained(population, held, saved, progress=progress)
        results |= dict(zip(members, population.results(), strict=True))
    return [results[i] for i in range(len(runs))]


def _check(data: SemiData, runs: Sequence[PopulationRun], plan: TrainPlan) -> None:
    if not runs:
        raise ValueError("runs must hold at least one PopulationRun; got none.")
    members: list[tuple[str, object, type]] = [("each of runs", run, PopulationRun) for run in runs]
    for name, value, kind in [("data", data, SemiData), ("plan", plan, TrainPlan), *members]:
        if not isinstance(value, kind):
            raise TypeError(f"{name} must be a {kind.__name__}; got {type(value).__name__}.")
    for name, part in (("labelled", 0), ("validation", 1)):
        sizes = sorted({len(run.draw[part]) for run in runs})
        if len(sizes) > 1:
            raise ValueError(
                f"all draws of a population must have as many {name} rows; got "
                f"{', '.join(map(str, sizes))}. Train populations of one size each."
            )
    if plan.optimiser == "muon":
        raise ValueError(
            "Muon works on whole matrices, not entry by entry, and so not on stacked ones. "
            "Use optimiser='sgd' or 'adamw', or train the runs one by one with dessl.train."
        )


def _groups(runs: Sequence[PopulationRun], chunk: int | None) -> Iterator[list[int]]:
    """Numbers of the runs that are trained at once: of one batch shape, equal risks together."""
    most = len(runs) if chunk is None else _checks.whole_number("chunk", chunk, low=1)
    joint = sorted(
        (i for i, run in enumerate(runs) if run.risk != "complete_case"), key=lambda i: runs[i].risk
    )
    alone = [i for i, run in enumerate(runs) if run.risk == "complete_case"]
    for group in (alone, joint):
        for first in range(0, len(group), most):
            yield group[first : first + most]


def built_population(
    factory: Callable[[], nn.Module],
    surrogate: Surrogate,
    data: SemiData,
    runs: Sequence[PopulationRun],
    plan: TrainPlan,
    transform: Callable[[Tensor], Tensor] | None,
) -> Population:
    """Return runs of one batch shape before their first step, equal risks beside each other."""
    models = [_built(factory, run.seed).to(data.device).train() for run in runs]
    fast = data.device.type == "cuda"
    check_surrogate(surrogate, models, data, fast=fast)
    parts = [data.with_labels(run.draw) for run in runs]
    validation = Validation.of(parts, transform)
    if plan.select != "last" and validation is None:
        raise ValueError(
            f"select={plan.select!r} needs validation rows, and the draws have none. Hold rows "
            "out with draw_labels(..., n_validation=...), or keep select='last'."
        )
    plans = [run.plan(plan) for run in runs]
    return Population(models, surrogate, data, parts, plans, validation, fast=fast)


def _built(factory: Callable[[], nn.Module], seed: int) -> nn.Module:
    """A run's own model; a copy, since a function may hand out one module again and again."""
    torch.manual_seed(seed)
    built = factory if isinstance(factory, nn.Module) else factory()
    if built is factory or not isinstance(built, nn.Module):
        raise TypeError(
            "model must be a function that builds an nn.Module, for each run its own; got "
            f"{type(built).__name__}. Pass a function, such as lambda: MLP(4, 2)."
        )
    return copy.deepcopy(built)


@contextmanager
def _advice(runs: int) -> Iterator[None]:
    """Say what to do where the runs do not fit the device's memory."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        error.add_note(f"{runs} runs at a time are too many here: pass chunk={max(1, runs // 2)}.")
        raise


def _trained(
    population: Population, folder: RunFolder | None, saved: Checkpoint | None, *, progress: bool
) -> None:
    if saved:
        population.restore(saved)
    last_saved = time.perf_counter()
    with progress_bar(population.steps, population.done, shown=progress) as bar:
        while not population.finished:
            began = time.perf_counter()
            for step in range(population.done, population.next_stop()):
                population.step(step)
                bar.advance(step + 1)
            population.done = step + 1
            events = population.observe(began)
            if events:
                bar.show(events[-1])
            due = time.perf_counter() - last_saved > SAVE_SECONDS
            if folder and (due or population.finished):
                save_checkpoint(folder.checkpoints, population.done, *population.checkpoint())
                last_saved = time.perf_counter()


def _identity(
    plan: TrainPlan, population: Population, runs: Sequence[PopulationRun], surrogate: Surrogate
) -> dict[str, Any]:
    """What a population must agree in to be gone on with."""
    data, validation = population.step.data, population.validation
    own = [[member.plan.seed, member.plan.lam, member.plan.risk] for member in population.members]
    rows = [part for run in runs for part in run.draw]
    seen = [validation.x, validation.y] if validation else []
    return {
        "plan": plan.as_dict(),
        "data": {
            "name": data.name,
            "shape": list(data.x.shape),
            "rows_sha256": sha256_of(data.ids, data.y, data.x, *rows, *seen),
        },
        "runs": len(runs),
        "runs_sha256": hashlib.sha256(json.dumps(own).encode()).hexdigest(),
        **parts_identity(surrogate, population.originals[0]),
    }
