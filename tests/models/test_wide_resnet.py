import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dessl.models import WideResNet, wrn_28_2, wrn_28_8, wrn_37_2


def expected_count(widths: list[int], n_classes: int, channels: int = 3, blocks: int = 4) -> int:
    """Weights of a wide ResNet, summed group by group."""
    total, before = 9 * channels * 16, 16
    for width in widths:
        total += 2 * before + 9 * before * width + before * width  # first block and its short cut
        total += 2 * width + 9 * width**2
        total += (blocks - 1) * 2 * (2 * width + 9 * width**2)
        before = width
    return total + 2 * before + (before + 1) * n_classes


@pytest.mark.parametrize(
    ("model", "widths", "n_classes", "published"),
    [
        (wrn_28_2(10), [32, 64, 128], 10, 1_467_610),
        (wrn_28_8(100), [128, 256, 512], 100, None),
        (wrn_37_2(10), [32, 64, 128, 256], 10, None),
    ],
)
def test_counts_are_the_published_ones(model, widths, n_classes, published) -> None:
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count == expected_count(widths, n_classes)
    assert published is None or count == published


@pytest.mark.parametrize(
    ("model", "layers"), [(wrn_28_2(), 28), (wrn_28_8(), 28), (wrn_37_2(), 37)]
)
def test_layers_are_counted_as_the_name_says(model: WideResNet, layers: int) -> None:
    assert sum(isinstance(module, nn.Conv2d) for module in model.modules()) == layers


@pytest.mark.parametrize(
    ("build", "side", "maps"), [(wrn_28_2, 32, (128, 8, 8)), (wrn_37_2, 96, (256, 6, 6))]
)
def test_the_last_maps_are_of_the_right_size(build, side: int, maps) -> None:
    model = build()
    assert model.groups(model.stem(torch.rand(1, 3, side, side))).shape == (1, *maps)


def test_the_network_is_the_function_of_its_weights() -> None:
    """Written once more, from the paper's drawing, on the weights in their order."""
    model = WideResNet(5, widths=(8, 12), strides=(1, 2), blocks=2).double()
    x = torch.randn(3, 3, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    state = model.state_dict()

    def active(maps: torch.Tensor, key: str) -> torch.Tensor:
        mean = maps.mean((0, 2, 3), keepdim=True)
        variance = (maps - mean).square().mean((0, 2, 3), keepdim=True)
        maps = (maps - mean) / (variance + 1e-5).sqrt()
        maps = maps * state[f"{key}.weight"][:, None, None] + state[f"{key}.bias"][:, None, None]
        return torch.maximum(maps, 0.1 * maps)

    maps = F.conv2d(x, state["stem.weight"], padding=1)
    for block, stride in enumerate((1, 1, 2, 1)):
        key = f"groups.{block}"
        first = active(maps, f"{key}.norm1")
        inner = F.conv2d(first, state[f"{key}.conv1.weight"], stride=stride, padding=1)
        inner = F.conv2d(active(inner, f"{key}.norm2"), state[f"{key}.conv2.weight"], padding=1)
        if block == 0:
            maps = F.conv2d(first, state[f"{key}.short.weight"])
        elif block == 2:
            maps = F.conv2d(maps, state[f"{key}.short.weight"], stride=2)
        maps = maps + inner
    pooled = active(maps, "norm").mean((2, 3))
    expected = pooled @ state["head.weight"].T + state["head.bias"]
    torch.testing.assert_close(model(x), expected)


@pytest.mark.parametrize(("options", "momentum"), [({}, 0.001), ({"bn_momentum": 0.1}, 0.1)])
def test_running_statistics_follow_the_momentum(options, momentum: float) -> None:
    model = wrn_28_2(**options)
    x = torch.rand(8, 3, 16, 16) + 1
    norm = model.groups[0].norm1
    batch_mean = model.stem(x).mean((0, 2, 3)).detach()
    model(x)
    torch.testing.assert_close(norm.running_mean, momentum * batch_mean)
