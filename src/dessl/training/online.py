"""Online λ: the λ of least gradient variance in the last layer, on validation rows.

At each evaluation, with ∇ the gradient with respect to the last layer's weights,

    λ̂ = m · tr Cov(∇L, ∇H) / tr Cov(∇H),   m = n_u/n (main form) or 1 (H added on all rows)

over validation rows, shrunk by its standard error (:func:`dessl.theory.optimal_lambda_gradient`),
clipped to [0, ``plan.lam``] and to where the risk is bounded below (``Surrogate.bounded_up_to``),
and smoothed: λ ← λ + ½ (λ̂ − λ), from λ = 0. Validation rows decide, because a model that has
memorised its training rows has another covariance there.

A sum of terms (:class:`~dessl.surrogates.Combine`) gets a λ for each of them, from the matrix of
their covariances (:func:`dessl.theory.optimal_lambdas_gradient`), each within its own bound.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dessl.data import SemiData
from dessl.evaluation.metrics.from_predictions import evaluating
from dessl.functional import cross_entropy
from dessl.surrogates import Rows, Surrogate
from dessl.theory import optimal_lambdas_gradient
from dessl.training.plan import TrainPlan
from dessl.training.watch import share_of_slope, validation_ids

MOST_ROWS = 512  # validation rows used, evenly spaced: their gradients are in memory together
STEP = 0.5  # share of the way from the last λ to the new estimate


class Call(NamedTuple):
    """One call of a layer, and the number of rows (of all views) in the model's pass."""

    layer: nn.Module
    given: Tensor
    output: Tensor
    rows: int


def next_lams(
    lams: Sequence[float],
    model: nn.Module,
    surrogate: Surrogate,
    data: SemiData,
    plan: TrainPlan,
) -> list[float]:
    """Return the λ of the steps until the next evaluation, one for each part of H.

    Args:
        lams: λ of the previous steps.
        model: Model in training; the last ``nn.Linear`` that it computes its logits with is the
            last layer.
        surrogate: Surrogate that gives H; its random draws do not affect the run.
        data: Data with a validation part.
        plan: Plan of the run; ``plan.lam`` is the largest λ.
    """
    loss, h = last_layer_gradients(model, surrogate, data)
    if not bool(torch.isfinite(loss).all() & torch.isfinite(h).all()):
        return list(lams)
    share = share_of_slope(plan, data)
    slopes = optimal_lambdas_gradient(loss, h, data.n_unlabelled, on="all").lam.tolist()
    bounds = [plan.lam if plan.bound else min(plan.lam, b) for b in surrogate.separate_bounds]
    return [
        lam + STEP * (min(slope * share, bound) - lam)
        for lam, slope, bound in zip(lams, slopes, bounds, strict=True)
    ]


def last_layer_gradients(
    model: nn.Module, surrogate: Surrogate, data: SemiData
) -> tuple[Tensor, Tensor]:
    """Return ∇L, (n, parameters), and ∇H of each part, (parts, n, parameters), in the last layer.

    Rows are those of the validation part. L and each part of H take one backward pass: in
    evaluation mode rows do not depend on each other, so the gradient of a sum with respect to the
    logits has every row's own, and the layer's weights get δ φᵀ, summed over a row's views and, if
    the layer is applied to each token or patch, over its positions. (A term that mixes rows,
    as MixMatch does, counts for the row that stands first in the mixture.) A part of H that does
    not depend on the weights has the gradient 0.
    """
    part = data.validation
    if part is None:
        raise ValueError("online λ needs validation rows; the data has none.")
    n = len(part.y)
    few = min(n, MOST_ROWS)
    some = torch.arange(few, device=data.device) * n // few  # rows may be sorted by class
    x, y = part.x[some], part.y[some]
    rows = Rows(x, validation_ids(data)[some])
    with (
        evaluating(model),
        torch.enable_grad(),
        surrogate.draws_apart(x.device),
        _calls(model) as every,
    ):
        parts = surrogate.separate_scores(model, rows)
        views = [view for part in parts for view in part.logits]
        losses = torch.stack([cross_entropy(view.float(), y) for view in views]).mean(0)
        calls, of_loss = of_last_layer(every, losses)
        of_h = [_gradients(part.h.float(), calls) for part in parts]
    loss = _summed(calls, of_loss, len(y))
    found = [_summed(calls, own, len(y)).expand_as(loss) for own in of_h]
    return loss, torch.stack(found)


