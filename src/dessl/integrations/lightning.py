"""Lightning: surrogate + objective as a LightningModule, two streams of rows as a DataModule.

Needs ``pip install 'dessl[lightning]'``. The Trainer, its loggers, strategies and checkpoints work
as usual.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from dessl import _checks
from dessl.evaluation.metrics.from_predictions import warn_of_probabilities
from dessl.functional import cross_entropy, log_probabilities
from dessl.integrations.lightning_batches import mean_of_ranks, nonnegative, risk_options, two_parts
from dessl.objective import RiskKind
from dessl.risk import RISKS, Bound, On, Risk
from dessl.schedules import CONSTANT, ScheduleLike, schedule_from
from dessl.surrogates import Rows, Scores, Surrogate, as_surrogate
from dessl.surrogates.passes import slow_statistics
from dessl.surrogates.state import device_of
from dessl.training.guard import (
    DivergenceError,
    check_classes,
    divergence,
    no_effect,
    not_finite,
    past_bound,
    without_gradient,
)
from dessl.training.plan import TrainPlan
from dessl.training.ranks import lost_ranks, ranks
from dessl.training.step import plan_for
from dessl.training.totals import Totals
from dessl.training.whole_step import WholeStep

try:
    import lightning
    from lightning.pytorch.core.optimizer import LightningOptimizer
    from torchmetrics import MeanMetric
    from torchmetrics.utilities.distributed import gather_all_tensors

    from dessl.integrations.lightning_rows import SemiDataModule
except ImportError as error:
    raise ImportError(
        "Lightning is not installed. Install it with pip install 'dessl[lightning]'."
    ) from error

__all__ = ["DeSSLModule", "SemiDataModule"]


class DeSSLModule(lightning.LightningModule):
    """A model trained with an unlabelled term; batches are those of :class:`SemiDataModule`.

    Your own loaders, in a ``CombinedLoader``, may yield such batches too. With
    DistributedDataParallel (``"ddp"``), the means of the risk and the state of the surrogate are
    computed over the rows of all processes, even if these have different numbers of rows.

    A fit warns if λ is past the surrogate's bound, and ends with a
    :class:`dessl.training.DivergenceError` if a step's risk was not finite or too large. This is
    checked before each validation, at the end of each epoch, and when a logger reads values.

    Args:
        model: Maps rows, as transformed by the surrogate's views, to logits (n, classes).
        surrogate: The unlabelled term H, its name, or a function that :func:`dessl.as_surrogate`
            accepts.
        lam: Peak λ.
        ramp: Schedule of λ over the steps of the fit, as in :class:`dessl.TrainPlan`.
        risk: A key of ``dessl.risk.RISKS``. ``"debiased"`` weights labels by 1/π if the data has
            propensities.
        on: Same as in :class:`dessl.TrainPlan`; with ``"all"``, your own loaders must yield
            weights.
        bound: Same as in :func:`dessl.debiased_risk`, for the rows of all processes; with
            ``accumulate_grad_batches``, for each batch.
        learning_rate: Learning rate of AdamW; override ``configure_optimizers`` for anything else.
        transform: Transforms rows for evaluation; by default levels / 255 for uint8 images, and no
            change otherwise.
        risk_limit: Size of the risk above which the fit counts as diverged.
        n_rows: One more than the largest row id. Required for your own loaders only.
        n_classes: Number of classes. Required for your own loaders only.
    """

    def __init__(
        self,
        model: nn.Module,
        surrogate: str | Surrogate | Callable[..., Tensor],
        *,
        lam: float = 1.0,
        ramp: ScheduleLike = CONSTANT,
        risk: RiskKind = "debiased",
        on: On = "unlabelled",
        bound: Bound | None = None,
        learning_rate: float = 1e-3,
        transform: Callable[[Tensor], Tensor] | None = None,
        risk_limit: float = TrainPlan.risk_limit,
        n_rows: int | None = None,
        n_classes: int | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(model, nn.Module):
            raise TypeError(
                f"model must be an nn.Module; got {type(model).__name__}. If it is a function that "
                "builds one, call it."
            )
        self.model = model
        self.surrogate = as_surrogate(surrogate)
        self.lam = _checks.number("lam", lam, low=0, open_high=True)
        self._plan = TrainPlan(
            steps=1, ramp=ramp, risk=risk, on=on, bound=bound, risk_limit=risk_limit
        )
        self.risk, self.risk_limit = risk, risk_limit
        self.learning_rate, self.transform = learning_rate, transform
        # Lightning averages plain numbers wrongly if processes have different numbers of rows.
        self._accuracy, self._cross_entropy = MeanMetric("disable"), MeanMetric("disable")
        self._given_sizes = n_rows, n_classes
        self._sizes: tuple[int, int] | None = None  # rows and classes that H is prepared for
        self._ready = False  # prepared for the fit that is about to start
        self._represents: float | None = None  # rows per unlabelled row, relative to a labelled one
        self._steps = 1  # of the fit, if λ depends on them
        self._begun = False  # whether this fit has trained on a batch
        self._still_h: Tensor | None = None  # of the last batch, if it had no gradient
        self._seen: dict[int, tuple[Rows, Scores]] = {}  # of each batch since the last step
        self._moved_at = 0  # step after which the surrogate was last updated
        self._totals: Totals | None = None  # of the epoch's batches, on the device
        self._steps_before = 0  # optimiser steps before them

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (n, classes) of untransformed rows."""
        if self.transform is not None:
            x = self.transform(x)
        elif x.dtype == torch.uint8:
            x = x.float() / 255
        logits: Tensor = self.model(x)
        return logits

    def setup(self, stage: str) -> None:
        """Create the surrogate's state once the data is known, before a checkpoint is loaded."""
        if stage == "fit":
            self._prepare_for_fit()

    def configure_model(self) -> None:
        """Do the same for callbacks that copy the module in their setup, which runs before ours."""
        trainer = self._trainer  # None where a checkpoint is read without one
        if trainer is not None and trainer.state.fn == "fit":
            self._prepare_for_fit()

    def on_fit_start(self) -> None:
        """Record that this fit has its state: another fit creates its own."""
        self._ready = False
        for metric in (self._accuracy, self._cross_entropy):
            metric.reset()  # Trainer.validate leaves tensors that a fit cannot update

    def _prepare_for_fit(self) -> None:
        if self._ready:
            return
        module = self.trainer.datamodule  # type: ignore[attr-defined]
        n_rows, n_classes = self._given_sizes
        self._represents = None
        if isinstance(module, SemiDataModule):
            data = module.data
            # Refuse data without the rows that the risk needs, or with π that an option excludes.
            plan_for(replace(self._plan, unlabelled_batch=module.batches.unlabelled.size), data)
            self._represents = module.represents
            self._prepare(int(data.ids.max()) + 1, data.n_classes)
            drawn = torch.cat([data.labelled_rows, data.unlabelled_rows])
            self.surrogate.draws_from(data.ids[drawn].to(device_of(self.model)))
        elif n_rows is None or n_classes is None:
            raise TypeError(
                "a DeSSLModule is trained on a SemiDataModule; got "
                f"{'other loaders' if module is None else type(module).__name__}. Call "
                "trainer.fit(module, SemiDataModule(data)), or pass n_rows and n_classes to the "
                "module to train on your own loaders."
            )
        else:
            self._prepare(n_rows, n_classes)
        self._seen.clear()
        self._ready = True

    def _prepare(self, n_rows: int, n_classes: int) -> None:
        if RISKS[self.risk].unlabelled and (said := slow_statistics(self.model, self.surrogate)):
            warnings.warn(said, UserWarning, stacklevel=2)
        self.surrogate.prepare(self.model, n_rows, n_classes)
        self._sizes = n_rows, n_classes

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Save the sizes that the surrogate's state was created for."""
        if self._sizes:
            checkpoint["dessl_sizes"] = self._sizes

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Create the surrogate's state from the saved sizes if no data gave them."""
        if self._sizes is None and "dessl_sizes" in checkpoint:
            self._prepare(*checkpoint["dessl_sizes"])

    def on_train_start(self) -> None:
        """Give each process its own random views, after a checkpoint has been loaded."""
        self._count_anew()
        self._moved_at = self.trainer.global_step
        self._begun = False
        if self._plan.ramp != CONSTANT:
            self._steps = self._steps_of_the_fit()
        if self.trainer.world_size > 1 and self.global_rank:
            for part in self.surrogate.parts():
                drawn = (part.seed, self.global_rank, self.trainer.global_step)
                part.generator(self.device).manual_seed(hash(drawn) % 2**63)

    def training_step(self, batch: dict[str, Any], batch_idx: int) -> Tensor:
        """Return the risk of a batch, and log it and its parts, over all processes.

        ``batch["labelled"]`` is (x, ids, y), with propensities (x, ids, y, π);
        ``batch["unlabelled"]`` is (x, ids), with propensities or ``on="all"`` (x, ids, weights).
        """
        labelled, others = two_parts(batch, self.risk)
        y, lam = labelled.y, self._lam_at(self._steps_done() if self._trainer else 0)
        rows = Rows(torch.cat([labelled.x, others.x]), torch.cat([labelled.ids, others.ids]))
        scores = self.surrogate.step_scores(self.model, rows, len(y))
        if self._sizes:
            check_classes(scores.logits, self._sizes[1])
        self._still_h = without_gradient(scores)
        self._seen[batch_idx] = rows, Scores(scores.h.detach(), scores.logits.detach())
        options = risk_options(labelled, others, self._plan, self._represents)
        counted = options.get("weights_unlabelled")
        added = len(others.x) if counted is None else counted.sum()
        whole = WholeStep(len(y), added, device=self.device)
        try:
            risk = whole.objective(scores, y, lam, **options)
        except ValueError as error:  # on the CPU, values are checked
            if self._totals is None or not (values := not_finite(scores, len(y))):
                raise
            self._guard()  # an earlier step may have exceeded the limit
            raise self._diverged(self._steps_done() + 1, values) from error
        over_all = Risk(*mean_of_ranks(risk))
        if self._plan.bound:
            risk, over_all = (
                nonnegative(risk, over_all, lam),
                nonnegative(over_all, over_all, lam),
            )
        for name, value in zip(Risk._fields, over_all, strict=True):
            self.log("risk" if name == "value" else name, value, batch_size=len(y))
        if self._totals is not None:  # Lightning computes no norm of the gradient
            none = torch.zeros_like(scores.h)
            self._totals.add(over_all, none, len(y), none.sum())
        return risk.value

    def on_after_backward(self) -> None:
        """Warn once in a fit of what only a pass shows: probabilities, a sum's bound, a still H."""
        if not self._begun and self._seen and self.global_rank == 0:
            _, scores = next(iter(self._seen.values()))
            warn_of_probabilities(scores.logits[0])
            for warning in (
                past_bound(self.lam, self._plan, self.surrogate),
                no_effect(self._still_h, self.lam, self._plan, self.surrogate),
            ):
                if warning:
                    warnings.warn(warning, UserWarning, stacklevel=2)
        self._begun = True

    def _steps_of_the_fit(self) -> int:
        steps = self.trainer.estimated_stepping_batches
        if math.isinf(steps):
            raise ValueError(
                "ramp needs the number of steps, but this fit has no end. Pass max_steps or "
                "max_epochs to the Trainer."
            )
        if self.trainer.max_steps != -1:
            steps = min(steps, math.ceil(self.trainer.max_steps / self._counts_of_a_step()))
        return int(steps)

    def _steps_done(self) -> int:
        """Steps so far."""
        return self.trainer.global_step // self._counts_of_a_step()

    def _counts_of_a_step(self) -> int:
        """How often Lightning counts a step; by hand, once for each of several optimisers."""
        return 1 if self.automatic_optimization else max(1, len(self.trainer.optimizers))

    def _lam_at(self, step: int) -> float:
        """λ of a step, the first being 0."""
        return self.lam * schedule_from(self._plan.ramp)(step, self._steps)

    def optimizer_step(
        self,
        epoch: int,
        batch_idx: int,
        optimizer: torch.optim.Optimizer | LightningOptimizer,
        optimizer_closure: Callable[[], Any] | None = None,
    ) -> None:
        """Take the step, then update the surrogate's teachers, memories and thresholds.

        They are updated once per step, from the rows of all batches whose gradients it used, on all
        processes, and before any callback saves a checkpoint.
        """
        super().optimizer_step(epoch, batch_idx, optimizer, optimizer_closure)
        self._move_surrogate()

    def _move_surrogate(self) -> None:
        rows, scores = zip(*self._seen.values(), strict=True)
        self._seen.clear()
        self._moved_at = self.trainer.global_step
        if not any(part.moves for part in self.surrogate.parts()):
            return
        with torch.no_grad(), self._same_draws():
            x, ids = (_of_all(parts) for parts in zip(*rows, strict=True))
            h = _of_all([its.h for its in scores])
            logits = _of_all([its.logits.transpose(0, 1) for its in scores]).transpose(0, 1)
            self.surrogate.after_step(self.model, Rows(x, ids), Scores(h, logits))

    @contextmanager
    def _same_draws(self) -> Iterator[None]:
        """Draw the same numbers in every process, so that the surrogate's state stays the same."""
        parts = self.surrogate.parts() if ranks() > 1 else []
        own = [part.generator(self.device).get_state() for part in parts]
        for part in parts:
            drawn = (part.seed, self.trainer.global_step)
            part.generator(self.device).manual_seed(hash(drawn) % 2**63)
        try:
            yield
        finally:
            for part, state in zip(parts, own, strict=True):
                part.generator(self.device).set_state(state)

    def on_train_epoch_start(self) -> None:
        """Count the epoch's batches from the first."""
        self._count_anew()

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:  # noqa: ARG002
        """Check for divergence when a logger waits for the device anyway."""
        self.follow_by_hand()  # if configure_callbacks was overridden
        every = self.trainer.log_every_n_steps  # type: ignore[attr-defined]
        if self.trainer.loggers and every and (batch_idx + 1) % every == 0:
            self._guard()

    def on_validation_start(self) -> None:
        """Check for divergence before a callback can save these weights as the best."""
        if self.trainer.state.fn == "fit" and not self.trainer.sanity_checking:
            self._guard()

    def on_train_epoch_end(self) -> None:
        """Check for divergence."""
        self._guard()

    def _count_anew(self) -> None:
        # Apple's GPUs have no float64.
        self._totals = Totals(self.device, self.risk_limit, dtype=torch.float32)
        self._steps_before = self._steps_done()

    def _guard(self) -> None:
        """Stop a fit that diverged in this epoch; waits for the device."""
        (trouble,) = self._totals.troubles() if self._totals else (None,)
        if trouble:
            steps = -(-trouble.step // self.trainer.accumulate_grad_batches)
            raise self._diverged(self._steps_before + steps, trouble.values)

    def _diverged(self, step: int, values: dict[str, float]) -> DivergenceError:
        return divergence(values, step, self._lam_at(step - 1), self._plan, self.surrogate)

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:  # noqa: ARG002
        """Log accuracy and cross-entropy of fully labelled rows (x, y), over all processes."""
        self._evaluate("validation", *batch)

    def test_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:  # noqa: ARG002
        """Log the same for test rows, as ``test_accuracy`` and ``test_cross_entropy``."""
        self._evaluate("test", *batch)

    def predict_step(self, batch: Tensor | Sequence[Tensor], batch_idx: int) -> Tensor:  # noqa: ARG002
        """Return logits (n, classes) of a batch of rows x, or of (x, ...) such as (x, y)."""
        logits: Tensor = self(batch if isinstance(batch, Tensor) else batch[0])
        return logits

    def _evaluate(self, stage: str, x: Tensor, y: Tensor) -> None:
        logits = self(x)
        # One logit stands for two classes.
        hits = (log_probabilities(logits).argmax(-1) == y).float()
        self._accuracy.update(hits)
        self._cross_entropy.update(cross_entropy(logits, y))
        self.log(f"{stage}_accuracy", self._accuracy, batch_size=len(y))
        self.log(f"{stage}_cross_entropy", self._cross_entropy, batch_size=len(y))

    def follow_by_hand(self) -> None:
        """Update the surrogate after a step by hand, which does not call :meth:`optimizer_step`."""
        by_hand = not self.automatic_optimization and self._seen
        if by_hand and self.trainer.global_step != self._moved_at:
            self._move_surrogate()

    def configure_callbacks(self) -> list[lightning.Callback]:
        """Return a callback for manual optimisation: Lightning runs those that save after it."""
        return [] if self.automatic_optimization else [FollowByHand()]

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return AdamW for all parameters of the model."""
        return torch.optim.AdamW(self.model.parameters(), lr=self.learning_rate)


class FollowByHand(lightning.Callback):
    """Updates the surrogate after a manual step, before a checkpoint of that step is saved."""

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,  # noqa: ARG002 (Lightning's signature)
        pl_module: lightning.LightningModule,
        outputs: Any,  # noqa: ARG002
        batch: Any,  # noqa: ARG002
        batch_idx: int,  # noqa: ARG002
    ) -> None:
        """Update it."""
        if isinstance(pl_module, DeSSLModule):
            pl_module.follow_by_hand()


def _of_all(batches: Sequence[Tensor]) -> Tensor:
    """Return the rows of all batches on all processes, which may have different numbers."""
    mine = torch.cat(list(batches))
    if ranks() == 1:
        return mine
    with lost_ranks():
        return torch.cat(gather_all_tensors(mine))
