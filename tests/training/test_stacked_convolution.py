import pytest
import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import functional as F

from dessl.training.stacked_convolution import (
    conv2d,
    fits,
    stacked_conv2d,
    with_mapped_convolutions,
)

SHAPES = [  # channels, side, maps, window, padding
    (1, 9, 6, 5, 0),
    (6, 8, 16, 5, 0),
    (3, 6, 6, 3, 1),
    (16, 7, 20, 3, 1),
    (32, 6, 48, 3, 2),
    (2, 5, 3, 1, 0),
]


def one_by_one(x, weight, bias, padding, relu):
    triples = zip(x, weight, bias, strict=True)
    out = torch.stack([F.conv2d(*triple, padding=padding) for triple in triples])
    return out.relu() if relu else out


def draws(shape, dtype=torch.float64, device="cpu", models=3, n=4):
    channels, side, maps, window, _ = shape
    g = torch.Generator().manual_seed(0)
    sizes = [
        (models, n, channels, side, side),
        (models, maps, channels, window, window),
        (models, maps),
    ]
    return [
        torch.randn(size, generator=g, dtype=torch.float64).to(device, dtype).requires_grad_()
        for size in sizes
    ]


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_gradients_are_those_of_one_model_after_another(shape, relu: bool) -> None:
    given, padding = draws(shape), shape[-1]
    expected = one_by_one(*given, padding, relu)
    out = stacked_conv2d(*given, padding, relu)
    torch.testing.assert_close(out, expected)
    slope = torch.randn_like(expected)
    torch.testing.assert_close(
        torch.autograd.grad(out, given, slope), torch.autograd.grad(expected, given, slope)
    )


def test_the_operator_keeps_pytorchs_rules() -> None:
    torch.library.opcheck(stacked_conv2d, (*draws((2, 6, 3, 3, 1)), 1, True))


@pytest.mark.parametrize("in_dims", [(0, 0, 0), (None, 0, 0), (1, None, 0)])
def test_vmap_gives_every_model_its_own(in_dims) -> None:
    x, weight, bias = (part.detach() for part in draws((2, 6, 3, 3, 1)))
    x = x[0] if in_dims[0] is None else x.movedim(0, in_dims[0])
    weight = weight[0] if in_dims[1] is None else weight
    found = vmap(lambda *given: conv2d(*given, 1, False), in_dims)(x, weight, bias)
    expected = vmap(lambda *given: F.conv2d(*given, padding=1), in_dims)(x, weight, bias)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(4, 4, 3, stride=2),
        nn.Conv2d(4, 4, 3, dilation=2),
        nn.Conv2d(4, 4, 3, groups=2),
        nn.Conv2d(4, 4, (3, 5)),
        nn.Conv2d(4, 4, 3, padding=(1, 0)),
        nn.Conv2d(4, 4, 3, padding="same"),
        nn.Conv2d(4, 4, 3, padding=4),
        nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"),
        nn.Linear(4, 4),
    ],
)
def test_what_the_kernels_cannot_do_is_left_alone(layer: nn.Module) -> None:
    assert not fits(layer)


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Conv2d(4, 5, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(5, 5, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(),
    )


def test_a_network_with_its_layers_exchanged_is_the_same_function_of_the_same_state() -> None:
    torch.manual_seed(0)
    models = [network() for _ in range(3)]
    mapped = with_mapped_convolutions(models[0])
    assert mapped.state_dict().keys() == models[0].state_dict().keys()
    assert [type(layer).__name__ for layer in mapped] == [
        "MappedConv2d",
        "BatchNorm2d",
        "ReLU",
        "MappedConv2d",
        "Identity",
        "Conv2d",
        "ReLU",
        "Flatten",
    ]
    assert type(models[0][0]) is nn.Conv2d  # the original is left as it was
    x = torch.randn(3, 6, 1, 9, 9)
    state = stack_module_state(models)
    found = vmap(lambda *state_and_x: functional_call(mapped, state_and_x[:2], state_and_x[2]))(
        *state, x
    )
    expected = torch.stack([model(rows) for model, rows in zip(models, x, strict=True)])
    torch.testing.assert_close(found, expected)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("shape", [*SHAPES, (1, 28, 6, 5, 0), (64, 11, 64, 3, 1)])
def test_the_kernels_are_as_exact_as_float32(shape, relu: bool) -> None:
    exact, padding = draws(shape, models=5, n=37), shape[-1]
    single = draws(shape, torch.float32, "cuda", models=5, n=37)
    expected = one_by_one(*exact, padding, relu)
    out = stacked_conv2d(*single, padding, relu)
    slope = torch.randn(expected.shape, dtype=torch.float64)
    wanted = [expected, *torch.autograd.grad(expected, exact, slope)]
    found = [out, *torch.autograd.grad(out, single, slope.to(out))]
    for mine, theirs in zip(found, wanted, strict=True):
        error = (mine.double().cpu() - theirs).norm() / theirs.norm()
        assert error < 2e-6
