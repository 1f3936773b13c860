"""Run: all that changes between the first step of a training and its last."""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dessl.data import SemiData
from dessl.evaluation.metrics.from_predictions import warn_of_probabilities
from dessl.functional import cross_entropy
from dessl.objective import Loss
from dessl.surrogates import Surrogate
from dessl.surrogates.base import Rows
from dessl.training.accelerate import Accelerated
from dessl.training.checkpoint import PLACE, Checkpoint
from dessl.training.guard import (
    DivergenceError,
    NotFiniteError,
    always_zero,
    divergence,
    no_effect,
    not_resumed,
    past_bound,
)
from dessl.training.identity import data_identity, parts_identity, plain_attributes
from dessl.training.loop import Trainable
from dessl.training.member import Event, Member, TrainResult
from dessl.training.model_state import begin_training, load_state_into, state_of
from dessl.training.online import last_layer_gradients, next_lams
from dessl.training.plan import TrainPlan
from dessl.training.ranks import from_first
from dessl.training.sharded import (
    apart_from_tensors,
    check_copyable,
    divide_again,
    is_sharded,
    is_wrapped,
    read_shards,
    same_buffers,
    with_tensors,
)
from dessl.training.shared_model import synchronise_norms
from dessl.training.step import Step, stored_stream, streams
from dessl.training.watch import drawn_ids, id_range, watched


