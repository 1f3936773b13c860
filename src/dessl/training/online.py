"""Online λ: the λ of least gradient variance in the last layer, on validation rows.

At each evaluation, with ∇ the gradient with respect to the last layer's weights,

    λ̂ = m · tr Cov(∇L, ∇H) / tr Cov(∇H),   m = n_u/n (main form) or 1 (H added on all rows)

over validation rows, shrunk by its standard error (:func:`dessl.theory.optimal_lambda_gradient`),
clipped to [0, ``plan.lam``] and to where the risk is bounded below (``Surrogate.bounded_up_to``),
and smoothed: λ ← λ + ½ (λ̂ − λ), from λ = 0. Validation rows decide, because a model that has
memorised its training rows has another covariance there.
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
from dessl.theory import optimal_lambda_gradient
from dessl.training.plan import TrainPlan
from dessl.training.watch import validation_ids

MOST_ROWS = 512  # validation rows used, evenly spaced: their gradients are in memory together
STEP = 0.5  # share of the way from the last λ to the new estimate


class Call(NamedTuple):
    """One call of a layer."""

    layer: nn.Module
    given: Tensor
    output: Tensor


def next_lam(
    lam: float, model: nn.Module, surrogate: Surrogate, data: SemiData, plan: TrainPlan
) -> float:
    """Return the λ of the steps until the next evaluation.

    Args:
        lam: λ of the previous steps.
        model: Model in training; the last ``nn.Linear`` that it calls is the last layer.
        surrogate: Surrogate that gives H; its random draws do not affect the run.
        data: Data with a validation part.
        plan: Plan of the run; ``plan.lam`` is the largest λ.
    """
    loss, h = last_layer_gradients(model, surrogate, data)
    if h.shape != loss.shape:  # H does not depend on the weights now, so no λ is better
        h = torch.zeros_like(loss)
    if not bool(torch.isfinite(loss).all() & torch.isfinite(h).all()):
        return lam
    whole = plan.adds_on_all or plan.include_labelled
    share = 1.0 if whole else data.n_unlabelled / (data.n_labelled + data.n_unlabelled)
    slope = optimal_lambda_gradient(loss, h, data.n_unlabelled, on="all").lam
    largest = plan.lam if plan.bound else min(plan.lam, surrogate.bounded_up_to)
    return lam + STEP * (min(max(slope * share, 0.0), largest) - lam)


def last_layer_gradients(
    model: nn.Module, surrogate: Surrogate, data: SemiData
) -> tuple[Tensor, Tensor]:
    """Return ∇L and ∇H of each validation row for the last layer, (n, parameters) each.

    One forward and two backward passes: in evaluation mode rows do not depend on each other, so
    the gradient of a sum with respect to the logits has every row's own, and the layer's weights
    get δ φᵀ, summed over a row's views. (A term that mixes rows, as MixMatch does, counts for the
    row that stands first in the mixture.)
    """
    if data.validation is None:
        raise ValueError("online λ needs validation rows; the data has none.")
    n = len(data.validation.y)
    few = min(n, MOST_ROWS)
    some = torch.arange(few, device=data.device) * n // few  # rows may be sorted by class
    x, y = data.validation.x[some], data.validation.y[some]
    rows = Rows(x, validation_ids(data)[some])
    with (
        evaluating(model),
        torch.enable_grad(),
        surrogate.draws_apart(x.device),
        _calls(model) as every,
    ):
        h, logits = surrogate(model, rows)
        losses = torch.stack([cross_entropy(view.float(), y) for view in logits]).mean(0)
        calls = of_last_layer(every)
        outputs = [output for _, output in calls]
        of_loss, of_h = (
            torch.autograd.grad(values.sum(), outputs, retain_graph=True, allow_unused=True)
            if values.requires_grad
            else [None] * len(outputs)  # H does not depend on the weights now
            for values in (losses, h.float())
        )
    inputs = [features for features, _ in calls]
    return _summed(inputs, of_loss, len(y)), _summed(inputs, of_h, len(y))


def linear_layers(model: nn.Module) -> list[nn.Linear]:
    """Return every ``nn.Linear`` of the model; raise an error if there is none.

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


def of_last_layer(calls: Sequence[Call]) -> list[tuple[Tensor, Tensor]]:
    """Return inputs and outputs of the ``nn.Linear`` that was called last, of each of its calls.

    That is not the one that the model registered last, which may be unused or come earlier.
    """
    return [(given, output) for layer, given, output in calls if layer is calls[-1].layer]


@contextmanager
def _calls(model: nn.Module) -> Iterator[list[Call]]:
    """Record the inputs and outputs of every ``nn.Linear`` for each call with gradients."""
    calls: list[Call] = []

    def keep(layer: nn.Module, given: tuple[Tensor, ...], output: Tensor) -> None:
        if output.requires_grad:
            calls.append(Call(layer, given[0].detach(), output))

    handles = [layer.register_forward_hook(keep) for layer in linear_layers(model)]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def _summed(inputs: list[Tensor], deltas: Sequence[Tensor | None], n: int) -> Tensor:
    """Σ over calls and views of δ (φ, 1)ᵀ for each of n rows, (n, classes · (features + 1))."""
    total = torch.zeros(n, 1, 1, dtype=torch.float64)
    for features, delta in zip(inputs, deltas, strict=True):
        if delta is None:  # a call that this value does not depend on
            continue
        phi = nn.functional.pad(features, (0, 1), value=1.0)
        views = (part.double().cpu().view(-1, n, part.shape[1]) for part in (delta, phi))
        total = total + torch.einsum("vnc,vnf->ncf", *views)
    return total.flatten(1)
