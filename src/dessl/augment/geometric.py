"""Geometric operations: one affine map per image, nearest-neighbour sampling as in Pillow.

Output pixel (x, y) reads input pixel (⌊a(x+½) + b(y+½) + c⌋, ⌊d(x+½) + e(y+½) + f⌋), or the fill
level if that lies outside the image. The coefficients are 16.16 integers, as in Pillow's own loop.
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
    """Return the six coefficients of each image's map, output pixel → input pixel.

    At most one of an image's five amounts may be non-zero. Amounts may have extra dimensions if
    all have the same shape: (n, slots) gives maps (n, slots, 6).

    Args:
        angle: int64 (n,), degrees anticlockwise about the centre, in 16.16.
        shear_x: int64 (n,), columns shifted per row, in 16.16.
        shear_y: int64 (n,), rows shifted per column, in 16.16.
        shift_x: int64 (n,), columns shifted, in 16.16; positive shifts the image left.
        shift_y: int64 (n,), rows shifted, in 16.16; positive shifts the image up.
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
    """Apply each image's own affine map, nearest neighbour, with ``fill`` outside the image.

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
    # The OR is negative if any term is: one comparison instead of four.
    inside = (column | row | (width - 1 - column) | (height - 1 - row)) >= 0
    index = (row * width + column).clamp(0, height * width - 1)
    # Multiply by the mask: torch.where with a scalar is 30 times slower on a CPU.
    kept = _taken(images, index) * inside[:, None]
    return kept + (~inside[:, None]).to(torch.uint8) * fill if fill else kept


def shifted(
    images: Tensor,
    columns: Tensor,
    rows: Tensor,
    flip: Tensor | None = None,
    turns: Tensor | None = None,
) -> Tensor:
    """Return each image flipped, then turned, then shifted with reflection padding.

    The border pixel itself is not repeated, as in ``numpy.pad(mode="reflect")``.

    Args:
        images: (n, channels, height, width), of any dtype.
        columns: int64 (n,), |columns| < width; positive shifts the image left.
        rows: int64 (n,), |rows| < height; positive shifts the image up.
        flip: bool (n,), whether to flip left to right; no flips by default.
        turns: int64 (n,), quarter turns anticlockwise, 0 to 3; odd ones need square images. No
            turns by default.

    Returns:
        (n, channels, height, width), same dtype as the images.

    >>> x = torch.tensor([[[[1, 2, 3, 4]]]])
    >>> shifted(x, columns=torch.tensor([2]), rows=torch.tensor([0])).tolist()
    [[[[3, 4, 3, 2]]]]
    >>> x, still = torch.tensor([[[[1, 2], [3, 4]]]]), torch.tensor([0])
    >>> shifted(x, still, still, turns=torch.tensor([1])).tolist()
    [[[[2, 4], [1, 3]]]]
    """
    height, width = images.shape[2:]
    x = _reflected(columns, width)
    y = _reflected(rows, height)
    if turns is None:
        if flip is not None:
            x = torch.where(flip[:, None], width - 1 - x, x)
        return _taken(images, y[:, :, None] * width + x[:, None, :])
    odd = turns % 2 == 1  # a pixel's row in the image comes from its column
    from_right, from_below = turns >= 2, (turns == 1) | (turns == 2)
    if flip is not None:
        from_right, from_below = from_right ^ (flip & ~odd), from_below ^ (flip & odd)
    x = torch.where(from_right[:, None], width - 1 - x, x)[:, None, :]
    y = torch.where(from_below[:, None], height - 1 - y, y)[:, :, None]
    return _taken(images, torch.where(odd[:, None, None], x * width + y, y * width + x))


def _reflected(shift: Tensor, size: int) -> Tensor:
    """Return the source index of each of ``size`` positions, int32 (n, size)."""
    last = size - 1
    position = torch.arange(size, device=shift.device, dtype=torch.int32)
    return last - (last - (position + shift[:, None].to(torch.int32)).abs()).abs()


def _taken(images: Tensor, index: Tensor) -> Tensor:
    """Gather pixels at the row-major ``index`` (n, height, width) in each channel."""
    flat = index.flatten(1).to(torch.int64)[:, None].expand(-1, images.shape[1], -1)
    return images.flatten(2).gather(2, flat).view(images.shape)
