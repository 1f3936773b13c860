"""A run's state: all that moves between its first step and its last, saved and restored whole."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dessl.data import SemiData
from dessl.surrogates.base import Surrogate
from dessl.training.checkpoint import Checkpoint
from dessl.training.clock import Clock
from dessl.training.event import Event, history_from, history_text
from dessl.training.model_state import put_into, state_of
from dessl.training.plan import TrainPlan
from dessl.training.selection import Selection
from dessl.training.step import Step
from dessl.training.streams import streams
from dessl.training.watch import id_range, watched


@dataclass(frozen=True)
class TrainResult:
    """What training gives back.

    Attributes:
        model: The model that was given (or built), with the selected weights, in evaluation mode.
        history: One event for each evaluation.
        step: The step whose weights were selected.
        steps: Steps done: fewer than planned where patience ran out.
        plan: How it was trained.
        mode: How steps were run: ``"eager"``, ``"compiled"``, ``"graph"``, ``"compiled graph"``.
        seconds: That it took, evaluations and compiling included. Of a training that was broken off
            and gone on with, up to each checkpoint that led on; of a population's run, its share.
        diverged: Whether it is a population's run that was ended for that; :func:`dessl.train`
            raises an error instead.
    """

    model: nn.Module
    history: tuple[Event, ...]
    step: int
    steps: int
    plan: TrainPlan
    mode: str
    seconds: float
    diverged: bool = False


class Run:
    """A run between two steps.

    Args:
        model: What is trained.
        surrogate: The unlabelled term; its state and its draws begin anew.
        data: On the device where to train.
        plan: How.
        transform: What the model sees of a row in evaluation.
    """

    def __init__(
        self,
        model: nn.Module,
        surrogate: Surrogate,
        data: SemiData,
        plan: TrainPlan,
        transform: Callable[[Tensor], Tensor] | None,
    ) -> None:
        self.plan, self.data, self.transform = plan, data, transform
        self.steps = plan.total_steps(data.n_labelled)
        self.interval = plan.evaluation_interval(data.n_labelled)
        surrogate.restart_draws()
        model.to(data.device).train()
        if data.device.type == "cuda" and data.x.ndim == 4:
            model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        surrogate.prepare(model, id_range(data), data.n_classes)
        surrogate.to(data.device).train()
        surrogate.draws_from(data.ids[torch.cat([data.labelled_rows, data.unlabelled_rows])])
        self.step = Step(model, surrogate, data, plan)
        self.batches = streams(data, plan)
        self.done, self.clock = 0, Clock()
        self.history: list[Event] = []
        self.selection = Selection()
        self.selected: dict[str, Tensor] | None = None

    @property
    def finished(self) -> bool:
        """Whether all steps are done or patience has run out."""
        patience = self.plan.patience
        return self.done >= self.steps or (
            patience is not None and self.selection.waited >= patience
        )

    @property
    def evaluated(self) -> nn.Module:
        """The model that is measured and kept: the averaged one, where there is one."""
        return self.step.average.model if self.step.average else self.step.model

    def next_stop(self) -> int:
        """Return the step of the next evaluation."""
        return min(self.steps, (self.done // self.interval + 1) * self.interval)

    def observed(self, began: float) -> Event:
        """Return the event of the steps since the last one, and begin to count anew.

        Args:
            began: When those steps began, by ``time.perf_counter``.
        """
        plan, totals, last = self.plan, self.step.totals, self.done - 1
        means = totals.means()
        seconds = time.perf_counter() - began
        taken = self.done - (self.history[-1].step if self.history else 0)
        totals.restart()
        watch = watched(
            self.evaluated,
            self.step.model,
            self.step.surrogate,
            self.data,
            plan,
            self.transform,
        )
        if not plan.drawn_unlabelled:
            means |= {"mask_unlabelled": None}  # type: ignore[dict-item]
        event = Event(
            step=self.done,
            steps=self.steps,
            epoch=self.done / plan.epoch_steps(self.data.n_labelled),
            learning_rate=plan.learning_rate_at(last, self.steps),
            lam=plan.lam_at(last, self.steps),
            steps_per_second=taken / seconds,
            validation=watch and watch.metrics,
            correlation=watch and watch.correlation,
            lam_opt=watch and watch.lam_opt,
            best=self._select(watch.metrics if watch else {}),
            **means,
        )
        self.history.append(event)
        return event

    def _select(self, metrics: Mapping[str, float | None]) -> bool:
        select = self.plan.select
        if select == "last":
            return False
        best = self.selection.take(metrics.get(select), self.done, self.plan)
        if best:
            now = state_of(self.evaluated)
            self.selected = {name: value.detach().clone() for name, value in now.items()}
        return best

    def checkpoint(self) -> Checkpoint:
        """Return all that the next step depends on."""
        step, device = self.step, self.data.device
        weights: dict[str, dict[str, Tensor]] = {"model": state_of(step.model)}
        state: dict[str, Any] = {
            "done": self.done,
            "seconds": self.clock.seconds,
            "optimiser": step.optimiser.state_dict(),
            "surrogate": step.surrogate.state_dict(),
            "streams": self.batches.state_dict(),
            "random": torch.get_rng_state(),
            "history": history_text(self.history),
            "selection": vars(self.selection),
        }
        if device.type == "cuda":
            state["random_cuda"] = torch.cuda.get_rng_state(device)
        if step.average:
            weights["average"] = state_of(step.average.model)
            state["average_steps"] = step.average.steps
        if self.selected is not None:
            weights["selected"] = self.selected
        whole = state_of(step.surrogate)
        if whole.keys() - state["surrogate"].keys():  # a teacher has buffers that it leaves out
            weights["surrogate"] = whole
        return Checkpoint(weights, state)

    def restore(self, saved: Checkpoint) -> None:
        """Go on from a checkpoint, bit for bit."""
        step, device, (weights, state) = self.step, self.data.device, saved
        put_into(step.model, weights["model"])
        if step.average:
            put_into(step.average.model, weights["average"])
            step.average.steps.copy_(state["average_steps"])
        if "selected" in weights:
            self.selected = {k: v.to(device) for k, v in weights["selected"].items()}
        step.optimiser.load_state_dict(state["optimiser"])
        step.surrogate.load_state_dict(state["surrogate"])
        if "surrogate" in weights:
            put_into(step.surrogate, weights["surrogate"])
        self.batches.load_state_dict(state["streams"])
        torch.set_rng_state(state["random"])
        if device.type == "cuda":
            torch.cuda.set_rng_state(state["random_cuda"], device)
        self.history = history_from(state["history"])
        self.selection = Selection(**state["selection"])
        self.done = state["done"]
        self.clock.go_on(state["seconds"])

    def result(self, mode: str) -> TrainResult:
        """Put the selected weights into the model and hand it over."""
        model, chosen = self.step.model, self.done
        if self.selected is not None:
            put_into(model, self.selected)
            chosen = self.selection.step
        elif self.step.average:
            put_into(model, state_of(self.step.average.model))
        model.eval()
        how = (self.plan, mode, self.clock.seconds)
        return TrainResult(model, tuple(self.history), chosen, self.done, *how)
