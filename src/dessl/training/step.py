"""One step of training: rows → scores → risk → gradient → update, nothing of it on the host."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from dessl.data import SemiData
from dessl.objective import objective
from dessl.risk import Risk
from dessl.surrogates.base import Rows, Scores, Surrogate
from dessl.training.average import WeightAverage
from dessl.training.guard import NotFiniteError, check_classes, not_finite
from dessl.training.optimisers import Optimisers
from dessl.training.plan import TrainPlan
from dessl.training.totals import Totals


def _as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


class Step:
    """A step's device work, with all that it moves: shapes are fixed and no value is looked at.

    Args:
        model: What is trained.
        surrogate: Prepared, and where the model is.
        data: Likewise.
        plan: The run's.
    """

    def __init__(
        self, model: nn.Module, surrogate: Surrogate, data: SemiData, plan: TrainPlan
    ) -> None:
        self.model, self.surrogate, self.data, self.plan = model, surrogate, data, plan
        self.optimiser = Optimisers(model, plan, data.device)
        self.average = WeightAverage(model, plan.ema) if plan.ema else None
        self.totals = Totals(data.device, plan.risk_limit)
        self._weights = unlabelled_weights(plan, data)
        self.compiled(on=False)

    def compiled(self, *, on: bool) -> None:
        """Compile the passes through the model and what comes of them, or leave all as it is."""
        compiled = partial(torch.compile, dynamic=False) if on else _as_it_is
        self._score = compiled(self.scores)
        self._risk = compiled(self.risk)
        self._count = compiled(self.totals.add)

    def __call__(self, rows: Tensor, lam: float | Tensor) -> None:
        """Take one step.

        Args:
            rows: Positions in the data of the labelled rows, then of the unlabelled, (n,).
            lam: λ of this step.
        """
        batch = Rows(self.data.x[rows], self.data.ids[rows])
        y = self.data.y[rows[: self.plan.labelled_batch]]
        scores = self._score(batch)
        check_classes(scores.logits, self.data.n_classes)
        try:
            risk = self._risk(scores, y, lam)
        except ValueError as error:
            if values := not_finite(scores, len(y)):
                raise NotFiniteError(values) from error
            raise
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
            h, logits = self.surrogate.step_scores(self.model, batch, labelled)
        return Scores(h.float(), logits.float())

    def risk(self, scores: Scores, y: Tensor, lam: float | Tensor) -> Risk:
        """Return the plan's risk of the scores."""
        plan = self.plan
        return objective(
            scores,
            y,
            lam,
            risk=plan.risk,
            on=plan.on,
            bound=plan.bound,
            weights_unlabelled=self._weights,
        )


def unlabelled_weights(plan: TrainPlan, data: SemiData) -> Tensor | None:
    """What an unlabelled row of a batch counts, (unlabelled_batch,), where H is added on all rows.

    The mean over all data has n_u unlabelled rows to n_l labelled ones, whatever a batch has. None
    where the rows' number does not matter.
    """
    if plan.on != "all":
        return None
    beside = data.n_unlabelled / plan.unlabelled_batch
    weight = beside * plan.labelled_batch / data.n_labelled
    return torch.full((plan.unlabelled_batch,), weight, device=data.device)