def linear_layers(model: nn.Module) -> list[nn.Linear]:
    """Return every ``nn.Linear`` of the model; raise an error if it has none.

    >>> linear_layers(nn.Sequential(nn.Linear(3, 4), nn.ReLU()))
    [Linear(in_features=3, out_features=4, bias=True)]
    """
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    if not layers:
        raise ValueError(
            "online=True uses the gradients of the model's last nn.Linear, but the model has none. "
            "Use a fixed lam."
        )
    return layers


def of_last_layer(
    calls: Sequence[Call], losses: Tensor
) -> tuple[list[Call], Sequence[Tensor | None]]:
    """Return all calls of the last ``nn.Linear`` that L depends on, and ∂ΣL/∂output of each.

    That is not the one that the model registered last, which may be unused or come earlier.

    Args:
        calls: Every call in the order of the pass.
        losses: L of each row, (n,).
    """
    for layer in dict.fromkeys(call.layer for call in reversed(calls)):
        own = [call for call in calls if call.layer is layer]
        gradients = _gradients(losses, own)
        if any(gradient is not None for gradient in gradients):
            return own, gradients
    raise ValueError(
        "online=True uses the gradients of the last nn.Linear that the model computes its logits "
        "with, but they depend on none of its nn.Linear modules. Use a fixed lam."
    )


def _gradients(values: Tensor, calls: Sequence[Call]) -> Sequence[Tensor | None]:
    """Gradients of Σ values with respect to each call's output; None if it has no effect."""
    if not values.requires_grad:  # H may not depend on the weights now
        return [None] * len(calls)
    outputs = [call.output for call in calls]
    return torch.autograd.grad(values.sum(), outputs, retain_graph=True, allow_unused=True)


@contextmanager
def _calls(model: nn.Module) -> Iterator[list[Call]]:
    """Record the inputs and outputs of every ``nn.Linear`` for each call with gradients."""
    calls: list[Call] = []
    rows = 0  # of the model's pass; 0 outside it, where H calls a part of the model itself

    def begin(_: nn.Module, given: tuple[Tensor, ...], named: dict[str, Tensor]) -> None:
        nonlocal rows
        rows = len(next(iter((*given, *named.values()))))

    def end(*_: object) -> None:
        nonlocal rows
        rows = 0

    def keep(layer: nn.Module, given: tuple[Tensor, ...], output: Tensor) -> None:
        if output.requires_grad:
            calls.append(Call(layer, given[0].detach(), output, rows or len(given[0])))

    handles = [layer.register_forward_hook(keep) for layer in linear_layers(model)]
    handles.append(model.register_forward_pre_hook(begin, with_kwargs=True))
    handles.append(model.register_forward_hook(end))
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def _summed(calls: Sequence[Call], deltas: Sequence[Tensor | None], n: int) -> Tensor:
    """Σ over calls, views and positions of δ (φ, 1)ᵀ, (n, outputs · (features + 1))."""
    total = torch.zeros(n, 1, 1, dtype=torch.float64)
    for call, delta in zip(calls, deltas, strict=True):
        if delta is None:  # a call that this value does not depend on
            continue
        phi = nn.functional.pad(call.given, (0, 1), value=1.0)
        views = (_by_row(part.double().cpu(), call.rows, n) for part in (delta, phi))
        total = total + torch.einsum("vnpc,vnpf->ncf", *views)
    return total.flatten(1)


def _by_row(part: Tensor, rows: int, n: int) -> Tensor:
    """Reshape (rows, ..., features) or (rows · positions, features) to (views, n, positions, …)."""
    if part.ndim < 2 or rows % n or part.shape[0] % rows:
        raise ValueError(
            "online=True needs the rows first in the input of the last nn.Linear, (rows, ..., "
            f"features), for all {n} validation rows; in a pass of {rows} rows it got "
            f"{tuple(part.shape)}. Move the rows first in the model, or use a fixed lam."
        )
    return part.reshape(rows // n, n, -1, part.shape[-1])
