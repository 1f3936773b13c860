"""Muon against singular values, and against PyTorch's."""

import math

import pytest
import torch
from torch import Tensor, nn

from dessl.training.muon import COEFFICIENTS, ITERATIONS, Muon, orthogonalised
from dessl.training.optimisers import Optimisers
from dessl.training.plan import TrainPlan


def by_singular_values(matrix: Tensor) -> Tensor:
    """The iteration is one polynomial of every singular value by itself."""
    left, values, right = torch.linalg.svd(matrix.double(), full_matrices=False)
    values = values / values.norm()
    a, b, c = COEFFICIENTS
    for _ in range(ITERATIONS):
        values = a * values + b * values**3 + c * values**5
    return (left * values) @ right


@pytest.mark.parametrize("shape", [(4, 27), (27, 4), (6, 6), (1, 5)])
def test_singular_values_come_near_one_and_vectors_stay(shape: tuple[int, int]) -> None:
    matrices = torch.randn((2, *shape), generator=torch.Generator().manual_seed(0))
    matrices[1] *= 1000  # no matter: each is scaled by itself
    found = orthogonalised(matrices)
    expected = torch.stack([by_singular_values(matrix) for matrix in matrices])
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-4)
    values = torch.linalg.svdvals(found)
    assert values.min() > 0.6
    assert values.max() < 1.4


def test_no_gradient_gives_no_update_and_no_nan() -> None:
    assert not orthogonalised(torch.zeros(1, 3, 4)).any()


@pytest.mark.parametrize("nesterov", [False, True])
def test_it_moves_matrices_as_pytorch_s_does(nesterov: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    ours = nn.Parameter(torch.randn(8, 20, generator=generator))
    theirs = nn.Parameter(ours.detach().clone())
    settings = {"lr": 0.05, "weight_decay": 0.3, "momentum": 0.8, "nesterov": nesterov}
    steps = (
        Muon([ours], **settings),
        torch.optim.Muon([theirs], adjust_lr_fn="match_rms_adamw", **settings),
    )
    for _ in range(3):
        ours.grad = torch.randn(8, 20, generator=generator)
        theirs.grad = ours.grad.clone()
        for one in steps:
            one.step()
    torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-3)  # theirs rounds to bfloat16


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_convolutions_move_as_matrices_in_any_layout(layout: torch.memory_format) -> None:
    torch.manual_seed(0)
    conv = nn.Conv2d(3, 4, 3, bias=False).to(memory_format=layout)
    before, gradient = conv.weight.detach().clone(), torch.randn(4, 3, 3, 3)
    plan = TrainPlan(steps=1, optimiser="muon", learning_rate=0.1, weight_decay=0.5)
    optimiser = Optimisers(conv, plan, torch.device("cpu"))
    conv.weight.grad = gradient.to(memory_format=layout)
    optimiser.step()
    update = by_singular_values(gradient.flatten(1)).view(4, 3, 3, 3)
    expected = before * (1 - 0.1 * 0.5) - 0.1 * 0.2 * math.sqrt(27) * update
    torch.testing.assert_close(conv.weight.double(), expected, rtol=0, atol=1e-4)
    assert conv.weight.is_contiguous(memory_format=layout)


def test_weights_move_together_as_each_would_alone() -> None:
    """Two of one shape, one of another with as many entries, and one without a gradient."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(4, 6), (6, 4), (4, 3, 2), (4, 6)]
    together = [nn.Parameter(torch.randn(shape, generator=generator)) for shape in shapes]
    alone = [nn.Parameter(weight.detach().clone()) for weight in together]
    settings = {"lr": 0.1, "weight_decay": 0.2}
    steps = [Muon(together, **settings), *(Muon([weight], **settings) for weight in alone)]
    for _ in range(2):
        for one, other in zip(together[:3], alone[:3], strict=True):
            one.grad = torch.randn(one.shape, generator=generator)
            other.grad = one.grad.clone()
        for muon in steps:
            muon.step()
    for one, other in zip(together, alone, strict=True):
        torch.testing.assert_close(one, other)


def test_a_learning_rate_that_is_a_tensor_is_read_where_it_is() -> None:
    rate, weight = torch.tensor(0.1), nn.Parameter(torch.eye(2))
    muon = Muon([weight], rate)
    rate.zero_()
    weight.grad = torch.ones(2, 2)
    muon.step()
    assert torch.equal(weight, torch.eye(2))


def test_a_model_of_biases_alone_and_one_of_weights_alone_can_be_trained() -> None:
    plan = TrainPlan(steps=1, optimiser="muon", learning_rate=0.1)
    for model, kinds in (
        (nn.BatchNorm1d(3), ["AdamW"]),
        (nn.Linear(2, 2, bias=False), ["Muon"]),
        (nn.Linear(2, 2), ["Muon", "AdamW"]),
    ):
        made = Optimisers(model, plan, torch.device("cpu")).optimisers
        assert [type(one).__name__ for one in made] == kinds


def test_a_closure_computes_the_gradient_and_its_value_comes_back() -> None:
    """Lightning hands every optimiser one."""
    weight, other = nn.Parameter(torch.eye(2)), nn.Parameter(torch.eye(2))

    def loss() -> Tensor:
        value = (weight + 1).square().sum()
        value.backward()
        return value

    assert Muon([weight], 0.1).step(loss).item() == 10
    other.grad = weight.grad
    assert Muon([other], 0.1).step() is None
    assert torch.equal(weight, other)


@pytest.mark.parametrize(
    ("weights", "settings", "said"),
    [
        (nn.Linear(2, 3), {}, r"two or more dimensions; got one of shape \(3,\)"),
        (nn.Linear(2, 3, bias=False), {"lr": -1.0}, "lr must lie in"),
        (nn.Linear(2, 3, bias=False), {"momentum": 1.0}, "momentum must lie in"),
        (nn.Linear(2, 3, bias=False), {"weight_decay": -0.1}, "weight_decay must lie in"),
    ],
)
def test_what_it_cannot_move_is_refused_at_once(
    weights: nn.Module, settings: dict[str, float], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        Muon(weights.parameters(), **{"lr": 0.1, **settings})
