"""Unbiasedness in training terms: the mean gradient over labellings, the model held fixed.

A small population has all its labels; a labelling shows some of them. Rows go through the
surrogate as in training, labelled ones first. Where H has no draws, every labelling is enumerated
and the mean debiased gradient is the complete-data gradient, up to rounding, while the usual one
is off by λ times the mean gradient of H. Where it has draws, 200 random labellings with new draws
are compared with the complete-data gradient of the same passes, in standard errors.
"""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dessl.augment import noisy
from dessl.objective import objective
from dessl.surrogates import SURROGATES, Rows, Scores, Surrogate, as_is

N, N_LABELLED = 8, 2  # 28 labellings
DRAWS, LABELLINGS = 32, 200
LAM = 50.0  # any λ will do; a large one lets the bias stand out from the noise of L


def flat_gradient(value: Tensor, model: nn.Module) -> Tensor:
    parts = torch.autograd.grad(
        value,
        list(model.parameters()),
        retain_graph=True,
        allow_unused=True,
        materialize_grads=True,
    )
    return torch.cat([part.flatten() for part in parts])


def shaken(x: Tensor, generator: torch.Generator) -> Tensor:
    return noisy(x, 0.5, generator)


def population(n: int, make_rows: Any) -> tuple[Rows, Tensor]:
    x = make_rows(n).x.double()
    return Rows(x, torch.arange(n)), torch.arange(n) % 3


def gradients(
    surrogate: Surrogate, model: nn.Module, rows: Rows, y: Tensor, order: Tensor, n_labelled: int
) -> dict[str, Tensor]:
    """Gradients of one labelling: the first rows of the order show their labels."""
    scores: Scores = surrogate(model, Rows(rows.x[order], rows.ids[order]))
    shown = y[order]
    return {
        "debiased": flat_gradient(objective(scores, shown[:n_labelled], LAM).value, model),
        "ssl": flat_gradient(objective(scores, shown[:n_labelled], LAM, risk="ssl").value, model),
        "complete": flat_gradient(objective(scores, shown, risk="complete_case").value, model),
        "h": flat_gradient(scores.h.mean(), model),
    }


def stacked(found: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {key: torch.stack([one[key] for one in found]) for key in found[0]}


def is_fixed(surrogate: Surrogate, model: nn.Module, rows: Rows) -> bool:
    """Whether H has no draws and a gradient: then labellings can be enumerated."""
    first, second = surrogate(model, rows).h, surrogate(model, rows).h
    return torch.equal(first, second) and bool(flat_gradient(first.sum(), model).abs().max() > 1e-6)


@pytest.mark.parametrize("name", list(SURROGATES))
def test_mean_gradient_over_labellings(
    name: str, build: Any, make_network: Any, make_rows: Any, train_a_little: Any
) -> None:
    model = make_network(seed=2).double()
    rows, y = population(N, make_rows)
    surrogate = train_a_little(build(name, view=as_is), model, rows)
    if is_fixed(surrogate, model, rows):
        check_every_labelling(surrogate, model, rows, y)
    else:
        model = make_network(seed=2).double()
        rows, y = population(DRAWS, make_rows)
        surrogate = train_a_little(build(name, view=shaken), model, rows)
        check_random_labellings(surrogate, model, rows, y)


def check_every_labelling(surrogate: Surrogate, model: nn.Module, rows: Rows, y: Tensor) -> None:
    found = []
    for shown in itertools.combinations(range(N), N_LABELLED):
        rest = [row for row in range(N) if row not in shown]
        order = torch.tensor([*shown, *rest])
        found.append(gradients(surrogate, model, rows, y, order, N_LABELLED))
    every = stacked(found)
    mean = {key: value.mean(0) for key, value in every.items()}
    # The complete-data gradient and that of H are the same in every labelling.
    torch.testing.assert_close(every["complete"][0], mean["complete"], rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(mean["debiased"], mean["complete"], rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(
        mean["ssl"], mean["complete"] + LAM * mean["h"], rtol=1e-5, atol=1e-7
    )
    assert (mean["ssl"] - mean["complete"]).norm() > 1e-3 * mean["complete"].norm()


def check_random_labellings(surrogate: Surrogate, model: nn.Module, rows: Rows, y: Tensor) -> None:
    generator = torch.Generator().manual_seed(11)
    orders = [torch.randperm(DRAWS, generator=generator) for _ in range(LABELLINGS)]
    every = stacked([gradients(surrogate, model, rows, y, order, DRAWS // 2) for order in orders])
    worst = {}
    for risk in ("debiased", "ssl"):
        off = every[risk] - every["complete"]
        error = off.std(0) / LABELLINGS**0.5
        worst[risk] = float((off.mean(0) / error.clamp(min=1e-12)).abs().max())
    # 51 parameters: |z| passes 4.5 by chance once in 3,000 tests.
    assert worst["debiased"] < 4.5, worst
    assert worst["ssl"] > 6, worst
