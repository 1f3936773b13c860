"""Which kernel is run in which tiles; the kernels, which need a GPU, are stood in for."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from dessl.training import convolution_kernels, convolution_launch
from dessl.training.convolution_launch import FEW_MAPS, MOST_SPLITS, convolved, weight_gradient


class Kernel:
    """Called as Triton's are: ``kernel[grid](...)``."""

    def __init__(self, compute: Callable[..., None]) -> None:
        self.compute, self.calls = compute, []

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def run(*given: Any, **sizes: Any) -> None:
            self.calls.append((grid, sizes))
            self.compute(*given, **sizes)

        return run


def forward(
    x: Tensor, w: Tensor, bias: Tensor, out: Tensor, n: int, *, PAD: int, RELU: bool, **_: int
) -> None:
    assert n == x.shape[1]
    for k in range(len(x)):
        found = F.conv2d(x[k], w[k], bias[k], padding=PAD)
        out[k] = found.relu() if RELU else found


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> dict[str, Kernel]:
    made = {name: Kernel(forward) for name in ("few_maps", "convolution")}
    for name, kernel in made.items():
        monkeypatch.setattr(convolution_kernels, name, kernel, raising=False)
    return made


def given(channels: int, maps: int, window: tuple[int, int] = (3, 3)) -> list[Tensor]:
    g = torch.Generator().manual_seed(0)
    sizes = [(2, 5, channels, 9, 7), (2, maps, channels, *window), (2, maps)]
    return [torch.randn(size, generator=g) for size in sizes]


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize(("channels", "maps"), [(1, 6), (3, 16), (6, 17), (16, 100)])
@pytest.mark.parametrize("padding", [0, 2])
def test_tiles_cover_every_pixel_and_every_map(
    kernels: dict[str, Kernel], channels: int, maps: int, padding: int, relu: bool
) -> None:
    x, w, bias = given(channels, maps)
    strided = x.transpose(3, 4).contiguous().transpose(3, 4)
    out = convolved(strided, w, bias, padding, relu=relu)
    expected = torch.stack(
        [F.conv2d(*one, padding=padding) for one in zip(x, w, bias, strict=True)]
    )
    torch.testing.assert_close(out, expected.relu() if relu else expected)
    few = maps <= FEW_MAPS
    ((grid, sizes),) = kernels["few_maps" if few else "convolution"].calls
    assert kernels["convolution" if few else "few_maps"].calls == []
    height, width = expected.shape[-2:]
    names = ("C", "H", "W", "O", "OH", "OW", "KH", "KW", "PAD")
    assert [sizes[name] for name in names] == [
        channels, 9, 7, maps, height, width, 3, 3, padding,
    ]  # fmt: skip
    pixels = 5 * height * width
    assert grid[0] * sizes["BP"] >= pixels > (grid[0] - 1) * sizes["BP"]
    assert grid[1] == 2
    blocks = 1 if few else grid[2]
    assert blocks * sizes["BO"] >= maps > (blocks - 1) * sizes["BO"]
    assert all(sizes[name].bit_count() == 1 for name in ("BP", "BO"))  # Triton's tiles


@pytest.mark.parametrize(("n", "channels", "maps"), [(1, 1, 6), (5, 16, 20), (64, 3, 70)])
def test_partial_sums_of_a_weight_gradient_are_added(
    monkeypatch: pytest.MonkeyPatch, n: int, channels: int, maps: int
) -> None:
    def parts(
        x: Tensor, slope: Tensor, out: Tensor, rows: int, models: int, each: int, **sizes: int
    ) -> None:
        tiles = -(-rows * sizes["OH"] * sizes["OW"] // sizes["BP"])
        assert (rows, models) == (n, 2)
        assert len(out) * each >= tiles
        assert len(out) <= min(tiles, MOST_SPLITS)
        for number in range(len(out)):
            out[number] = number

    kernel = Kernel(parts)
    monkeypatch.setattr(convolution_kernels, "weight_gradient", kernel, raising=False)
    x, slope = torch.zeros(2, n, channels, 9, 7), torch.zeros(2, n, maps, 9, 5)
    found = weight_gradient(x, slope, (3, 5), 1)
    assert found.shape == (2, maps, channels, 3, 5)
    ((grid, sizes),) = kernel.calls
    assert (found == sum(range(grid[0]))).all()
    assert (sizes["OH"], sizes["OW"]) == (9, 5)
    entries = channels * 15
    tiles_of_maps = -(-maps // sizes["BO"])
    assert grid[2] == -(-entries // sizes["BR"]) * tiles_of_maps
    assert convolution_launch.PRECISION == sizes["DOT"] == "tf32x3"
