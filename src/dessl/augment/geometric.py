"""Moves of pixels: one affine map for each image, sampled at the nearest pixel as Pillow does.

An output pixel (x, y) takes the input pixel (⌊a(x+½) + b(y+½) + c⌋, ⌊d(x+½) + e(y+½) + f⌋), or the
fill level where that lies outside. The coefficients are 16.16 integers, as in Pillow's own loop.
"""

import math

import torch
from torch import Tensor

from dessl.augment.fixed_point import ONE


def affine_maps(
    angle: Tensor,
    shear_x: Tensor,
    shear_y: Tensor,
    shift_x: Tensor,
    shift_y: Tensor,
    *,
    height: int,
    width: int,
) -> Tensor:
    """Return the six coefficients of one map for each image, output pixel → input pixel.

    Of the five amounts of an image at most one may differ from zero. Amounts may have more
    dimensions than one, all the same: (n, slots) gives maps (n, slots, 6).

    Args:
        angle: int64 (n,), degrees anticlockwise about the centre, in 16.16.
        shear_x: int64 (n,), columns moved for each row, in 16.16.
        shear_y: int64 (n,), rows moved for each column, in 16.16.
        shift_x: int64 (n,), columns moved, in 16.16; positive moves the picture to the left.
        shift_y: int64 (n,), rows moved, in 16.16; positive moves the picture upwards.
        height: of the images.
        width: of the images.

    Returns:
        int32 (n, 6): a, b, c + (a+b)/2, d, e, f + (d+e)/2, in 16.16.

    >>> zero = torch.zeros(1, dtype=torch.int64)
    >>> maps = affine_maps(zero, zero, zero, zero + 2 * ONE, zero, height=8, width=8)
    >>> (maps / ONE).tolist()
    [[1.0, 0.0, 2.5, 0.0, 1.0, 0.5]]
    """
    # float64: the coefficients must round to the same 16.16 integers as Pillow's doubles.
    turn = angle.double() * (-math.pi / 180 / ONE)
    cosine, sine = turn.cos(), turn.sin()
    b = sine + shear_x.double() / ONE
    d = shear_y.double() / ONE - sine
    centre_x, centre_y = width / 2, height / 2
    c = centre_x - cosine * centre_x - sine * centre_y + shift_x.double() / ONE
    f = centre_y + sine * centre_x - cosine * centre_y + shift_y.double() / ONE
    start_x, start_y = c + (cosine + b) / 2, f + (d + cosine) / 2
    maps = torch.stack((cosine, b, start_x, d, cosine, start_y), dim=-1)
    return (maps * ONE + 0.5).floor().to(torch.int32)


def moved(images: Tensor, maps: Tensor, fill: int = 0) -> Tensor:
    """Return each image under its own affine map, nearest pixel, ``fill`` from outside.

    Args:
        images: uint8 (n, channels, height, width).
        maps: int32 (n, 6), from :func:`affine_maps`.
        fill: level of pixels that come from outside the image.

    Returns:
        uint8 (n, channels, height, width).

    >>> zero = torch.zeros(1, dtype=torch.int64)
    >>> x = torch.tensor([[[[1, 2, 3]]]], dtype=torch.uint8)
    >>> moved(x, affine_maps(zero, zero, zero, zero + ONE, zero, height=1, width=3)).tolist()
    [[[[2, 3, 0]]]]
    """
    height, width = images.shape[2:]
    x = torch.arange(width, device=images.device, dtype=torch.int32)
    y = torch.arange(height, device=images.device, dtype=torch.int32)[:, None]
    a, b, c, d, e, f = maps[:, :, None, None].unbind(1)
    column = (a * x + (b * y + c)) >> 16
    row = (d * x + (e * y + f)) >> 16
    # A number is negative exactly if its sign bit is set: one comparison in place of four.
    inside = (column | row | (width - 1 - column) | (height - 1 - row)) >= 0
    index = (row * width + column).clamp(0, height * width - 1)
    # A product by the mask: torch.where with a number takes 30 times as long on a CPU.
    kept = _taken(images, index) * inside[:, None]
    return kept + (~inside[:, None]).to(torch.uint8) * fill if fill else kept


def shifted(images: Tensor, columns: Tensor, rows: Tensor, flip: Tensor | None = None) -> Tensor:
    """Return each image flipped or not, then moved by whole pixels, with reflection at the border.

    The border pixel itself is not repeated, as in ``numpy.pad(mode="reflect")``.

    Args:
        images: (n, channels, height, width), of any dtype.
        columns: int64 (n,), |columns| < width; positive moves the picture to the left.
        rows: int64 (n,), |rows| < height; positive moves the picture upwards.
        flip: bool (n,), whether to mirror left and right first; none of them if not given.

    Returns:
        (n, channels, height, width), of the dtype of the images.

    >>> x = torch.tensor([[[[1, 2, 3, 4]]]])
    >>> shifted(x, columns=torch.tensor([2]), rows=torch.tensor([0])).tolist()
    [[[[3, 4, 3, 2]]]]
    """
    height, width = images.shape[2:]
    x = _reflected(columns, width)
    y = _reflected(rows, height)
    if flip is not None:
        x = torch.where(flip[:, None], width - 1 - x, x)
    return _taken(images, y[:, :, None] * width + x[:, None, :])


def _reflected(shift: Tensor, size: int) -> Tensor:
    """Return where each of ``size`` positions is read, int32 (n, size)."""
    last = size - 1
    position = torch.arange(size, device=shift.device, dtype=torch.int32)
    return last - (last - (position + shift[:, None].to(torch.int32)).abs()).abs()


def _taken(images: Tensor, index: Tensor) -> Tensor:
    """Take pixel ``index`` (n, height, width), counted along rows, in each channel."""
    flat = index.flatten(1).to(torch.int64)[:, None].expand(-1, images.shape[1], -1)
    return images.flatten(2).gather(2, flat).view(images.shape)
