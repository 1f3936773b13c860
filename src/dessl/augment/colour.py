"""Colour operations that are not pointwise: saturation (uses all channels), sharpness (neighbours).

Both blend the image with a degenerate one: its grey version, or its version smoothed by the kernel
(1 1 1; 1 5 1; 1 1 1) / 13, which leaves border pixels unchanged.
"""

import torch
from torch import Tensor


def grey(images: Tensor) -> Tensor:
    """Return the luminance (299 R + 587 G + 114 B) / 1000 in Pillow's 16-bit arithmetic.

    Args:
        images: uint8 (n, 3, height, width), or (n, 1, height, width), already grey.

    Returns:
        int32 (n, 1, height, width), levels from 0 to 255.

    >>> red = torch.tensor([255, 0, 0], dtype=torch.uint8).view(1, 3, 1, 1)
    >>> grey(red).item()
    76
    """
    if images.shape[1] == 1:
        return images.to(torch.int32)
    red, green, blue = images.to(torch.int32)[:, :, None].unbind(1)
    return (19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16


def mean_grey(images: Tensor) -> Tensor:
    """Return the mean luminance of each image, rounded to the nearest level.

    Args:
        images: uint8 (n, 1 or 3, height, width).

    Returns:
        int32 (n,).

    >>> mean_grey(torch.tensor([1, 2], dtype=torch.uint8).view(1, 1, 1, 2)).tolist()
    [2]
    """
    pixels = images.shape[2] * images.shape[3]
    total = grey(images).flatten(1).sum(1, dtype=torch.int64)
    return ((2 * total + pixels) // (2 * pixels)).to(torch.int32)


def smooth(images: Tensor) -> Tensor:
    """Smooth each image with a 3×3 kernel, centre weight 5; border pixels are unchanged.

    Args:
        images: uint8 (n, channels, height, width).

    Returns:
        int32 (n, channels, height, width), levels from 0 to 255.

    >>> x = torch.zeros(1, 1, 3, 3, dtype=torch.uint8)
    >>> x[0, 0, 1, 1] = 130
    >>> smooth(x)[0, 0].tolist()
    [[0, 0, 0], [0, 50, 0], [0, 0, 0]]
    """
    result = images.to(torch.int32)
    rows = result[..., :-2, :] + result[..., 1:-1, :] + result[..., 2:, :]
    total = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:] + 4 * result[..., 1:-1, 1:-1]
    # (total + 6) / 13 without a division: exact for every total up to 13 · 255.
    inner = ((total + 6) * 5042) >> 16
    result[..., 1:-1, 1:-1] = inner
    return result
