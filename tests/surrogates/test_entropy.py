"""Entropy: its equation in loops, its gradient, and its view."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from dessl.surrogates import Entropy, Rows


def test_it_is_its_equation(
    make_network: Callable[..., nn.Module],
    make_rows: Callable[..., Rows],
    softmax: Callable[[Tensor], list[float]],
) -> None:
    model, rows = make_network().double(), make_rows()
    rows = Rows(rows.x.double(), rows.ids)
    scores = Entropy()(model, rows)
    assert scores.logits.shape == (1, 12, 3)
    for row, logits in enumerate(model(rows.x)):
        expected = -sum(p * math.log(p) for p in softmax(logits) if p > 0)
        assert float(scores.h[row].detach()) == pytest.approx(expected, abs=1e-12)
    assert torch.equal(scores.logits[0], model(rows.x))


def test_its_gradient_against_differences(
    make_network: Callable[..., nn.Sequential],
    make_rows: Callable[..., Rows],
    differences: Callable[..., Tensor],
) -> None:
    model, rows = make_network().double(), make_rows(4)
    rows = Rows(rows.x.double(), rows.ids)
    bias = model[-1].bias
    (found,) = torch.autograd.grad(Entropy()(model, rows).h.sum(), bias)
    expected = differences(lambda: float(Entropy()(model, rows).h.sum()), bias)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)


def test_it_lies_between_zero_and_log_k() -> None:
    logits = torch.tensor([[0.0, 0.0, 0.0], [1e4, 0.0, -1e4]], dtype=torch.float64)
    h = Entropy()(lambda x: x, Rows(logits, torch.arange(2))).h
    assert h.tolist() == pytest.approx([math.log(3), 0.0])
    assert Entropy.bounded_up_to == math.inf


def test_rows_go_through_the_view_with_draws_of_the_seed() -> None:
    def view(x: Tensor, generator: torch.Generator) -> Tensor:
        return x + torch.rand(x.shape, generator=generator)

    rows = Rows(torch.zeros(5, 3), torch.arange(5))
    scores = Entropy(view=view, seed=9)(lambda x: x, rows)
    noise = torch.rand(5, 3, generator=torch.Generator().manual_seed(9))
    assert torch.equal(scores.logits[0], noise)
