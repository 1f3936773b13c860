"""K runs between two steps: what each has found, what is kept of it, and the state of them all."""

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from dessl.data import SemiData
from dessl.surrogates.base import Surrogate
from dessl.training.checkpoint import Checkpoint
from dessl.training.clock import Clock
from dessl.training.event import Event, history_from, history_text
from dessl.training.model_state import put_into
from dessl.training.plan import TrainPlan
from dessl.training.population_rows import RowsAhead
from dessl.training.population_step import PopulationStep, Setting, decayed_names
from dessl.training.population_watch import Validation
from dessl.training.run import TrainResult
from dessl.training.selection import Selection
from dessl.training.stacked_model import StackedModel
from dessl.training.step import unlabelled_weights
from dessl.training.streams import streams
from dessl.training.totals import NAMES


@dataclass
class Member:
    """One run of a population: its plan, its history, its best evaluation, and its end."""

    plan: TrainPlan
    history: list[Event] = field(default_factory=list)
    selection: Selection = field(default_factory=Selection)
    ended: int | None = None  # the step it ended at, before the last
    diverged: bool = False


class Population:
    """Runs of one architecture, one plan but for seed, λ and risk, and one kind of batch.

    Args:
        models: One for each run, on the data's device.
        surrogate: Without state.
        parts: The data with each run's labels.
        plans: One for each run, equal risks beside each other.
        validation: Each run's validation rows.
        fast: As in :class:`~dessl.training.stacked_model.StackedModel`.
    """

    def __init__(
        self,
        models: Sequence[nn.Module],
        surrogate: Surrogate,
        data: SemiData,
        parts: Sequence[SemiData],
        plans: Sequence[TrainPlan],
        validation: Validation | None,
        *,
        fast: bool,
    ) -> None:
        plan, n_labelled = plans[0], parts[0].n_labelled
        self.plan, self.validation, self.originals = plan, validation, list(models)
        self.steps = plan.total_steps(n_labelled)
        self.interval = plan.evaluation_interval(n_labelled)
        self.epoch_steps = plan.epoch_steps(n_labelled)
        self.members = [Member(plan) for plan in plans]
        self.models = StackedModel(models, fast=fast)
        if plan.compile == "on" or (plan.compile == "auto" and data.device.type == "cuda"):
            self.models.compile(strict=plan.compile == "on")
        self.rows = RowsAhead(list(map(streams, parts, plans)), steps=self.steps)
        self.step = PopulationStep(
            self.models,
            surrogate,
            data,
            plan,
            _setting(parts, plans),
            self.rows,
            steps=self.steps,
            decayed=decayed_names(models[0]),
        )
        self.kept = {name: value.detach().clone() for name, value in self._state().items()}
        self.done, self.clock = 0, Clock()

    def _state(self) -> dict[str, Tensor]:
        """What is evaluated: parameters (averaged ones, where there are any) and buffers."""
        return {**self.step.evaluated, **self.models.buffers}

    @property
    def finished(self) -> bool:
        """Whether all steps are done or every run has ended."""
        return self.done >= self.steps or all(member.ended for member in self.members)

    def next_stop(self) -> int:
        """Return the step of the next evaluation."""
        return min(self.steps, (self.done // self.interval + 1) * self.interval)

    def observe(self, began: float) -> list[Event]:
        """Evaluate all runs, select, end those out of patience; returns the events of this look.

        Args:
            began: When the steps since the last look began, by ``time.perf_counter``.
        """
        totals = self.step.totals
        taken = self.done - (self.done - 1) // self.interval * self.interval
        means = (totals.sums / taken).T.tolist()
        bad_steps = totals.bad_step.tolist()
        totals.restart()
        pace = taken / (time.perf_counter() - began)
        metrics: list[dict[str, float | None] | None] | None = None
        if self.validation:
            metrics = self.validation.metrics(self.models, self.step.evaluated, self.plan.select)
        events, keep = [], []
        for k, member in enumerate(self.members):
            overflows = metrics is not None and metrics[k] is None
            if member.ended is None and (bad_steps[k] or overflows):
                self._end_diverged(member, bad_steps[k] or self.done)
            if member.ended is not None:
                keep.append(False)
                continue
            found = dict(zip(NAMES, means[k], strict=True))
            keep.append(self._take(member, found, metrics[k] if metrics else None, pace))
            events.append(member.history[-1])
        chosen = torch.tensor(keep, device=totals.sums.device)
        self._keep(chosen)
        return events

    def _take(
        self,
        member: Member,
        found: dict[str, Any],
        metrics: dict[str, float | None] | None,
        pace: float,
    ) -> bool:
        """Add one event to a run's history; returns whether its state is to be kept."""
        plan, last = member.plan, self.done - 1
        if not plan.drawn_unlabelled:
            found["mask_unlabelled"] = None
        best = False
        if plan.select != "last":
            value = (metrics or {}).get(plan.select)
            best = member.selection.take(value, self.done, plan)
        event = Event(
            step=self.done,
            steps=self.steps,
            epoch=self.done / self.epoch_steps,
            learning_rate=plan.learning_rate_at(last, self.steps),
            lam=plan.lam_at(last, self.steps),
            steps_per_second=pace,
            validation=metrics,
            best=best,
            **found,
        )
        member.history.append(event)
        if plan.patience is not None and member.selection.waited >= plan.patience:
            member.ended = self.done
        return best or not member.selection.step  # the last one, until one is selected

    def _end_diverged(self, member: Member, step: int) -> None:
        member.ended, member.diverged = step, True
        plan = member.plan
        warnings.warn(
            f"the run of seed {plan.seed}, risk {plan.risk!r} and λ = {plan.lam:g} diverged at "
            f"step {step} and was ended; the other runs go on. What it had before is kept.",
            UserWarning,
            stacklevel=4,
        )

    @torch.no_grad()
    def _keep(self, chosen: Tensor) -> None:
        """Copy the state of the chosen runs, (K,), without a look at any other's."""
        for name, value in self._state().items():
            mask = chosen.view(-1, *(1,) * (value.ndim - 1))
            self.kept[name].copy_(torch.where(mask, value, self.kept[name]))

    def results(self) -> list[TrainResult]:
        """One result for each run, its model holding the selected weights."""
        mode = "population" + (" compiled" if self.models.is_compiled else "")
        mode += " graph" if self.step.is_graph else ""
        share, found = self.clock.seconds / len(self.members), []
        for k, (model, member) in enumerate(zip(self.originals, self.members, strict=True)):
            put_into(model, {name: value[k] for name, value in self.kept.items()})
            ended = member.ended or self.done
            evaluated = member.history[-1].step if member.history else 0
            chosen = member.selection.step or evaluated
            how = (member.plan, mode, share, member.diverged)
            found.append(TrainResult(model.eval(), tuple(member.history), chosen, ended, *how))
        return found

    def checkpoint(self) -> Checkpoint:
        """Return all that the next step depends on."""
        weights = {
            "parameters": dict(self.models.parameters),
            "buffers": dict(self.models.buffers),
            "average": dict(self.step.average),
            "kept": dict(self.kept),
        }
        members = [
            {
                "history": history_text(member.history),
                "selection": vars(member.selection),
                "ended": member.ended,
                "diverged": member.diverged,
            }
            for member in self.members
        ]
        state = {
            "done": self.done,
            "seconds": self.clock.seconds,
            "optimiser": self.step.optimiser.state_dict(),
            "rows": self.rows.state_dict(),
            "members": members,
            "random": torch.get_rng_state(),
        }
        device = self.step.data.device
        if device.type == "cuda":
            state["random_cuda"] = torch.cuda.get_rng_state(device)
        return Checkpoint(weights, state)

    def restore(self, saved: Checkpoint) -> None:
        """Go on from a checkpoint."""
        weights, state = saved
        mine = (self.models.parameters, self.models.buffers, self.step.average, self.kept)
        with torch.no_grad():
            for names, part in zip(("parameters", "buffers", "average", "kept"), mine, strict=True):
                for name, value in weights[names].items():
                    part[name].copy_(value)
        self.step.restore(state["optimiser"])
        self.rows.load_state_dict(state["rows"])
        for member, its in zip(self.members, state["members"], strict=True):
            member.history = history_from(its["history"])
            member.selection = Selection(**its["selection"])
            member.ended, member.diverged = its["ended"], its["diverged"]
        self.done = state["done"]
        self.clock.go_on(state["seconds"])
        torch.set_rng_state(state["random"])
        device = self.step.data.device
        if device.type == "cuda":
            torch.cuda.set_rng_state(state["random_cuda"], device)


def _setting(parts: Sequence[SemiData], plans: Sequence[TrainPlan]) -> Setting:
    weights = [unlabelled_weights(plans[0], part) for part in parts]
    known = [weight for weight in weights if weight is not None]
    return Setting(
        [plan.lam for plan in plans],
        [plan.risk for plan in plans],
        torch.stack(known) if known else None,
    )
