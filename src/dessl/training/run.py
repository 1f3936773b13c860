"""One run: :func:`train`, and all that changes between its first step and its last."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dessl import _checks
from dessl.data import SemiData
from dessl.evaluation.metrics.from_predictions import warn_of_probabilities
from dessl.risk import RISKS
from dessl.surrogates import Surrogate, as_surrogate
from dessl.surrogates.base import Rows, forked, seed_generators
from dessl.surrogates.codes import noise_on_codes
from dessl.surrogates.weak_to_strong import slow_statistics
from dessl.training.accelerate import Accelerated
from dessl.training.checkpoint import PLACE, Checkpoint
from dessl.training.folder import RunFolder, locked_folder
from dessl.training.guard import DivergenceError, NotFiniteError, divergence, past_bound
from dessl.training.identity import data_identity, parts_identity
from dessl.training.loop import Trainable, drive
from dessl.training.member import Callback, Event, Member, TrainResult, checked_callbacks
from dessl.training.model_state import (
    check_all_in_tensors,
    check_initialised,
    load_state_into,
    state_of,
)
from dessl.training.online import last_layer_gradients, linear_layers, next_lam
from dessl.training.plan import TrainPlan
from dessl.training.ranks import from_first, rank
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
from dessl.training.shared_model import restore_norms, synchronise_norms
from dessl.training.step import Step, check_propensity, plan_for, stored_stream, streams
from dessl.training.watch import LEAST_ROWS, drawn_ids, id_range, levels, not_held_out, watched


def train(
    model: nn.Module | Callable[[], nn.Module],
    surrogate: str | Surrogate | Callable[..., Tensor],
    data: SemiData,
    plan: TrainPlan,
    *,
    callbacks: Sequence[Callback] = (),
    out: str | Path | None = None,
    resume: bool = True,
    transform: Callable[[Tensor], Tensor] | None = None,
    progress: bool = True,
    sync_batch_norm: bool = False,
    checkpoint_seconds: float = 0.0,
) -> TrainResult:
    """Train a model on labelled and unlabelled rows, on the device where the data is.

    Under ``torchrun``, within :func:`dessl.training.ranks.process_group`, the ranks train one model
    together on the same batches; only rank 0 writes, shows progress and runs callbacks.

    Runs of one seed draw the same rows at every step, whatever their risk and λ, so that their
    differences are paired. The complete case draws labelled rows only.

    Args:
        model: Network from rows (n, ...), transformed by the surrogate's views, to logits (n,
            classes). It is trained in place. A function that builds it is called with ``plan.seed``
            set, so that runs of one seed start with the same weights. Its parameters and all
            buffers, persistent or not, are selected and saved.
        surrogate: The unlabelled term H, its name in ``dessl.SURROGATES``, or a function h(logits)
            or h(model, x).
        data: Data with its labels drawn; its validation part is used at evaluations. Validation
            rows that are not part of x get the ids after the largest, for terms that look up rows.
        plan: Training plan.
        callbacks: Functions called with an :class:`Event` at every evaluation.
        out: Folder for ``run.json``, ``history.jsonl`` and checkpoints; None to keep nothing.
        resume: Whether to resume from the checkpoints in ``out``; if False, a folder with a run
            is refused.
        transform: Transform of rows in evaluation; pass the normalisation of the views. Default:
            levels in [0, 1] for uint8 images, unchanged rows otherwise.
        progress: Whether to show a progress bar on a terminal.
        sync_batch_norm: Whether BatchNorm computes its statistics over the rows of all ranks, as in
            one process, by PyTorch's ``SyncBatchNorm``; only on GPUs. Default: each rank's own.
        checkpoint_seconds: Least time between two checkpoints; the last step is always saved, and
            sharded weights at every evaluation, like all by default.

    >>> from dessl.models import MLP
    >>> x = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
    >>> y = (x[:, 0] > 0).long()
    >>> data = SemiData(x[:40], torch.where(torch.arange(40) < 10, y[:40], -1),
    ...                 validation=(x[40:], y[40:]))
    >>> plan = TrainPlan(steps=60, labelled_batch=10, unlabelled_batch=30, learning_rate=0.1)
    >>> result = train(lambda: MLP(2, 2), "entropy", data, plan)
    >>> result.steps, len(result.history), sorted(result.history[-1].validation)[:2]
    (60, 20, ['accuracy', 'adaptive_ece'])
    """
    surrogate, callbacks = as_surrogate(surrogate), checked_callbacks(callbacks)
    _check(plan, data)
    _checks.number("checkpoint_seconds", checkpoint_seconds, low=0)
    plan = plan_for(plan, data)
    if warning := not_held_out(data):
        warnings.warn(warning, UserWarning, stacklevel=2)
    if transform is None and data.is_image:
        transform = levels
    first = rank() == 0
    with _seeded(plan.seed, data.device), locked_folder(out if first else None) as folder:
        model = _built(model, plan.seed, data.device)
        if not first:  # each rank has its own dropout
            seed_generators(hash((plan.seed, rank())) % 2**63, data.device)
        check_initialised(model)
        if folder or plan.select != "last" or plan.ema:
            check_all_in_tensors(model)
        if RISKS[plan.risk].unlabelled and (said := slow_statistics(model, surrogate)):
            warnings.warn(said, UserWarning, stacklevel=2)
        if RISKS[plan.risk].unlabelled and (said := noise_on_codes(model, surrogate, data.x)):
            warnings.warn(said, UserWarning, stacklevel=2)
        if plan.online:
            linear_layers(model)  # refuse a model without one before the first step
        run = Run(model, surrogate, data, plan, transform, sync_batch_norm=sync_batch_norm)
        run.save_seconds = checkpoint_seconds
        try:
            drive(
                run,
                folder,
                shared=None if out is None else RunFolder(Path(out)),
                resume=resume,
                callbacks=callbacks if first else (),
                progress=progress and first,
            )
        finally:
            restore_norms(run.norms)
        return run.result()


class Run(Trainable):
    """A run between two steps.

    Args:
        model: Model to train.
        surrogate: The unlabelled term; its state and its draws start anew.
        data: Data on the training device.
        plan: Training plan.
        transform: Transform of rows in evaluation.
        sync_batch_norm: Same as in :func:`train`.

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
        sync_batch_norm: bool = False,
    ) -> None:
        self.member = Member(plan, data.n_labelled)
        super().__init__([self.member], data.device)
        self.plan, self.data, self.transform = plan, data, transform
        self.is_sharded = is_sharded(model)
        surrogate.restart_draws()
        model.to(data.device).train()
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
        self._parts = parts_identity(surrogate, model)
        self.norms = synchronise_norms(model) if sync_batch_norm else []
        self.step = Step(model, surrogate, data, plan)
        self.accelerated = Accelerated(self.step)
        self.batches = streams(data, plan)
        self.stored = stored_stream(data, plan)
        self.selected: dict[str, Tensor] | None = None
        self.online_lam = 0.0  # used if the plan has online=True
        self._begun = False  # whether a step was taken since the start or a resume

    def lam_at(self, step: int) -> float:
        """Return λ of a step, the first being 0."""
        peak = self.plan.lam_at(step, self.steps)
        return min(self.online_lam, peak) if self.plan.online else peak

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
        """Check what only a pass shows: a sum's bound, the layer of an online λ, probabilities."""
        self._begun = True
        plan, model, surrogate = self.plan, self.step.model, self.step.surrogate
        if warning := past_bound(plan.lam, plan, surrogate):
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
        )
        if self.plan.online:
            lam = next_lam(self.online_lam, step.model, step.surrogate, self.data, self.plan)
            divide_again(step.model)
            self.online_lam = from_first(lambda: lam)
        if len(self.member.history) == 1:
            self._warn_of_zero(event)
        if event.best:
            now = state_of(evaluated)
            self.selected = {name: value.detach().clone() for name, value in now.items()}
        return [event]

    def _warn_of_zero(self, event: Event) -> None:
        """Warn if H, which is rarely 0, was 0 for every row up to the first evaluation."""
        used = RISKS[self.plan.risk].unlabelled and self.lam_at(self.done - 1) > 0
        name, zero = type(self.step.surrogate).__name__, event.mask_unlabelled == 0
        if used and zero and event.mask_labelled == 0 and self.step.surrogate.rarely_zero:
            warnings.warn(
                f"H of {name} was exactly 0 for every row of the first {self.done} steps, so "
                "unlabelled rows have no effect. Check that the model's predictions depend on what "
                f"{name} changes in a row, or that your function can be other than 0.",
                UserWarning,
                stacklevel=2,
            )

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
            state["online_lam"] = self.online_lam
        if step.average:
            weights["average"] = state_of(step.average.model)
            state["average_steps"] = step.average.steps
        if self.selected is not None:
            weights["selected"] = self.selected
        if self.is_sharded:
            same_buffers(step.model)
            state["optimiser"], weights["optimiser"] = apart_from_tensors(state["optimiser"])
            state["shards"] = {part: list(tensors) for part, tensors in weights.items()}
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
        if self.plan.online:
            self.online_lam = float(state["online_lam"])

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


