"""Choose a kernel of :mod:`dessl.training.convolution_kernels` and its tiles, and run it.

Few maps are summed by plain multiplications, pixel by pixel; many maps, and all gradients of
weights, are products of tiles on tensor cores, in three passes of ``tf32x3``, which keep the
accuracy of float32. The sizes were the fastest for LeNets on an H200.
"""

from typing import Any

import torch
from torch import Tensor

from dessl.training import convolution_kernels as kernels

PRECISION = "tf32x3"
FEW_MAPS = 16  # largest number of maps for which plain multiplications are faster
MOST_SPLITS = 32  # largest number of partial sums of a weight gradient


def _shapes(x: Tensor, weight_shape: torch.Size, padding: int) -> dict[str, Any]:
    _, _, channels, height, width = x.shape
    _, maps, _, window_height, window_width = weight_shape
    return {
        "C": channels,
        "H": height,
        "W": width,
        "O": maps,
        "OH": height + 2 * padding - window_height + 1,
        "OW": width + 2 * padding - window_width + 1,
        "KH": window_height,
        "KW": window_width,
        "PAD": padding,
        "BO": min(64, max(8, 1 << (maps - 1).bit_length())),
    }


def convolved(x: Tensor, weight: Tensor, bias: Tensor, padding: int, *, relu: bool) -> Tensor:
    """Return x (K, n, C, H, W) convolved with weights (K, O, C, kh, kw), model by model.

    Args:
        x: Rows of each model.
        weight: Weights of each model.
        bias: Biases of each model, (K, O).
        padding: Number of zeros on each side.
        relu: Whether negative results become zero.
    """
    shapes = _shapes(x, weight.shape, padding)
    models, n, maps, block = len(x), x.shape[1], shapes["O"], shapes["BO"]
    height, width = shapes["OH"], shapes["OW"]
    out = x.new_empty(models, n, maps, height, width)
    given = (x.contiguous(), weight.contiguous(), bias.contiguous())
    if maps <= FEW_MAPS:
        tile = 512 if maps <= 8 else 1024
        few = (-(-n * height * width // tile), models)
        kernels.few_maps[few](*given, out, n, BP=tile, RELU=relu, **shapes)
        return out
    tile = 128
    grid = (-(-n * height * width // tile), models, -(-maps // block))
    own = {"BP": tile, "BR": 16 if shapes["C"] % 16 == 0 else 32, "DOT": PRECISION, "RELU": relu}
    kernels.convolution[grid](*given, out, n, **own, **shapes)
    return out


def weight_gradient(x: Tensor, slope: Tensor, window: tuple[int, int], padding: int) -> Tensor:
    """Return the gradient (K, O, C, kh, kw) from x (K, n, C, H, W) and ∂/∂out (K, n, O, ...)."""
    models, n, channels = x.shape[:3]
    weight_shape = torch.Size((models, slope.shape[2], channels, *window))
    shapes = _shapes(x, weight_shape, padding)
    tile, part = 32, 32 if channels % 16 else 16
    tiles = -(-n * shapes["OH"] * shapes["OW"] // tile)
    parts = -(-channels * window[0] * window[1] // part) * -(-shapes["O"] // shapes["BO"])
    splits = min(tiles, MOST_SPLITS)
    partial = x.new_empty(splits, *weight_shape)
    own = {"BP": tile, "BR": part, "DOT": PRECISION, "num_warps": 1 if shapes["BO"] <= 16 else 4}
    kernels.weight_gradient[(splits, models, parts)](
        x.contiguous(), slope.contiguous(), partial, n, models, -(-tiles // splits), **own, **shapes
    )
    return partial.sum(0)
