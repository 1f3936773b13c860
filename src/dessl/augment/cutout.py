"""Cutout: a grey square at a random place, of a random side up to a share of the width."""

from typing import NamedTuple

import torch
from torch import Tensor

from dessl.augment.fixed_point import ONE, between


class CutoutDraw(NamedTuple):
    """One square for each image; all int64 (n,), shares in 16.16, from 0 to ``ONE``."""

    side: Tensor
    x: Tensor
    y: Tensor


def drawn_cutout(n: int, generator: torch.Generator, device: torch.device) -> CutoutDraw:
    """Draw side and centre of n squares, each uniform and independent.

    >>> draw = drawn_cutout(4, torch.Generator().manual_seed(0), torch.device("cpu"))
    >>> draw.side.shape, bool((draw.side < ONE).all())
    (torch.Size([4]), True)
    """
    side, x, y = torch.randint(ONE, (3, n), generator=generator, device=device)
    return CutoutDraw(side, x, y)


def cut_out(images: Tensor, draw: CutoutDraw, largest: float = 0.5, fill: int = 127) -> Tensor:
    """Return each image with its square filled.

    A square that reaches over the left or upper border is moved inside, one that reaches over the
    right or lower border is cut, and both of its end pixels are filled, as in the FixMatch code.

    Args:
        images: uint8 (n, channels, height, width).
        draw: one square for each image; a side of 0 leaves the image as it is.
        largest: side at most, as a share of the width.
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