class Run(Trainable):
    """A run between two steps.

    Args:
        model: Model to train.
        surrogate: The unlabelled term; its state and its draws start anew.
        data: Data on the training device.
        plan: Training plan.
        transform: Transform of rows in evaluation.
        loss: Same as in :func:`dessl.train`.
        sync_batch_norm: Whether BatchNorm computes its statistics over all ranks.

    Attributes:
        norms: BatchNorm layers that are replaced until the end.
    """

    keeps_history = True

    def __init__(
        self,
        model: nn.Module,
        surrogate: Surrogate,
        data: SemiData,
        plan: TrainPlan,
        transform: Callable[[Tensor], Tensor] | None,
        *,
        loss: Loss = cross_entropy,
        sync_batch_norm: bool = False,
    ) -> None:
        self.member = Member(plan, data.n_labelled)
        super().__init__([self.member], data.device)
        self.plan, self.data, self.transform = plan, data, transform
        self.is_sharded = is_sharded(model)
        surrogate.restart_draws()
        begin_training(model.to(data.device))
        if data.device.type == "cuda" and data.x.ndim == 4 and not is_wrapped(model):
            model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        try:
            surrogate.prepare(model, id_range(data), data.n_classes)
        except AssertionError:  # PyTorch raises it when a wrapped model is copied
            check_copyable(model, type(surrogate).__name__)
            raise
        surrogate.to(data.device).train()
        if surrogate.counts_rows:
            surrogate.draws_from(drawn_ids(data))
        self._parts = parts_identity(surrogate, model, loss)
        self._attributes = plain_attributes(surrogate)
        self._restarted: list[str] = []  # attributes that a resumed run starts anew
        self.norms = synchronise_norms(model) if sync_batch_norm else []
        self.step = Step(model, surrogate, data, plan, loss)
        self.accelerated = Accelerated(self.step)
        self.batches = streams(data, plan)
        self.stored = stored_stream(data, plan)
        self.selected: dict[str, Tensor] | None = None
        self.online_lams = [0.0] * len(surrogate.separate_bounds)  # for plans with online=True
        self._begun = False  # whether a step was taken since the start or a resume

    def lam_at(self, step: int) -> float:
        """Return λ of a step, the first being 0."""
        peak = self.plan.lam_at(step, self.steps)
        return min(max(self.online_lams), peak) if self.plan.online else peak

    def _use_lams(self, lams: Sequence[float]) -> None:
        """Use these λ, one for each part of H, in the next steps."""
        self.online_lams = list(lams)
        if largest := max(lams):
            self.step.surrogate.set_shares([lam / largest for lam in lams])

    def _lams_at(self, step: int) -> list[float] | None:
        """λ of each part of H in a step, if there are several and λ is online."""
        if not self.plan.online or len(self.online_lams) == 1:
            return None
        largest, now = max(self.online_lams), self.lam_at(step)
        return [lam * now / largest if largest else 0.0 for lam in self.online_lams]

    def take(self, step: int) -> None:
        """Draw rows and take a step; check for divergence when the plan says so."""
        rows = torch.cat(self.batches.draw())
        stored = None if self.stored is None else Rows(*self.stored.draw())
        plan = self.plan
        try:
            rate = plan.learning_rate_at(step, self.steps)
            self.accelerated(rows, rate, self.lam_at(step), stored)
        except NotFiniteError as error:
            self._guard()  # an earlier step may have exceeded the limit
            raise self._diverged(step + 1, error.values) from error
        if not self._begun:
            self._check_first_step()
        if plan.guard_every and (step + 1) % plan.guard_every == 0:
            self._guard()

    def _check_first_step(self) -> None:
        """Check what only a pass shows: a sum's bound, H's gradient, an online λ, probabilities."""
        self._begun = True
        plan, model, surrogate = self.plan, self.step.model, self.step.surrogate
        for warning in (
            past_bound(plan.lam, plan, surrogate),
            no_effect(self.step.still_h, plan.lam, plan, surrogate),
            not_resumed(self._restarted),
        ):
            if warning:
                warnings.warn(warning, UserWarning, stacklevel=5)  # the caller of train
        if plan.online:
            last_layer_gradients(model, surrogate, self.data)
            divide_again(model)
        if self.data.validation is None:  # with one, each evaluation checks
            warn_of_probabilities(self.step.logits)

    def observe(self, began: float) -> list[Event]:
        """Evaluate, select, and reset the totals."""
        self._guard()
        (means,) = self.step.totals.means()
        pace = self.pace(began)
        self.step.totals.restart()
        step = self.step
        evaluated = step.average.model if step.average else step.model
        try:
            watch = watched(
                evaluated, step.model, step.surrogate, self.data, self.plan, self.transform
            )
        except NotFiniteError as error:
            raise self._diverged(self.done, error.values) from error
        divide_again(step.model)
        seen = from_first(lambda: watch)  # one result, so that all ranks select and end together
        event = self.member.evaluated(
            self.done,
            means,
            pace,
            validation=seen and seen.metrics,
            correlation=seen and seen.correlation,
            lam_opt=seen and seen.lam_opt,
            lam=self.lam_at(self.done - 1),
            lams=self._lams_at(self.done - 1),
        )
        if self.plan.online:
            lams = next_lams(self.online_lams, step.model, step.surrogate, self.data, self.plan)
            divide_again(step.model)
            self._use_lams(from_first(lambda: lams))
        if len(self.member.history) == 1 and (
            said := always_zero(event, step.surrogate, self.plan)
        ):
            warnings.warn(said, UserWarning, stacklevel=2)
        if event.best:
            now = state_of(evaluated)
            self.selected = {name: value.detach().clone() for name, value in now.items()}
        return [event]

    def _guard(self) -> None:
        """Stop a run whose totals include a bad step."""
        (trouble,) = self.step.totals.troubles()
        if trouble:
            before = self.member.history[-1].step if self.member.history else 0
            raise self._diverged(before + trouble.step, trouble.values)

    def _diverged(self, step: int, values: dict[str, float]) -> DivergenceError:
        lam = self.lam_at(step - 1)
        return divergence(values, step, lam, self.plan, self.step.surrogate)

    def identity(self) -> dict[str, Any]:
        """Return the fields that must match to resume."""
        own = {"plan": self.plan.as_dict(), "data": data_identity(self.data)}
        return own | self._parts

    def own_state(self) -> Checkpoint:
        """Return the weights and other state that the next step depends on."""
        step = self.step
        weights: dict[str, dict[str, Tensor]] = {"model": state_of(step.model)}
        state: dict[str, Any] = {
            "optimiser": step.optimiser.state_dict(),
            "surrogate": step.surrogate.state_dict(),
            "streams": self.batches.state_dict(),
        }
        if self.stored is not None:
            state["stored"] = self.stored.state_dict()
        if self.plan.online:
            state["online_lams"] = self.online_lams
        if step.average:
            weights["average"] = state_of(step.average.model)
            state["average_steps"] = step.average.steps
        if self.selected is not None:
            weights["selected"] = self.selected
        if self.is_sharded:
            same_buffers(step.model)
            state["optimiser"], weights["optimiser"] = apart_from_tensors(state["optimiser"])
            state["shards"] = {part: list(tensors) for part, tensors in weights.items()}
        now = plain_attributes(step.surrogate).items()
        changed = sorted(name for name, text in now if self._attributes.get(name) != text)
        if changed := [*self._restarted, *(n for n in changed if n not in self._restarted)]:
            state["not_saved"] = changed
        whole = state_of(step.surrogate)
        if whole.keys() - state["surrogate"].keys():  # a teacher omits some buffers
            weights["surrogate"] = whole
        return Checkpoint(weights, state)

    def restore_from(self, saved: Checkpoint) -> None:
        """Resume from what :meth:`own_state` returned."""
        step, (weights, state) = self.step, self._gathered(saved)
        load_state_into(step.model, weights["model"])
        if step.average:
            load_state_into(step.average.model, weights["average"])
            step.average.steps.copy_(state["average_steps"])
        selected = weights.get("selected")
        self.selected = selected and {k: v.to(self.device) for k, v in selected.items()}
        step.optimiser.load_state_dict(state["optimiser"])
        step.surrogate.load_state_dict(state["surrogate"])
        if "surrogate" in weights:
            load_state_into(step.surrogate, weights["surrogate"])
        self.batches.load_state_dict(state["streams"])
        if self.stored is not None:
            self.stored.load_state_dict(state["stored"])
        self._restarted = [str(name) for name in state.get("not_saved", ())]
        if self.plan.online:
            self._use_lams(state["online_lams"])

    def _gathered(self, saved: Checkpoint) -> Checkpoint:
        """The checkpoint with its shards read, sharded or whole, as the model needs them."""
        weights, state = saved
        if PLACE not in state:
            return saved
        own = {name: value.detach() for name, value in state_of(self.step.model).items()}
        parts: dict[str, dict[str, Tensor]] = {}
        for part, names in state["shards"].items():
            if part == "optimiser":
                parts[part] = self.step.optimiser.named_memory(names)
            else:
                parts[part] = {name: torch.zeros_like(own[name]) for name in names}
        read_shards(Path(state[PLACE]), parts)
        optimiser = with_tensors(state["optimiser"], parts.pop("optimiser", {}))
        return Checkpoint({**weights, **parts}, {**state, "optimiser": optimiser})

    def result(self) -> TrainResult:
        """Put the selected weights into the model and return it."""
        model = self.step.model
        if self.stored is not None:
            self.stored.close()
        if self.selected is not None:
            load_state_into(model, self.selected)
        elif self.step.average:
            load_state_into(model, state_of(self.step.average.model))
        return self.member.result(model, self.done, self.accelerated.mode, self.seconds)
