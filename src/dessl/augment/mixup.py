"""Mixup: x̃ = w·x + (1 − w)·x[partner], with w from Beta(a, a) for each row."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from dessl import _checks
from dessl.augment.images import checked_generator


class Mixed(NamedTuple):
    """Mixed rows, and what is needed to mix their targets in the same way.

    ``x`` has the shape of the input; ``lam``, float32 (n,), is the weight of each row;
    ``partner``, int64 (n,), is a permutation: the row each one is mixed with.
    """

    x: Tensor
    lam: Tensor
    partner: Tensor

    def mix(self, values: Tensor) -> Tensor:
        """Mix other values of the same rows, floats (n, ...), in the same way as x."""
        if not values.is_floating_point():  # where every weight would be rounded to 0
            raise TypeError(
                f"values must be floats; got {values.dtype}. Mix one-hot targets as .float(), and "
                "do not mix class numbers."
            )
        lam = self.lam.to(values.dtype).view(-1, *(1,) * (values.ndim - 1))
        return lam * values + (1 - lam) * values[self.partner]


def mixup(x: Tensor, alpha: float, generator: torch.Generator) -> Mixed:
    """Mix each row with another row of the batch.

    Args:
        x: floats (n, ...).
        alpha: a of Beta(a, a), positive; small values leave most rows nearly unmixed.
        generator: on the device of x.

    >>> x = torch.eye(3)
    >>> mixed = mixup(x, 1.0, torch.Generator().manual_seed(0))
    >>> mixed.x.sum(1).tolist()  # weights add up to one
    [1.0, 1.0, 1.0]
    """
    if not isinstance(x, Tensor) or not x.is_floating_point() or x.ndim == 0:
        got = f"{x.dtype} {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
        raise TypeError(f"x must be a floating-point tensor (n, ...); got {got}. Normalise first.")
    _checks.number("alpha", alpha, low=0, open_low=True)
    checked_generator(generator, x.device)
    lam = symmetric_beta(len(x), alpha, generator, x.device)
    # The ranks of independent uniforms are a permutation, without randperm's host synchronisation.
    partner = torch.rand(len(x), generator=generator, device=x.device).argsort()
    return Mixed(Mixed(x, lam, partner).mix(x), lam, partner)


def symmetric_beta(
    n: int, alpha: float, generator: torch.Generator, device: torch.device
) -> Tensor:
    """Draw n values from Beta(a, a), float32 (n,).

    Uses a closed form (Devroye 1996) instead of rejection sampling, so shapes are static:
    ½ ± ½ / √(1 + 1 / ((U^(−1/a) − 1) cos²(2πV))) with U, V uniform.

    >>> draws = symmetric_beta(1000, 0.75, torch.Generator().manual_seed(0), torch.device("cpu"))
    >>> bool((draws >= 0).all() and (draws <= 1).all())
    True
    """
    u, v, sign = torch.rand((3, n), generator=generator, device=device)
    ratio = torch.expm1(-u.log() / alpha) * torch.cos(2 * math.pi * v).square()
    half = 0.5 / (1 + 1 / ratio).sqrt()
    return torch.where(sign < 0.5, 0.5 - half, 0.5 + half)
