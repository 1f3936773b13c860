"""Evaluation on validation rows during training: metrics, ρ(L, H) and the λ of least variance.

For one run, all of these; for the K runs of a population, only the metrics, in one computation.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn

from dessl.data import SemiData
from dessl.data.row_keys import shared_rows
from dessl.evaluation.metrics.from_predictions import (
    evaluating,
    metrics_of_outputs,
    predicted_logits,
)
from dessl.evaluation.metrics.vocabulary import METRICS
from dessl.functional import log_probabilities
from dessl.risk import RISKS
from dessl.surrogates import Rows, Surrogate, losses_and_terms
from dessl.theory import inverse_propensity_lambda, optimal_lambda
from dessl.training.guard import NotFiniteError, bad_values
from dessl.training.plan import TrainPlan
from dessl.training.stacked_model import StackedModel, State

NEARLY_ALL = 0.9  # share of the validation rows
LEAST_ROWS = 3  # for a slope with a standard error
STACKED_AT_ONCE = 2**16  # rows of all models in a forward pass
FAST = ("accuracy", "cross_entropy")


class Watch(NamedTuple):
    """Metrics on the validation part, and its estimate of λ."""

    metrics: dict[str, float | None]
    correlation: float | None
    lam_opt: float | None


def levels(x: Tensor) -> Tensor:
    """Show images as levels in [0, 1], like the surrogates' default views.

    >>> levels(torch.tensor([255], dtype=torch.uint8))
    tensor([1.])
    """
    return x.float() / 255


def id_range(data: SemiData) -> int:
    """Return one more than the largest row id, including ids for a separate validation part."""
    largest = data.first_stored_id + data.n_stored
    if len(data.validation_rows) or data.validation is None:
        return largest
    return largest + len(data.validation.y)


def drawn_ids(data: SemiData) -> Tensor:
    """Return the ids of the rows that steps may draw."""
    if data.stored is None:
        return data.ids[torch.cat([data.labelled_rows, data.unlabelled_rows])]
    first = data.first_stored_id
    stored = torch.arange(first, first + data.n_stored, device=data.device)
    return torch.cat([data.ids[data.labelled_rows], stored])


def validation_ids(data: SemiData) -> Tensor:
    """Return the row ids of the validation part: those after the largest for a separate part."""
    if len(data.validation_rows):
        return data.ids[data.validation_rows]
    first = data.first_stored_id + data.n_stored
    return torch.arange(first, id_range(data), device=data.ids.device)


def not_held_out(data: SemiData) -> str:
    """Return a sentence if nearly all validation rows are also labelled training rows, else "".

    Rows that a draw holds out are never labelled, so only a separate part is compared, by value.
    Fewer equal rows are no mistake: some tables have few distinct rows.

    >>> x, y = torch.arange(8.0)[:, None], torch.tensor([0, 1] * 4)
    >>> not_held_out(SemiData(x, y, validation=(x[:4], y[:4])))[:46]
    '4 of the 4 validation rows are also labelled t'
    >>> not_held_out(SemiData(x[4:], y[4:], validation=(x[:4], y[:4])))
    ''
    """
    if len(data.validation_rows) or data.validation is None:
        return ""
    part, known = data.validation, data.labelled_rows
    shared = shared_rows(data.x[known], data.y[known], *part)
    if not NEARLY_ALL * len(part.y) <= shared <= len(known):  # more than there are: equal by chance
        return ""
    return (
        f"{shared} of the {len(part.y)} validation rows are also labelled training rows: metrics, "
        "select, lam_opt and an online λ need rows that are not trained on. Hold rows out with "
        "draw_labels(..., n_validation=...), or remove them from x."
    )


def watched(
    evaluated: nn.Module,
    model: nn.Module,
    surrogate: Surrogate,
    data: SemiData,
    plan: TrainPlan,
    transform: Callable[[Tensor], Tensor] | None,
) -> Watch | None:
    """Evaluate on the validation part; None if the data has none.

    Args:
        evaluated: Model to evaluate: the averaged weights, if any.
        model: Model in training, used for L and H.
        surrogate: Surrogate that gives H; its random draws do not affect the run.
        data: Data with the validation part.
        plan: Plan of the run.
        transform: Transform of rows in evaluation.
    """
    part = data.validation
    if part is None:
        return None
    logits = predicted_logits(evaluated, part.x, transform=transform)
    if bad := bad_values({"logits": logits}):  # the last update diverged
        raise NotFiniteError(bad)
    values = all_metrics(logits, part.y)
    if len(part.y) < LEAST_ROWS:
        return Watch(values, None, None)
    with evaluating(model):
        loss, h, _ = losses_and_terms(model, surrogate, Rows(part.x, validation_ids(data)), part.y)
    if not bool(torch.isfinite(loss).all() & torch.isfinite(h).all()):
        return Watch(values, None, None)
    # The slope is from validation rows; the share of unlabelled rows is a factor applied later.
    estimate = optimal_lambda(loss, h, h, on="all")
    if RISKS[plan.risk].needs_propensity:
        return Watch(values, estimate.correlation, _weighted_lambda(loss, h, data))
    return Watch(values, estimate.correlation, estimate.lam * share_of_slope(plan, data))


def share_of_slope(plan: TrainPlan, data: SemiData) -> float:
    """Return λ* as a share of the slope of L on H: n_u/n, or 1 if H is added on all rows.

    >>> data = SemiData(torch.zeros(8, 1), [0, 1, -1, -1, -1, -1, -1, -1])
    >>> share_of_slope(TrainPlan(steps=1), data), share_of_slope(TrainPlan(steps=1, on="all"), data)
    (0.75, 1.0)
    """
    if plan.adds_on_all or plan.include_labelled:
        return 1.0
    return data.n_unlabelled / (data.n_labelled + data.n_unlabelled)


def _weighted_lambda(loss: Tensor, h: Tensor, data: SemiData) -> float | None:
    """λ* from held-out rows with known propensities; None for a separate validation part."""
    if data.propensity is None or not len(data.validation_rows):
        return None
    return inverse_propensity_lambda(loss, h, data.propensity[data.validation_rows]).lam


def all_metrics(logits: Tensor, y: Tensor) -> dict[str, float | None]:
    """Return every metric that a model can be selected by, from logits (n, classes)."""
    metrics = metrics_of_outputs(logits, y)
    return {name: getattr(metrics, name) for name in METRICS}


@dataclass(frozen=True)
class Validation:
    """Each run's validation rows in ``x``, (K, n), their classes y (K, n), and the transform."""

    x: Tensor
    rows: Tensor
    y: Tensor
    transform: Callable[[Tensor], Tensor] | None

    @classmethod
    def of(
        cls, parts: Sequence[SemiData], transform: Callable[[Tensor], Tensor] | None
    ) -> Self | None:
        """Stack the validation parts of all runs; None if there are none.

        Args:
            parts: The data with each run's labels.
            transform: Transform of rows in evaluation.
        """
        first = parts[0].validation
        if first is None:
            return None
        held_out = [part.validation_rows for part in parts]
        sizes = sorted({len(rows) for rows in held_out})
        if len(sizes) > 1:
            raise ValueError(
                "all runs of a population must hold out the same number of validation rows; got "
                f"{', '.join(map(str, sizes))}. Draw labels with one n_validation."
            )
        if sizes[0]:
            y = [own.y for part in parts if (own := part.validation)]
            return cls(parts[0].x, torch.stack(held_out), torch.stack(y), transform)
        rows = torch.arange(len(first.y), device=first.y.device).expand(len(parts), -1)
        return cls(first.x, rows, first.y.expand(len(parts), -1), transform)

    def logits(self, models: StackedModel, parameters: State) -> Tensor:
        """Logits (K, n, classes), in evaluation mode."""
        found = []
        for rows in torch.split(self.rows, max(1, STACKED_AT_ONCE // models.size), dim=1):
            x = self.x[rows.flatten()]
            seen = self.transform(x) if self.transform else x
            found.append(models.predicted(seen.view(*rows.shape, *seen.shape[1:]), parameters))
        return torch.cat(found, dim=1)

    def metrics(self, logits: Tensor, select: str) -> list[dict[str, float | None] | None]:
        """Accuracy and cross-entropy of each model; all metrics if ``select`` is another one.

        None for a model with logits that are not finite.

        Args:
            logits: Result of :meth:`logits`.
            select: Metric that models are selected by.
        """
        finite = torch.isfinite(logits).flatten(1).all(1).tolist()
        if select not in ("last", *FAST):
            every = zip(logits, self.y, finite, strict=True)
            return [all_metrics(z, y) if fine else None for z, y, fine in every]
        log_p = log_probabilities(logits.double())
        hits = (log_p.argmax(-1) == self.y).double().mean(1)
        entropy = -log_p.gather(-1, self.y.unsqueeze(-1)).squeeze(-1).mean(1)
        pairs = torch.stack([hits, entropy], dim=1).tolist()
        found = zip(pairs, finite, strict=True)
        return [dict(zip(FAST, pair, strict=True)) if fine else None for pair, fine in found]
