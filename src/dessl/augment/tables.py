"""Pointwise colour operations as lookup tables: new level = table[old level], one per channel.

Each table matches the one Pillow builds for the same image, at every level that occurs in it.
"""

import torch
from torch import Tensor

from dessl.augment.fixed_point import blended


def levels(device: torch.device) -> Tensor:
    """Return the levels 0 to 255, int32 (256,): the identity table."""
    return torch.arange(256, device=device, dtype=torch.int32)


def looked_up(images: Tensor, tables: Tensor) -> Tensor:
    """Look up each pixel in the table of its image and channel.

    Args:
        images: uint8 (n, channels, height, width).
        tables: (n, channels, 256), entries from 0 to 255.

    Returns:
        uint8 (n, channels, height, width).

    >>> x = torch.tensor([[[[0, 7], [255, 7]]]], dtype=torch.uint8)
    >>> looked_up(x, 255 - torch.arange(256).view(1, 1, 256)).tolist()
    [[[[255, 248], [0, 248]]]]
    """
    index = images.flatten(2).to(torch.int64)
    return tables.to(torch.uint8).gather(2, index).view(images.shape)


def adjusted(anchor: Tensor, weight: Tensor, keep: Tensor, threshold: Tensor) -> Tensor:
    """Return the composed tables of brightness, contrast, posterize and solarize, in that order.

    Args:
        anchor: int32 (n,), the level to blend with: 0 for brightness, the mean for contrast.
        weight: int32 (n,) in 16.16, weight of the image in that blend; ``ONE`` changes nothing.
        keep: int32 (n,), mask of the bits kept by posterize; 255 changes nothing.
        threshold: int32 (n,) in 16.16; levels at or above it are inverted; 256 changes nothing.

    Returns:
        int32 (n, 1, 256), the same for each channel.

    >>> number = lambda value: torch.tensor([value], dtype=torch.int32)
    >>> half_bright = adjusted(number(0), number(1 << 15), number(255), number(256 << 16))
    >>> half_bright[0, 0, [0, 101, 255]].tolist()
    [0, 50, 127]
    """
    anchor, weight, keep, threshold = (
        value[:, None, None] for value in (anchor, weight, keep, threshold)
    )
    table = blended(anchor, levels(anchor.device), weight) & keep
    return torch.where((table << 16) < threshold, table, 255 - table)


def autocontrast_tables(images: Tensor) -> Tensor:
    """Return the autocontrast tables: stretch each channel to the full range.

    Args:
        images: uint8 (n, channels, height, width).

    Returns:
        int32 (n, channels, 256).

    >>> x = torch.tensor([[[[100, 151, 202]]]], dtype=torch.uint8)
    >>> looked_up(x, autocontrast_tables(x)).tolist()
    [[[[0, 127, 255]]]]
    """
    # int32: torch 2.13 computes the minimum of uint8 wrongly when compiled for a CPU.
    pixels = images.flatten(2).to(torch.int32)
    darkest = pixels.amin(-1, keepdim=True).double()
    brightest = pixels.amax(-1, keepdim=True).double()
    span = (brightest - darkest).clamp(min=1)
    scale = torch.full_like(span, 255).div(span)
    same = levels(images.device)
    # Pillow rounds twice in float64: the product, then the difference. The clamps change no value;
    # they stop compilers from fusing both into one multiply-add, whose single rounding differs.
    stretched = (same * scale).clamp(min=0) - (darkest * scale).clamp(min=0)
    return torch.where(brightest > darkest, stretched.to(torch.int32).clamp(0, 255), same)


def equalize_tables(images: Tensor) -> Tensor:
    """Return the tables that equalize each channel's histogram.

    Args:
        images: uint8 (n, channels, height, width).

    Returns:
        int32 (n, channels, 256).

    >>> x = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16)
    >>> torch.equal(looked_up(x, equalize_tables(x)), x)  # flat already
    True
    """
    pixels = images.flatten(2).to(torch.int64)
    counts = torch.zeros((*pixels.shape[:2], 256), device=images.device, dtype=torch.int32)
    one = torch.ones((), device=images.device, dtype=torch.int32)
    counts = counts.scatter_add(2, pixels, one.expand(pixels.shape))
    of_brightest = counts.gather(2, pixels.amax(-1, keepdim=True))
    step = (pixels.shape[2] - of_brightest) // 255
    below = counts.cumsum(-1, dtype=torch.int32) - counts
    flattened = ((step // 2 + below) // step.clamp(min=1)).clamp(max=255)
    return torch.where(step > 0, flattened, levels(images.device))
