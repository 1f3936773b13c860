"""A user's own H: which arguments it is given, what L pairs with, what is refused."""

import math

import pytest
import torch
from torch import Tensor, nn

from dessl import entropy, squared_distance
from dessl.surrogates import Combine, Entropy, FromFunction, Rows, Smooth, Teacher, as_surrogate

ROWS = Rows(
    torch.randn(5, 4, generator=torch.Generator().manual_seed(0)), torch.tensor([3, 1, 4, 2, 0])
)
MODEL = nn.Linear(4, 3)


def shifted(x: Tensor, generator: torch.Generator) -> Tensor:
    return x + torch.rand(len(x), 1, generator=generator)


def test_a_function_of_the_logits_sees_what_l_sees() -> None:
    scores = FromFunction(entropy, view=shifted, seed=3)(MODEL, ROWS)
    logits = MODEL(shifted(ROWS.x, torch.Generator().manual_seed(3)))
    assert torch.equal(scores.logits, logits.unsqueeze(0))
    assert torch.equal(scores.h, entropy(logits))


def test_a_function_of_model_and_x_sees_the_same_view() -> None:
    def distance(model: nn.Module, x: Tensor, *, step: float = 0.5) -> Tensor:
        return squared_distance(model(x + step), model(x).detach())

    scores = FromFunction(distance, view=shifted, seed=3)(MODEL, ROWS)
    x = shifted(ROWS.x, torch.Generator().manual_seed(3))
    assert torch.equal(scores.logits, MODEL(x).unsqueeze(0))
    expected = (MODEL(x + 0.5).softmax(-1) - MODEL(x).softmax(-1)).square().sum(-1)
    torch.testing.assert_close(scores.h, expected)


def test_arguments_with_a_default_are_left_alone() -> None:
    def scaled(logits: Tensor, scale: float = 2.0) -> Tensor:
        return scale * entropy(logits)

    assert torch.equal(as_surrogate(scaled)(MODEL, ROWS).h, 2 * entropy(MODEL(ROWS.x)))


def test_log_odds_reach_a_function_as_two_logits() -> None:
    binary = nn.Linear(4, 1)
    scores = FromFunction(lambda logits: 1 - logits.softmax(-1).square().sum(-1))(binary, ROWS)
    p = binary(ROWS.x).sigmoid().squeeze(1)
    torch.testing.assert_close(scores.h, 2 * p * (1 - p))
    assert scores.logits.shape == (1, 5, 1)


def test_a_function_that_works_in_place_does_not_change_l() -> None:
    scores = FromFunction(lambda logits: logits.mul_(3).sum(-1))(MODEL, ROWS)
    assert torch.equal(scores.logits[0], MODEL(ROWS.x))
    torch.testing.assert_close(scores.h, 3 * MODEL(ROWS.x).sum(-1))


def test_a_module_may_be_the_function() -> None:
    class Sharp(nn.Module):
        def forward(self, logits: Tensor) -> Tensor:
            return entropy(2 * logits)

    assert torch.equal(FromFunction(Sharp())(MODEL, ROWS).h, entropy(2 * MODEL(ROWS.x)))


def test_a_surrogate_is_taken_as_it_is() -> None:
    surrogate = Entropy()
    assert as_surrogate(surrogate) is surrogate


def test_the_bound_is_what_the_user_knows() -> None:
    assert as_surrogate(entropy).bounded_up_to == math.inf
    assert not as_surrogate(entropy).bound_is_stated
    stated = FromFunction(entropy, bounded_up_to=0.3)
    assert stated.bounded_up_to == 0.3
    assert stated.bound_is_stated
    with pytest.raises(ValueError, match="bounded_up_to must lie in"):
        FromFunction(entropy, bounded_up_to=-1.0)


@pytest.mark.parametrize(
    ("h", "message"),
    [
        (3, r"or a function h\(logits\) or h\(model, x\); got int"),
        (Teacher, "got the class Teacher: call it"),
        (lambda: 0, r"must take \(logits\) or \(model, x\); got 0 arguments"),
        (lambda a, b, c: 0, "got 3 arguments without a default"),
        (torch.logsumexp, r"has no signature\. Wrap it: lambda logits"),
    ],
)
def test_what_is_no_h_is_refused(h: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        as_surrogate(h)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("h", "came"),
    [
        (lambda logits: entropy(logits).mean(), r"\(\)"),
        (lambda logits: logits, r"\(5, 3\)"),
        (lambda logits: 0.5, "float"),
    ],
)
def test_an_h_without_one_value_a_row_is_refused(h: object, came: str) -> None:
    surrogate = as_surrogate(h)  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match=rf"one value for each row, shape \(5,\); got {came}\. Sum"
    ):
        surrogate(MODEL, ROWS)


def test_a_function_is_taken_where_a_surrogate_is_made_of_others() -> None:
    both = Combine([entropy, Entropy()], weights=[0.5, 2.0])(MODEL, ROWS)
    torch.testing.assert_close(both.h, 2.5 * Entropy()(MODEL, ROWS).h)
    smooth = Smooth(entropy, epsilon=0.1)(MODEL, ROWS)
    assert torch.equal(smooth.h, Smooth(Entropy(), epsilon=0.1)(MODEL, ROWS).h)
    for made in (lambda: Combine([Entropy]), lambda: Smooth(Entropy)):
        with pytest.raises(TypeError, match="got the class Entropy: call it"):
            made()
