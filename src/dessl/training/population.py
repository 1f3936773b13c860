"""Many runs of one architecture as one computation: how a λ-sweep over splits is trained.

Runs may differ in their label draw, seed, λ and risk. Each has the streams, the selection and the
early stopping that it would have alone, and ends with the same weights up to rounding. Two
exceptions: dropout draws other numbers from the same distribution, and AdamW turns rounding into
steps where a bias before BatchNorm has no other gradient. Events say less about validation rows: no
correlation, no best λ, and only accuracy and cross-entropy unless runs are selected by another
metric. Complete-case runs are a population of their own: they never see an unlabelled row.
"""

import copy
import dataclasses
import hashlib
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dessl.data import LabelDraw, SemiData
from dessl.objective import RiskKind
from dessl.risk import RISKS
from dessl.surrogates import Surrogate, as_surrogate
from dessl.surrogates.base import forked
from dessl.training.checkpoint import Checkpoint, save_checkpoint
from dessl.training.division import Groups, divided, part_of
from dessl.training.event import Event
from dessl.training.folder import (
    RunFolder,
    data_identity,
    locked_folder,
    parts_identity,
    sha256_of,
)
from dessl.training.loop import Trainable, drive
from dessl.training.member import Member, TrainResult
from dessl.training.model_state import put_into
from dessl.training.optimisers import decayed_names
from dessl.training.plan import TrainPlan
from dessl.training.population_step import PopulationStep, RowsAhead, Setting
from dessl.training.ranks import check_alike, from_first, rank, ranks
from dessl.training.spreading import Trained, spread_trainings
from dessl.training.stacked_model import StackedModel, check_stackable
from dessl.training.step import check_propensity, plan_for, streams, unlabelled_weights
from dessl.training.watch import Validation, levels


@dataclasses.dataclass(frozen=True)
class PopulationRun:
    """What one run of a population has of its own.

    Args:
        seed: Of its initial weights and its streams.
        draw: Which rows are labelled, held out for validation, and unlabelled.
        lam: λ, its peak.
        risk: A key of ``dessl.risk.RISKS``.
    """

    seed: int
    draw: LabelDraw
    lam: float = 1.0
    risk: RiskKind = "debiased"

    def plan(self, shared: TrainPlan) -> TrainPlan:
        """The plan of this run alone, for :func:`dessl.train`."""
        own: dict[str, Any] = {"seed": self.seed, "lam": self.lam, "risk": self.risk}
        if "on" not in RISKS[self.risk].options:
            own |= {"on": "unlabelled", "bound": None}
        return dataclasses.replace(shared, **own)


