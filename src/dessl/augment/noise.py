"""Gaussian noise and small translations: the perturbations of the Π model and Mean Teacher."""

import torch
from torch import Tensor

from dessl import _checks
from dessl.augment.geometric import shifted
from dessl.augment.images import checked_generator


def noisy(x: Tensor, std: float, generator: torch.Generator) -> Tensor:
    """Add independent Gaussian noise to every entry of x.

    Args:
        x: floats of any shape: normalised images, or rows of a table.
        std: standard deviation of the noise.
        generator: on the device of x.

    Returns:
        The shape and dtype of x.

    >>> x = torch.zeros(1000)
    >>> round(noisy(x, 0.15, torch.Generator().manual_seed(0)).std().item(), 2)
    0.15
    """
    if not isinstance(x, Tensor) or not x.is_floating_point():
        kind = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise TypeError(
            f"x must be a floating-point tensor; got {kind}. Add noise after normalising."
        )
    _checks.number("std", std, low=0)
    checked_generator(generator, x.device)
    noise = torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)
    return x + std * noise


def translated(images: Tensor, pixels: int, generator: torch.Generator) -> Tensor:
    """Shift each image by its own whole number of pixels, with reflection padding.

    Args:
        images: (n, channels, height, width), of any dtype.
        pixels: maximum shift; columns and rows are drawn uniformly from −pixels to pixels.
        generator: on the device of the images.

    Returns:
        The shape and dtype of the images.

    >>> x = torch.arange(16.0).view(1, 1, 4, 4)
    >>> translated(x, 2, torch.Generator().manual_seed(0)).shape
    torch.Size([1, 1, 4, 4])
    """
    if not isinstance(images, Tensor) or images.ndim != 4:
        got = tuple(images.shape) if isinstance(images, Tensor) else type(images).__name__
        raise ValueError(f"images must have shape (n, channels, height, width); got {got}.")
    _checks.whole_number("pixels", pixels, high=min(images.shape[2:]) - 1)
    checked_generator(generator, images.device)
    shape, device = (2, len(images)), images.device
    columns, rows = torch.randint(-pixels, pixels + 1, shape, generator=generator, device=device)
    return shifted(images, columns, rows)
