"""One step of training: rows → scores → risk → gradient → update, all on the device."""

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dessl.data import Batches, SemiData, StoredStream
from dessl.functional import cross_entropy
from dessl.objective import Loss, RiskKind, objective
from dessl.risk import RISKS, Risk
from dessl.surrogates.base import Rows, Scores, Surrogate
from dessl.surrogates.ema import move_average
from dessl.surrogates.state import device_of
from dessl.training.guard import (
    NotFiniteError,
    check_classes,
    check_dtype,
    check_gradient,
    check_loss,
    not_finite,
    without_gradient,
)
from dessl.training.optimisers import Optimisers
from dessl.training.plan import TrainPlan
from dessl.training.ranks import ranks
from dessl.training.sharded import check_copyable
from dessl.training.shared_model import SharedModel
from dessl.training.totals import Totals


class WeightAverage:
    """Averaged weights for evaluation: θ̄ ← θ̄ + (1 − d)(θ − θ̄), d = min(decay, 1 − 1/(t + 1)).

    The rule is that of the mean teacher: the first steps have equal weights, so that the initial
    weights are soon forgotten. Buffers, such as BatchNorm's running statistics, are copied, and so
    are whole numbers. Trained weights in half precision are refused: the average would not move.
    (PyTorch's ``swa_utils`` does not fit: it reads a counter on the device, and so waits.)

    Args:
        model: Model whose weights are averaged; it is deep-copied.
        decay: Decay in (0, 1).

    >>> model = nn.Linear(1, 1, bias=False)
    >>> average = WeightAverage(model, decay=0.9)
    >>> before = model.weight.item()
    >>> _ = nn.init.constant_(model.weight, before + 1)
    >>> average.follow(model)
    >>> round(average.model.weight.item() - before, 4)
    0.5
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.model = copy.deepcopy(model).requires_grad_(False).eval()
        self.steps = torch.zeros((), dtype=torch.int64, device=device_of(model))

    @torch.no_grad()
    def follow(self, model: nn.Module) -> None:
        """Move towards the model after its step."""
        move_average(list(self.model.parameters()), list(model.parameters()), self)
        for dtype in {buffer.dtype for buffer in self.model.buffers()}:
            averaged = [buffer for buffer in self.model.buffers() if buffer.dtype == dtype]
            current = [buffer for buffer in model.buffers() if buffer.dtype == dtype]
            torch._foreach_copy_(averaged, current)


class Step:
    """A step's device work, with all that it changes: shapes are fixed and no value is read.

    Args:
        model: Model to train.
        surrogate: Prepared surrogate, on the model's device.
        data: Data on the model's device.
        plan: Training plan.
        loss: L of logits (n, classes) and labels (n,), shape (n,).

    Attributes:
        logits: Logits (n, classes) of the last step's first view; empty before the first step.
        still_h: H (n,) of the last step if it had no gradient.
    """

    def __init__(
        self,
        model: nn.Module,
        surrogate: Surrogate,
        data: SemiData,
        plan: TrainPlan,
        loss: Loss = cross_entropy,
    ) -> None:
        self.model, self.surrogate, self.data, self.plan = model, surrogate, data, plan
        self.loss = loss
        self.optimiser = Optimisers(model, plan, data.device)
        if plan.ema:
            check_copyable(model, f"ema={plan.ema}")
        self.average = WeightAverage(model, plan.ema) if plan.ema else None
        self.totals = Totals(data.device, plan.risk_limit)
        self._seen = SharedModel(model) if ranks() > 1 else model
        self._weights = unlabelled_weights(plan, data)
        self.logits = torch.empty(0, data.n_classes)
        self.still_h: Tensor | None = None
        self._propensity = data.propensity if RISKS[plan.risk].needs_propensity else None
        self.compiled(on=False)

    def compiled(self, *, on: bool) -> None:
        """Compile the passes through the model and what comes of them, or change nothing."""
        parts: list[Callable[..., Any]] = [self.scores, self.risk, self.count]
        if on:
            parts = [torch.compile(part, dynamic=False) for part in parts]
        self._score, self._risk, self._count = parts

    def __call__(self, rows: Tensor, lam: float | Tensor, stored: Rows | None = None) -> None:
        """Take one step.

        Args:
            rows: Positions in the data of the labelled rows, then of the unlabelled, (n,).
            lam: λ of this step.
            stored: Unlabelled rows that are not in the data's memory; after the others.
        """
        batch = Rows(self.data.x[rows], self.data.ids[rows])
        if stored is not None:
            batch = Rows(*(torch.cat(parts) for parts in zip(batch, stored, strict=True)))
        y = self.data.y[rows[: self.plan.labelled_batch]]
        propensity = None if self._propensity is None else self._propensity[rows[: len(y)]]
        try:
            scores = self._score(batch)
        except RuntimeError as error:
            check_dtype(self.model.parameters(), batch.x, error)
            raise
        check_classes(scores.logits, self.data.n_classes)
        check_gradient(scores.logits)
        self.logits, self.still_h = scores.logits[0].detach(), without_gradient(scores)
        try:
            risk = self._risk(scores, y, lam, propensity)
        except ValueError as error:
            if values := not_finite(scores, len(y)):
                raise NotFiniteError(values) from error
            raise
        check_loss(risk.loss)
        self.optimiser.zero_grad()
        risk.value.backward()
        norm = self.optimiser.gradient_norm()
        self._count(Risk(*(part.detach() for part in risk)), scores.h.detach(), len(y), norm)
        self.optimiser.step()
        if self.average:
            self.average.follow(self.model)
        self.surrogate.after_step(
            self.model, batch, Scores(scores.h.detach(), scores.logits.detach())
        )

    def scores(self, batch: Rows) -> Scores:
        """Return the scores of one joint forward pass, in float32."""
        bf16 = self.plan.precision == "bf16"
        # No cache of casts: one made without gradient would be used where a gradient is needed.
        with torch.autocast(batch.x.device.type, torch.bfloat16, enabled=bf16, cache_enabled=False):
            labelled = self.plan.labelled_batch
            h, logits = self.surrogate.step_scores(self._seen, batch, labelled)
        return Scores(h.float(), logits.float())

    def risk(
        self, scores: Scores, y: Tensor, lam: float | Tensor, propensity: Tensor | None
    ) -> Risk:
        """Return the plan's risk of the scores."""
        plan = self.plan
        return objective(
            scores,
            y,
            lam,
            risk=plan.risk,
            on=plan.on,
            bound=plan.bound,
            loss=self.loss,
            weights_unlabelled=self._weights,
            propensity=propensity,
        )

    def count(self, risk: Risk, h: Tensor, n_labelled: int, gradient_norm: Tensor) -> None:
        """Add the step to the totals."""
        self.totals.add(risk, (h != 0).to(h.dtype), n_labelled, gradient_norm)