def _check(plan: TrainPlan, data: SemiData) -> None:
    if not isinstance(plan, TrainPlan):
        raise TypeError(f"plan must be a TrainPlan; got {type(plan).__name__}.")
    if not isinstance(data, SemiData):
        raise TypeError(
            f"data must be a SemiData; got {type(data).__name__}. From arrays: dessl.SemiData(x, "
            "y); from a PyTorch Dataset: dessl.SemiData.from_dataset(dataset). To keep your own "
            "loaders, keep your loop and call dessl.objective in it."
        )
    check_propensity(plan.risk, data)
    if plan.online and (data.validation is None or len(data.validation.y) < LEAST_ROWS):
        raise ValueError(
            f"online=True needs at least {LEAST_ROWS} validation rows, which λ follows. Hold rows "
            "out with draw_labels(..., n_validation=...), or use a fixed lam."
        )
    if plan.online and data.propensity is not None:
        raise ValueError(
            "online=True estimates λ for labels that are missing completely at random, but data "
            "has propensities. Use a fixed lam."
        )
    if plan.select != "last" and data.validation is None:
        raise ValueError(
            f"select={plan.select!r} needs a validation part, but data has none. Hold rows out "
            "with draw_labels(..., n_validation=...), or keep select='last'."
        )


def _built(
    model: nn.Module | Callable[[], nn.Module], seed: int, device: torch.device
) -> nn.Module:
    if isinstance(model, nn.Module):
        return model
    built = model() if callable(model) else model
    if not isinstance(built, nn.Module):
        raise TypeError(
            f"model must be an nn.Module or a function that builds one; got {type(built).__name__}."
        )
    # So that dropout is the same whether the model was given or built.
    seed_generators(seed, device)
    return built


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed PyTorch's own generators for the run, and restore them after it.

    On CUDA, let cuDNN time its convolutions once: shapes never change.
    """
    cudnn = torch.backends.cudnn
    before = cudnn.benchmark
    cudnn.benchmark = before or device.type == "cuda"
    try:
        with forked(device):
            seed_generators(seed, device)
            yield
    finally:
        cudnn.benchmark = before
