"""Runs of one architecture that are trained as one, with all state that changes between steps."""

import dataclasses
import hashlib
import json
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dessl.data import LabelDraw, SemiData
from dessl.objective import RiskKind
from dessl.risk import RISKS, risk_named
from dessl.surrogates import Surrogate
from dessl.training.checkpoint import Checkpoint
from dessl.training.guard import no_effect
from dessl.training.identity import parts_identity, sha256_of
from dessl.training.loop import Trainable
from dessl.training.member import Event, Member, TrainResult
from dessl.training.model_state import load_state_into
from dessl.training.optimisers import decayed_names
from dessl.training.plan import TrainPlan
from dessl.training.population_step import PopulationStep, RowsAhead, Setting
from dessl.training.stacked_model import StackedModel
from dessl.training.step import streams, unlabelled_weights
from dessl.training.watch import Validation


@dataclasses.dataclass(frozen=True)
class PopulationRun:
    """The settings of one run of a population.

    Args:
        seed: Seed of its initial weights and its streams.
        draw: Which rows are labelled, held out for validation, and unlabelled.
        lam: Peak value of λ.
        risk: A key of ``dessl.risk.RISKS``.
    """

    seed: int
    draw: LabelDraw
    lam: float = 1.0
    risk: RiskKind = "debiased"

    def __post_init__(self) -> None:
        risk_named(self.risk)
        if not isinstance(self.draw, LabelDraw):
            raise TypeError(
                f"draw must be a LabelDraw; got {type(self.draw).__name__}. Make one with "
                "dessl.data.draw_labels, or by hand: LabelDraw(labelled, validation, unlabelled)."
            )

    def plan(self, shared: TrainPlan) -> TrainPlan:
        """The plan of this run alone, for :func:`dessl.train`."""
        own: dict[str, Any] = {"seed": self.seed, "lam": self.lam, "risk": self.risk}
        if "on" not in RISKS[self.risk].options:
            own |= {"on": "unlabelled", "bound": None}
        return dataclasses.replace(shared, **own)


class Population(Trainable):
    """Runs with the same architecture, kind of batch and plan, except for seed, λ and risk.

    Args:
        models: One model for each run, on the data's device.
        surrogate: Surrogate without state.
        data: Data with all labels that any draw uses.
        runs: What differs between runs, sorted by risk.
        plan: Plan that all runs share.
        transform: Transform of rows in evaluation.
    """

    save_seconds = 60.0
    keep_logits = False  # whether to keep the validation rows' logits of every evaluation

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
                f"select={plan.select!r} needs validation rows, but the draws have none. Hold rows "
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
        self._begun = False  # whether a step was taken since the start or a resume
        self.logits: list[Tensor] = []  # (K, n, classes) of each evaluation

    def _state(self) -> dict[str, Tensor]:
        """The evaluated state: parameters (averaged ones, if any) and buffers."""
        return {**self.step.evaluated, **self.models.buffers}

    def take(self, step: int) -> None:
        """Take a step of every run; after the first, warn if H has no gradient."""
        self.step(step)
        if self._begun:
            return
        self._begun = True
        strongest = max((member.plan for member in self.members), key=lambda plan: plan.lam)
        said = no_effect(self.step.still_h, strongest.lam, strongest, self.step.surrogate)
        if said:
            warnings.warn(said, UserWarning, stacklevel=7)  # the caller of train_population

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
            f"step {step} and was stopped; the other runs continue. Its last good state is kept.",
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
            load_state_into(model, {name: value[k] for name, value in self.kept.items()})
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

    def restore_from(self, saved: Checkpoint) -> None:
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
