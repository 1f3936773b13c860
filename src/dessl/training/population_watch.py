"""The validation rows of K runs, and the metrics of K models on them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from dessl.data import SemiData
from dessl.evaluation import metrics_from_logits
from dessl.evaluation.metrics.vocabulary import METRICS
from dessl.functional import log_probabilities
from dessl.training.stacked_model import StackedModel, State

AT_ONCE = 2**16  # rows of all models in a forward pass
FAST = ("accuracy", "cross_entropy")


@dataclass(frozen=True)
class Validation:
    """Each run's validation rows in ``x``, (K, n), their classes y (K, n), and how x is shown."""

    x: Tensor
    rows: Tensor
    y: Tensor
    transform: Callable[[Tensor], Tensor] | None

    @classmethod
    def of(
        cls, parts: Sequence[SemiData], transform: Callable[[Tensor], Tensor] | None
    ) -> Self | None:
        """Stack the validation parts of all runs; None where there are none.

        Args:
            parts: The data with each run's labels.
            transform: What the models see of a row.
        """
        first = parts[0].validation
        if first is None:
            return None
        held_out = [part.validation_rows for part in parts]
        sizes = sorted({len(rows) for rows in held_out})
        if len(sizes) > 1:
            raise ValueError(
                "all runs of a population must hold out as many validation rows; got "
                f"{', '.join(map(str, sizes))}. Draw labels with one n_validation."
            )
        if sizes[0]:
            y = [part.validation.y for part in parts if part.validation]
            return cls(parts[0].x, torch.stack(held_out), torch.stack(y), transform)
        rows = torch.arange(len(first.y), device=first.y.device).expand(len(parts), -1)
        return cls(first.x, rows, first.y.expand(len(parts), -1), transform)

    def logits(self, models: StackedModel, parameters: State) -> Tensor:
        """Logits (K, n, classes), in evaluation mode."""
        found = []
        for rows in torch.split(self.rows, max(1, AT_ONCE // models.size), dim=1):
            x = self.x[rows.flatten()]
            seen = self.transform(x) if self.transform else x
            found.append(models.predicted(seen.view(*rows.shape, *seen.shape[1:]), parameters))
        return torch.cat(found, dim=1)

    def metrics(
        self, models: StackedModel, parameters: State, select: str
    ) -> list[dict[str, float | None] | None]:
        """Accuracy and cross-entropy of each model; all metrics where ``select`` is another.

        A model whose logits are not all finite has None.

        Args:
            models: The K models.
            parameters: Theirs, or averaged ones.
            select: What models are selected by.
        """
        logits = self.logits(models, parameters)
        finite = torch.isfinite(logits).flatten(1).all(1).tolist()
        if select not in ("last", *FAST):
            every = zip(logits, self.y, finite, strict=True)
            return [_all_metrics(z, y) if fine else None for z, y, fine in every]
        log_p = log_probabilities(logits.double())
        hits = (log_p.argmax(-1) == self.y).double().mean(1)
        entropy = -log_p.gather(-1, self.y.unsqueeze(-1)).squeeze(-1).mean(1)
        pairs = torch.stack([hits, entropy], dim=1).tolist()
        found = zip(pairs, finite, strict=True)
        return [dict(zip(FAST, pair, strict=True)) if fine else None for pair, fine in found]


def _all_metrics(logits: Tensor, y: Tensor) -> dict[str, float | None]:
    metrics = metrics_from_logits(logits, y)
    return {name: getattr(metrics, name) for name in METRICS}
