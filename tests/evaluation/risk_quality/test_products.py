import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

from dessl.evaluation.risk_quality.products import ConvolutionsAsProducts
from dessl.models import CNN13


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"padding": 1},
        {"padding": (0, 2), "stride": (2, 1)},
        {"dilation": 2, "padding": 1, "stride": 3},
        {"padding": "same"},
        {"groups": 2},
    ],
)
@pytest.mark.parametrize("bias", [False, True])
def test_a_product_is_the_convolution_and_has_its_gradients(settings, bias) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 4, 9, 11, dtype=torch.float64, requires_grad=True)
    layer = nn.Conv2d(4, 6, (3, 5), bias=bias, dtype=torch.float64, **settings)
    inputs = (x, *layer.parameters())
    expected = layer(x)
    with ConvolutionsAsProducts():
        product = layer(x)
    torch.testing.assert_close(product, expected)
    found, wanted = (torch.autograd.grad(y.sin().sum(), inputs) for y in (product, expected))
    torch.testing.assert_close(found, wanted)


def test_an_image_without_a_batch_is_left_to_pytorch() -> None:
    x, weight = torch.rand(2, 5, 5), torch.rand(3, 2, 3, 3)
    with ConvolutionsAsProducts():
        product = F.conv2d(x, weight)
    assert torch.equal(product, F.conv2d(x, weight))


def test_no_convolution_is_left_in_the_paper_s_network() -> None:
    torch.manual_seed(0)
    model = CNN13().eval()
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    x = torch.randn(2, 3, 12, 12)

    def first_logit(at: dict[str, torch.Tensor], row: torch.Tensor) -> torch.Tensor:
        return functional_call(model, at, (row[None],))[0, 0]

    with (
        ConvolutionsAsProducts(),
        torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile,
    ):
        together = vmap(grad(first_logit), in_dims=(None, 0))(parameters, x)
    called = {event.key for event in profile.key_averages()}
    assert "aten::im2col" in called
    assert not {name for name in called if "convolution" in name}
    one_by_one = [grad(first_logit)(parameters, row) for row in x]
    for name, gradients in together.items():
        torch.testing.assert_close(
            gradients, torch.stack([g[name] for g in one_by_one]), rtol=1e-3, atol=1e-5
        )