def unlabelled_weights(plan: TrainPlan, data: SemiData) -> Tensor | None:
    """Weights of a batch's unlabelled rows, (unlabelled_batch,), if H is added on all rows.

    The mean over all data has n_u unlabelled rows to n_l labelled ones, whatever a batch has. None
    if the number of rows does not matter.
    """
    if not plan.adds_on_all:
        return None
    beside = data.n_unlabelled / plan.unlabelled_batch
    weight = beside * plan.labelled_batch / data.n_labelled
    return torch.full((plan.unlabelled_batch,), weight, device=data.device)


def check_propensity(risk: RiskKind, data: SemiData) -> None:
    """Refuse data without propensities if the risk needs them."""
    if RISKS[risk].needs_propensity and data.propensity is None:
        raise ValueError(
            f"risk={risk!r} needs the probability of each labelled row to be labelled. Pass "
            "SemiData(..., propensity=...), or train with risk='debiased' if labels are missing "
            "completely at random."
        )


def plan_for(plan: TrainPlan, data: SemiData) -> TrainPlan:
    """Return the plan with the inverse-propensity form of its risk, if the data has propensities.

    Raises:
        ValueError: The data has propensities, but the plan has an option that this form lacks.
    """
    if plan.risk != "debiased" or data.propensity is None:
        return plan
    odd = [
        name
        for name, usual in (("on", "unlabelled"), ("bound", None), ("include_labelled", False))
        if getattr(plan, name) != usual
    ]
    if odd:
        raise ValueError(
            f"{', '.join(odd)} cannot be used with data that has propensities: labels are then "
            "weighted by 1/π, and H is added on all rows. Keep the default."
        )
    return dataclasses.replace(plan, risk="inverse_propensity")


def streams(data: SemiData, plan: TrainPlan) -> Batches:
    """Return the two streams of rows in memory of a run, at their start."""
    return Batches(
        data,
        plan.labelled_batch,
        plan.drawn_unlabelled if data.stored is None else 0,
        seed=plan.seed,
        include_labelled=plan.include_labelled,
    )


def stored_stream(data: SemiData, plan: TrainPlan) -> StoredStream | None:
    """Return the stream of unlabelled rows that are not in memory; None if none are drawn."""
    if data.stored is None or not plan.drawn_unlabelled:
        return None
    if plan.include_labelled:
        raise ValueError(
            "include_labelled=True also draws labelled rows as unlabelled ones, which is not "
            "possible with stored rows. Use on='all', which weights both kinds by their numbers."
        )
    seeds = np.random.SeedSequence(plan.seed).generate_state(2)  # the same as in Batches
    return StoredStream(
        data.stored,
        plan.drawn_unlabelled,
        seed=int(seeds[1]),
        device=data.device,
        first_id=data.first_stored_id,
    )
