"""The Π-model against its equation in Python floats, with the draws replayed."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from dessl.augment import noisy
from dessl.functional import cross_entropy
from dessl.surrogates import PiModel, Rows, as_is

X = torch.randn(5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
ROWS = Rows(X, torch.arange(5))


def shaken(x: Tensor, generator: torch.Generator) -> Tensor:
    return noisy(x, 0.5, generator)


def two_views(seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return shaken(X, generator), shaken(X, generator)


@pytest.mark.parametrize("divergence", ["squared_distance", "kl"])
def test_the_equation_and_its_gradient_with_a_fixed_target(
    divergence: str,
    softmax: Callable[[Tensor], list[float]],
    differences: Callable[..., Tensor],
) -> None:
    model = nn.Linear(4, 3, dtype=torch.float64)
    first, second = two_views(seed=3)
    targets = [softmax(row) for row in model(second)]

    def by_hand() -> list[float]:
        values = []
        for row, q in zip(model(first), targets, strict=True):
            p = softmax(row)
            if divergence == "kl":
                terms = [b * math.log(b / a) for a, b in zip(p, q, strict=True)]
            else:
                terms = [(a - b) ** 2 for a, b in zip(p, q, strict=True)]
            values.append(sum(terms))
        return values

    scores = PiModel(view=shaken, divergence=divergence, seed=3)(model, ROWS)
    torch.testing.assert_close(scores.h, torch.tensor(by_hand(), dtype=torch.float64))
    torch.testing.assert_close(scores.logits[0], model(first))
    scores.h.sum().backward()
    numeric = differences(lambda: sum(by_hand()), model.weight)
    torch.testing.assert_close(model.weight.grad, numeric, rtol=1e-6, atol=1e-8)


def test_a_gradient_through_both_passes_has_twice_the_mean() -> None:
    """It is the sum of ours for the two orders of the draws, which are equally likely."""
    model = nn.Linear(4, 3, dtype=torch.float64)
    a, b = two_views(seed=3)
    ours = torch.zeros_like(model.weight)
    for pair in ((a, b), (b, a)):
        turn = iter(pair)
        h = PiModel(view=lambda x, generator, turn=turn: next(turn))(model, ROWS).h  # type: ignore[misc]
        ours += torch.autograd.grad(h.sum(), model.weight)[0]
    distance = (model(a).softmax(-1) - model(b).softmax(-1)).square().sum()
    (through_both,) = torch.autograd.grad(distance, model.weight)
    torch.testing.assert_close(ours, through_both)


def test_dropout_alone_is_noise_enough_and_without_noise_h_is_zero() -> None:
    model = nn.Sequential(nn.Linear(4, 30), nn.Dropout(0.5), nn.Linear(30, 3)).double()
    surrogate = PiModel(view=as_is)
    assert (surrogate(model, ROWS).h > 0).all()
    assert (surrogate(model.eval(), ROWS).h == 0).all()


@pytest.mark.parametrize("scale", [10.0, 100.0, 1000.0])
def test_kl_is_unbounded_below_for_any_lambda_and_squares_are_not(scale: float) -> None:
    """The first pass is sure of the label and the second of the other class."""
    turn = iter([1.0, -1.0, 1.0, -1.0])
    x, y, lam = torch.tensor([[1.0, -1.0]]), torch.tensor([0]), 0.01
    rows = Rows(x, torch.tensor([0]))
    for divergence, low, high in (
        ("kl", -math.inf, -0.015 * scale),
        ("squared_distance", -0.02, 0),
    ):
        surrogate = PiModel(view=lambda x, _: next(turn) * x, divergence=divergence)  # type: ignore[arg-type]
        h, logits = surrogate(lambda x: scale * x, rows)
        value = float(cross_entropy(logits[0], y) - lam * h)
        assert low <= value <= high
    assert PiModel(divergence="kl").bounded_up_to == 0
    assert PiModel().bounded_up_to == math.inf


def test_an_unknown_divergence_is_refused() -> None:
    with pytest.raises(ValueError, match="divergence must be one of 'squared_distance', 'kl'"):
        PiModel(divergence="hellinger")  # type: ignore[arg-type]
