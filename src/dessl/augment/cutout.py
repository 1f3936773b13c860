"""Cutout: a grey square at a random position, its side drawn up to a fraction of the width."""

from typing import NamedTuple

import torch
from torch import Tensor

from dessl.augment.fixed_point import ONE, between


class CutoutDraw(NamedTuple):
    """One square per image; all int64 (n,), fractions in 16.16, from 0 to ``ONE``."""

    side: Tensor
    x: Tensor
    y: Tensor


def drawn_cutout(n: int, generator: torch.Generator, device: torch.device) -> CutoutDraw:
    """Draw the sides and centres of n squares, uniformly and independently.

    >>> draw = drawn_cutout(4, torch.Generator().manual_seed(0), torch.device("cpu"))
    >>> draw.side.shape, bool((draw.side < ONE).all())
    (torch.Size([4]), True)
    """
    side, x, y = torch.randint(ONE, (3, n), generator=generator, device=device)
    return CutoutDraw(side, x, y)


def cut_out(images: Tensor, draw: CutoutDraw, largest: float = 0.5, fill: int = 127) -> Tensor:
    """Return each image with its square filled.

    A square that crosses the left or top border is moved inside, one that crosses the right or
    bottom border is clipped, and both end pixels are filled, as in the FixMatch code.

    Args:
        images: uint8 (n, channels, height, width).
        draw: one square per image; a side of 0 leaves the image unchanged.
        largest: maximum side, as a fraction of the width.
        fill: level of the square.

    Returns:
        uint8 (n, channels, height, width).

    >>> middle = CutoutDraw(*torch.tensor([[ONE], [ONE // 2], [ONE // 2]]))
    >>> cut_out(torch.zeros(1, 1, 4, 4, dtype=torch.uint8), middle, fill=9)[0, 0].tolist()
    [[0, 0, 0, 0], [0, 9, 9, 9], [0, 9, 9, 9], [0, 9, 9, 9]]
    """
    height, width = images.shape[2:]
    side = between(0, largest, draw.side) * width
    columns = _covered(draw.x * width, side, width)
    rows = _covered(draw.y * height, side, height)
    rows = rows & (side > 0)[:, None]
    inside = (rows.to(torch.uint8)[:, :, None] * columns.to(torch.uint8)[:, None, :])[:, None]
    return images * (1 - inside) + inside * fill


def _covered(centre: Tensor, side: Tensor, size: int) -> Tensor:
    """Return which of ``size`` positions lie in the square, bool (n, size)."""
    first = (2 * centre - side).clamp(min=0) >> 17
    last = first + (side >> 16)
    position = torch.arange(size, device=centre.device)
    return (position >= first[:, None]) & (position <= last[:, None])