def train_population(
    model: Callable[[], nn.Module],
    surrogate: str | Surrogate | Callable[..., Tensor],
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
    keep_logits: bool = False,
) -> list[TrainResult]:
    """Train many runs at once and return one result for each, in their order.

    Under ``torchrun``, within :func:`dessl.training.process_group`, each rank trains its share of
    the runs, and every rank gets all results.

    Args:
        model: Builds a model; called once for each run, with the run's seed set.
        surrogate: A term without state or random draws, such as ``"entropy"``; one that has them is
            refused: train its runs one at a time with :func:`dessl.train`.
        data: With all labels that any draw uses; one copy of its rows serves all runs.
        runs: What each run has of its own. All draws must have the same number of labelled rows,
            and of validation rows.
        plan: What they share; its seed, λ, risk and ``guard_every`` are not used. A run that
            diverges is ended at the next evaluation, with a warning; the others continue.
        device: Where to train; where the data is, when not given.
        transform: What the models see of a row in evaluation, as in :func:`dessl.train`.
        chunk: Most runs at a time, if all of them would not fit in the device's memory.
        out: Folder for checkpoints, one a minute; None to keep nothing. They are resumed on any
            number of ranks, and with another ``chunk``.
        resume: Whether to resume from the checkpoints in ``out``.
        progress: Whether to show a progress bar, where there is a terminal.
        keep_logits: Whether results have ``validation_logits``.

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
    risks = {run.risk: plan_for(run.plan(plan), data).risk for run in runs}
    runs = [dataclasses.replace(run, risk=risks[run.risk]) for run in runs]
    data = data if device is None else data.to(device)
    if transform is None and data.is_image:
        transform = levels
    if ranks() > 1:
        check_alike(data_identity(data), "the data")

    def built(members: list[int]) -> Population:
        its = [runs[i] for i in members]
        population = built_population(model, surrogate, data, its, plan, transform)
        population.keep_logits = keep_logits
        return population

    def trained(name: str, members: list[int], shown: bool) -> Trained[list[int]]:
        folder = None if out is None else Path(out) / name
        with forked(data.device):
            population = built(members)
            with locked_folder(folder) as held, _advice(len(members)):
                drive(population, held, resume=resume, progress=shown)
        return Trained(tuple(population.results()), members)

    def cut(folder: Path, members: list[int], parts: Mapping[Path, slice]) -> None:
        if not RunFolder(folder).checkpoints.is_dir():
            return
        with forked(data.device), locked_folder(folder) as held:
            population = built(members)
            if held:
                held.begin(population.identity(), population.restore, resume=True)
            saved = population.checkpoint()
            for place, its in parts.items():
                checkpoints = RunFolder(place).checkpoints
                save_checkpoint(checkpoints, population.done, *part_of(saved, its))

    def groups() -> Groups:
        place, risks = None if out is None else Path(out), [run.risk for run in runs]
        return divided(place, risks, cut, chunk=chunk, shares=size, resume=resume)

    size, shown = ranks(), progress and rank() == 0
    jobs = [partial(trained, *group, shown) for group in from_first(groups).items()]
    found = spread_trainings(jobs, model, data.device)
    results = {
        i: result for one in found for i, result in zip(one.beside, one.results, strict=True)
    }
    return [results[i] for i in range(len(runs))]


def _check(data: SemiData, runs: Sequence[PopulationRun], plan: TrainPlan) -> None:
    if not runs:
        raise ValueError("runs must hold at least one PopulationRun; got none.")
    members: list[tuple[str, object, type]] = [("each of runs", run, PopulationRun) for run in runs]
    for name, value, kind in [("data", data, SemiData), ("plan", plan, TrainPlan), *members]:
        if not isinstance(value, kind):
            raise TypeError(f"{name} must be a {kind.__name__}; got {type(value).__name__}.")
    for run in runs:
        check_propensity(run.risk, data)
    for name, part in (("labelled", 0), ("validation", 1)):
        sizes = sorted({len(run.draw[part]) for run in runs})
        if len(sizes) > 1:
            raise ValueError(
                f"all draws of a population must have the same number of {name} rows; got "
                f"{', '.join(map(str, sizes))}. Train a population for each size."
            )
    if data.stored is not None:
        raise ValueError(
            "the runs of a population draw rows in memory, and data has unlabelled rows in "
            f"{data.stored.source}. Train the runs one by one with dessl.train."
        )
    if plan.online:
        raise ValueError(
            "online=True looks at one model's gradients. Give each run a fixed lam, or train the "
            "runs one by one with dessl.train."
        )
    if plan.optimiser == "muon":
        raise ValueError(
            "Muon works on whole matrices, not entry by entry, and so not on stacked ones. "
            "Use optimiser='sgd' or 'adamw', or train the runs one by one with dessl.train."
        )


def built_population(
    factory: Callable[[], nn.Module],
    surrogate: Surrogate,
    data: SemiData,
    runs: Sequence[PopulationRun],
    plan: TrainPlan,
    transform: Callable[[Tensor], Tensor] | None,
) -> "Population":
    """Return runs of one batch shape before their first step, equal risks beside each other."""
    models = [_built(factory, run.seed).to(data.device).train() for run in runs]
    check_stackable(surrogate, models, data, fast=data.device.type == "cuda")
    return Population(models, surrogate, data, runs, plan, transform)


def _built(factory: Callable[[], nn.Module], seed: int) -> nn.Module:
    """A run's own model; a copy, since a function may return the same module every time."""
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
    """Say what to do if the runs do not fit in the device's memory."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        error.add_note(
            f"{runs} runs at a time do not fit in memory: pass chunk={max(1, runs // 2)}."
        )
        raise


class Population(Trainable):
    """Runs of one architecture, one plan except for seed, λ and risk, and one kind of batch.

    Args:
        models: One for each run, on the data's device.
        surrogate: Without state.
        data: With all labels that any draw uses.
        runs: What each run has of its own, equal risks beside each other.
        plan: What they share.
        transform: What the models see of a row in evaluation.
    """

    save_seconds = 60.0
    keep_logits = False  # of validation rows, at every evaluation

    def __init__(
        self,
        models: Sequence[nn.Module],
        surrogate: Surrogate,
        data: SemiData,
        runs: Sequence[PopulationRun],
        plan: TrainPlan,
        transform: Callable[[Tensor], Tensor] | None,
    ) -> None:
        self.plan, self.data, self.originals = plan, data, list(models)
        self.parts = [data.with_labels(run.draw) for run in runs]
        plans = [run.plan(plan) for run in runs]
        n_labelled = self.parts[0].n_labelled
        super().__init__([Member(its, n_labelled) for its in plans], data.device)
        self.validation = Validation.of(self.parts, transform)
        if plan.select != "last" and self.validation is None:
            raise ValueError(
                f"select={plan.select!r} needs validation rows, and the draws have none. Hold rows "
                "out with draw_labels(..., n_validation=...), or keep select='last'."
            )
        fast = data.device.type == "cuda"
        self.models = StackedModel(models, fast=fast)
        if plan.compile == "on" or (plan.compile == "auto" and fast):
            self.models.compile(strict=plan.compile == "on")
        self.rows = RowsAhead(list(map(streams, self.parts, plans)), steps=self.steps)
        self.step = PopulationStep(
            self.models,
            surrogate,
            data,
            plans[0],
            _setting(self.parts, plans),
            self.rows,
            steps=self.steps,
            decayed=decayed_names(models[0]),
        )
        self.kept = {name: value.detach().clone() for name, value in self._state().items()}
        self.logits: list[Tensor] = []  # (K, n, classes) of each evaluation

    def _state(self) -> dict[str, Tensor]:
        """What is evaluated: parameters (averaged ones, where there are any) and buffers."""
        return {**self.step.evaluated, **self.models.buffers}

    def take(self, step: int) -> None:
        """Take a step of every run."""
        self.step(step)

    def observe(self, began: float) -> list[Event]:
        """Evaluate all runs, select, and end those that diverged or are out of patience."""
        means, troubles = self.step.totals.means(), self.step.totals.troubles()
        before = (self.done - 1) // self.interval * self.interval
        self.step.totals.restart()
        pace = self.pace(began)
        metrics: Sequence[dict[str, float | None] | None] = [None] * len(self.members)
        if self.validation:
            logits = self.validation.logits(self.models, self.step.evaluated)
            metrics = self.validation.metrics(logits, self.plan.select)
            if self.keep_logits:
                self.logits.append(logits.detach().float().cpu())
        events, keep = [], []
        for member, its, trouble, seen in zip(self.members, means, troubles, metrics, strict=True):
            overflows = self.validation is not None and seen is None
            if member.ended is None and (trouble or overflows):
                self._end_diverged(member, before + trouble.step if trouble else self.done)
            if member.ended is not None:
                keep.append(False)
                continue
            event = member.evaluated(self.done, its, pace, validation=seen)
            keep.append(event.best or not member.selection.step)  # the last, until one is selected
            events.append(event)
        self._keep(torch.tensor(keep, device=self.device))
        return events

    @staticmethod
    def _end_diverged(member: Member, step: int) -> None:
        member.ended, member.diverged = step, True
        plan = member.plan
        warnings.warn(
            f"the run of seed {plan.seed}, risk {plan.risk!r} and λ = {plan.lam:g} diverged at "
            f"step {step} and was ended; the other runs continue. Its last good state is kept.",
            UserWarning,
            stacklevel=5,
        )

    @torch.no_grad()
    def _keep(self, chosen: Tensor) -> None:
        """Copy the state of the chosen runs, (K,), and leave the others alone."""
        for name, value in self._state().items():
            mask = chosen.view(-1, *(1,) * (value.ndim - 1))
            self.kept[name].copy_(torch.where(mask, value, self.kept[name]))

    def results(self) -> list[TrainResult]:
        """Return one result for each run, its model with the selected weights."""
        mode = "population" + (" compiled" if self.models.is_compiled else "")
        mode += " graph" if self.step.is_graph else ""
        share, found = self.seconds / len(self.members), []
        for k, (model, member) in enumerate(zip(self.originals, self.members, strict=True)):
            put_into(model, {name: value[k] for name, value in self.kept.items()})
            result = member.result(model, self.done, mode, share)
            seen = [logits[k] for logits in self.logits[: len(member.history)]]
            found.append(
                dataclasses.replace(result, validation_logits=torch.stack(seen)) if seen else result
            )
        return found

    def identity(self) -> dict[str, Any]:
        """Return the fields that must match to resume."""
        data, validation = self.data, self.validation
        own = [[member.plan.seed, member.plan.lam, member.plan.risk] for member in self.members]
        rows = [
            rows
            for part in self.parts
            for rows in (part.labelled_rows, part.validation_rows, part.unlabelled_rows)
        ]
        seen = [validation.x, validation.y] if validation else []
        seen += [] if data.propensity is None else [data.propensity]
        return {
            "plan": self.plan.as_dict(),
            "data": {
                "name": data.name,
                "shape": list(data.x.shape),
                "rows_sha256": sha256_of(data.ids, data.y, data.x, *rows, *seen),
            },
            "runs": len(self.members),
            "runs_sha256": hashlib.sha256(json.dumps(own).encode()).hexdigest(),
            **parts_identity(self.step.surrogate, self.originals[0]),
        }

    def _weights(self) -> dict[str, dict[str, Tensor]]:
        return {
            "parameters": dict(self.models.parameters),
            "buffers": dict(self.models.buffers),
            "average": dict(self.step.average),
            "kept": dict(self.kept),
        }

    def own_state(self) -> Checkpoint:
        """Return the weights and other state that the next step depends on."""
        state: dict[str, Any] = {
            "optimiser": self.step.optimiser.state_dict(),
            "rows": self.rows.state_dict(),
        }
        if self.logits:
            state["logits"] = torch.stack(self.logits)
        return Checkpoint(self._weights(), state)

    def put_back(self, saved: Checkpoint) -> None:
        """Resume from what :meth:`own_state` returned."""
        with torch.no_grad():
            for part, tensors in self._weights().items():
                for name, tensor in tensors.items():
                    tensor.copy_(saved.weights[part][name])
        self.step.restore(saved.state["optimiser"])
        self.rows.load_state_dict(saved.state["rows"])
        self.logits = list(saved.state["logits"]) if self.keep_logits and self.validation else []


def _setting(parts: Sequence[SemiData], plans: Sequence[TrainPlan]) -> Setting:
    weights = {}
    for risk in {plan.risk for plan in plans}:
        its = [pair for pair in zip(plans, parts, strict=True) if pair[0].risk == risk]
        known = [w for w in (unlabelled_weights(*pair) for pair in its) if w is not None]
        weights[risk] = torch.stack(known) if known else None
    return Setting([plan.lam for plan in plans], [plan.risk for plan in plans], weights)
