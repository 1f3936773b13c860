"""What validation rows say during a run: metrics, ρ(L, H) and the λ of least variance."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dessl.data import SemiData
from dessl.evaluation import metrics_from_logits
from dessl.evaluation.metrics.from_predictions import predicted_logits
from dessl.evaluation.metrics.vocabulary import METRICS
from dessl.evaluation.mode import evaluating
from dessl.functional import cross_entropy
from dessl.surrogates.base import Rows, Surrogate
from dessl.theory import optimal_lambda
from dessl.training.forked import forked
from dessl.training.guard import NotFiniteError, bad_values
from dessl.training.plan import TrainPlan

ROWS_AT_ONCE = 512
LEAST_ROWS = 3  # for a slope with an error


class Watch(NamedTuple):
    """Metrics on the validation part, and what its rows say of λ."""

    metrics: dict[str, float | None]
    correlation: float | None
    lam_opt: float | None


def levels(x: Tensor) -> Tensor:
    """Show images as levels in [0, 1], as the surrogates' default views do.

    >>> levels(torch.tensor([255], dtype=torch.uint8))
    tensor([1.])
    """
    return x.float() / 255


def id_range(data: SemiData) -> int:
    """Return one more than the largest row id, with ids for a validation part of its own."""
    largest = int(data.ids.max()) + 1
    own = data.validation is not None and not len(data.validation_rows)
    return largest + (len(data.validation.y) if own and data.validation else 0)


def watched(
    evaluated: nn.Module,
    model: nn.Module,
    surrogate: Surrogate,
    data: SemiData,
    plan: TrainPlan,
    transform: Callable[[Tensor], Tensor] | None,
) -> Watch | None:
    """Return what the validation part says, or None where there is none.

    Args:
        evaluated: Whose metrics are wanted: the averaged weights, where there are any.
        model: What is trained: L and H are of it.
        surrogate: Gives H, with draws of its own that leave the run's untouched.
        data: With the validation part.
        plan: The run's.
        transform: What the model sees of a row in evaluation.
    """
    part = data.validation
    if part is None:
        return None
    logits = predicted_logits(evaluated, part.x, transform=transform)
    if bad := bad_values({"logits": logits}):  # the last step's update went too far
        raise NotFiniteError(bad)
    metrics = metrics_from_logits(logits, part.y)
    values = {name: getattr(metrics, name) for name in METRICS}
    if len(part.y) < LEAST_ROWS:
        return Watch(values, None, None)
    held_out = len(data.validation_rows) > 0
    first = int(data.ids.max()) + 1
    ids = data.ids[data.validation_rows] if held_out else first + torch.arange(len(part.y))
    loss, h = _losses_and_h(model, surrogate, Rows(part.x, ids.to(part.x.device)), part.y)
    if not bool(torch.isfinite(loss).all() & torch.isfinite(h).all()):
        return Watch(values, None, None)
    # The slope is of validation rows; how many rows have no label enters as a factor after it.
    estimate = optimal_lambda(loss, h, h, on="all")
    whole = plan.on == "all" or plan.include_labelled
    unlabelled = data.n_unlabelled / (data.n_labelled + data.n_unlabelled)
    return Watch(values, estimate.correlation, estimate.lam * (1 if whole else unlabelled))


def _losses_and_h(
    model: nn.Module, surrogate: Surrogate, rows: Rows, y: Tensor
) -> tuple[Tensor, Tensor]:
    losses, hs = [], []
    with evaluating(model), _draws_apart(surrogate, rows.x.device), torch.no_grad():
        for first in range(0, len(y), ROWS_AT_ONCE):
            part = slice(first, first + ROWS_AT_ONCE)
            h, logits = surrogate(model, Rows(rows.x[part], rows.ids[part]))
            views = [cross_entropy(view.float(), y[part]) for view in logits]
            losses.append(torch.stack(views).mean(0))
            hs.append(h.float())
    return torch.cat(losses), torch.cat(hs)


@contextmanager
def _draws_apart(surrogate: Surrogate, device: torch.device) -> Iterator[None]:
    """Let a surrogate draw from fresh generators, so that a look at it changes no run.

    PyTorch's own generator, which a plain function may draw from, goes on from where it was.
    """
    parts = [part for part in surrogate.modules() if isinstance(part, Surrogate)]
    own = [part._generator for part in parts]
    for part in parts:
        part._generator = None
    try:
        with forked(device):
            yield
    finally:
        for part, generator in zip(parts, own, strict=True):
            part._generator = generator
