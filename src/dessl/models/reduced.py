"""Large images made small by averaging areas, for networks and teachers that need no detail."""

import torch
from torch import Tensor

LEAST_SIDE = 8  # of the result: what the networks for images need
AT_ONCE = 2**24  # pixels that are floats at one time
EXACT = 2**24  # whole numbers up to here are exact in float32


def reduced_sides(sides: tuple[int, int], longest: int) -> tuple[int, int]:
    """Return height and width with the longer side at most ``longest``, in proportion.

    A side that is short enough already is kept.

    >>> reduced_sides((100, 200), 32), reduced_sides((28, 28), 32), reduced_sides((20, 600), 32)
    ((16, 32), (28, 28), (20, 32))
    """
    factor = min(1.0, longest / max(sides))
    height, width = (
        side if side <= longest else max(LEAST_SIDE, round(factor * side)) for side in sides
    )
    return height, width


def area_averaged(images: Tensor, longest: int) -> Tensor:
    """Return images (n, channels, height, width) with the longer side at most ``longest``.

    Each new pixel is the mean of the area that it covers, so nothing aliases. Bytes stay bytes,
    rounded; images that are small enough are returned unchanged.

    >>> area_averaged(torch.arange(16.0).expand(1, 1, 16, 16), 8)[0, 0, 0]
    tensor([ 0.5000,  2.5000,  4.5000,  6.5000,  8.5000, 10.5000, 12.5000, 14.5000])
    """
    before = (images.shape[2], images.shape[3])
    after = reduced_sides(before, longest)
    if after == before:
        return images
    bytes_given, area = not images.is_floating_point(), before[0] * before[1]
    # Sums of bytes are whole numbers that the type represents, so that every program that runs an
    # exported graph rounds them to the same bytes.
    exact = torch.float32 if 255 * area < EXACT else torch.float64
    dtype = exact if bytes_given else images.dtype
    down = _overlaps(before[0], after[0], images.device, dtype)
    across = _overlaps(before[1], after[1], images.device, dtype)
    parts: tuple[Tensor, ...] = (images,)
    if not torch.compiler.is_compiling():  # nor exporting, which does not know how many there are
        parts = torch.split(images, max(1, AT_ONCE // images.shape[1:].numel()))
    found = [down @ (part.to(dtype) @ across.T) / area for part in parts]
    if bytes_given:
        found = [part.round_().to(images.dtype) for part in found]
    return torch.cat(found) if len(found) > 1 else found[0]


def _overlaps(before: int, after: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """How much of each new pixel each old one covers, (after, before), in 1/after of an old pixel.

    These are whole numbers; rows sum to ``before``.
    """
    new = torch.arange(after, device=device)[:, None] * before
    old = torch.arange(before, device=device) * after
    covered = torch.minimum(new + before, old + after) - torch.maximum(new, old)
    return covered.clamp(min=0).to(dtype)
