"""16.16 fixed-point numbers, used to draw magnitudes and to move pixels.

Pillow evaluates an affine map in 16.16 integers, and float32 represents its blend factors exactly
if they lie on the same grid. Drawing on that grid makes every operation integer arithmetic, so a
draw gives the same result eager or compiled, on CPU or GPU, with or without fused multiply-adds.
"""

from torch import Tensor

ONE = 1 << 16


def fixed(value: float) -> int:
    """Return the 16.16 number nearest to a value.

    >>> fixed(0.5), fixed(-1)
    (32768, -65536)
    """
    return round(value * ONE)


def between(low: float, high: float, strength: Tensor) -> Tensor:
    """Interpolate from ``low`` to ``high`` by ``strength``, in 16.16.

    Args:
        low: value at strength 0.
        high: value at strength 1.
        strength: int64, a fraction in 16.16, from 0 to ``ONE``.

    Returns:
        int64, in 16.16, same shape as ``strength``.

    >>> import torch
    >>> (between(-30, 30, torch.tensor([0, ONE // 2, ONE])) >> 16).tolist()
    [-30, 0, 30]
    """
    start = fixed(low)
    return start + ((strength * (fixed(high) - start)) >> 16)


def blended(first: Tensor, second: Tensor, weight: Tensor) -> Tensor:
    """Return first + weight · (second − first), rounded down, as Pillow's ``Image.blend`` does.

    Args:
        first: int32, levels from 0 to 255.
        second: int32, levels from 0 to 255, broadcast against ``first``.
        weight: int32 in 16.16, from 0 to ``ONE``; at ``ONE`` the result is ``second``.

    >>> import torch
    >>> blended(*torch.tensor([[0, 255], [255, 0], [ONE // 2, ONE]], dtype=torch.int32)).tolist()
    [127, 0]
    """
    return first + (((second - first) * weight) >> 16)
