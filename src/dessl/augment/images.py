"""Input checks that all augmentations share, and normalisation: (x/255 − mean) / std."""

from collections.abc import Sequence

import torch
from torch import Tensor

from dessl import _checks

FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def checked_images(images: object, *, channels: Sequence[int] = ()) -> Tensor:
    """Check that images are uint8 (n, channels, height, width) with at least one pixel."""
    if not isinstance(images, Tensor):
        raise TypeError(
            f"images must be a torch.Tensor of dtype uint8; got {type(images).__name__}. "
            "Convert them with torch.as_tensor(...)."
        )
    if images.dtype != torch.uint8:
        raise TypeError(
            f"images must be uint8, levels from 0 to 255; got {images.dtype}. Augment before "
            "normalising, or convert levels in [0, 1] with (x * 255).round().to(torch.uint8)."
        )
    if images.ndim != 4:
        raise ValueError(
            f"images must have shape (n, channels, height, width); got {tuple(images.shape)}. "
            "Use x[None] for one colour image and x[:, None] for a batch of grey ones."
        )
    if 0 in images.shape[1:]:
        raise ValueError(f"images must have at least one pixel; got shape {tuple(images.shape)}.")
    if channels and images.shape[1] not in channels:
        wanted = " or ".join(str(count) for count in channels)
        raise ValueError(
            f"images must have {wanted} channel(s); got shape {tuple(images.shape)}. "
            "Channels come second: use x.permute(0, 3, 1, 2) for NHWC."
        )
    return images


def checked_generator(generator: object, device: torch.device) -> torch.Generator:
    """Check that a generator was passed and is on the images' type of device."""
    if not isinstance(generator, torch.Generator):
        raise TypeError(
            f"generator must be a torch.Generator; got {type(generator).__name__}. "
            f"Make one with torch.Generator({str(device)!r}).manual_seed(0)."
        )
    if generator.device.type != device.type:
        raise ValueError(
            f"generator must be on the images' device, {device}; got one on "
            f"{generator.device}. Make one with torch.Generator({str(device)!r})."
        )
    return generator


def checked_normalisation(
    mean: float | Sequence[float], std: float | Sequence[float], dtype: torch.dtype
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and std as tuples of equal length: one entry, or one per channel."""
    _checks.one_of("dtype", dtype, FLOATS)
    means = tuple(mean) if isinstance(mean, Sequence) else (mean,)
    stds = tuple(std) if isinstance(std, Sequence) else (std,)
    for value in means:
        _checks.number("mean", value)
    for value in stds:
        _checks.number("std", value, low=0, open_low=True)
    length = max(len(means), len(stds))
    if {len(means), len(stds)} - {1, length}:
        raise ValueError(
            f"mean and std must have the same number of values; got {len(means)} and {len(stds)} "
            "values. Pass one number, or one for each channel."
        )
    return (
        means * (length // len(means)),
        stds * (length // len(stds)),
    )


def normalised(
    images: Tensor, mean: Sequence[float], std: Sequence[float], dtype: torch.dtype = torch.float32
) -> Tensor:
    """Return (x/255 − mean) / std.

    Args:
        images: uint8 (n, channels, height, width).
        mean: mean of the levels in [0, 1]; one entry, or one for each channel.
        std: likewise.
        dtype: dtype of the result; the arithmetic is float32 (float64 for float64).

    Returns:
        ``dtype`` (n, channels, height, width).

    >>> x = torch.tensor([0, 255], dtype=torch.uint8).view(1, 1, 1, 2)
    >>> normalised(x, mean=(0.5,), std=(0.5,)).flatten().tolist()
    [-1.0, 1.0]
    """
    checked_images(images)
    if len(mean) not in (1, images.shape[1]):
        raise ValueError(
            f"mean and std must have one value, or one for each of the {images.shape[1]} "
            f"channel(s) of the images; got {len(mean)}."
        )
    working = torch.float64 if dtype == torch.float64 else torch.float32
    # Python scalars, one channel at a time: a tensor of constants would need a host-to-device copy.
    levels = images.to(working)
    parts = (levels,) if len(mean) == 1 else levels.unbind(1)
    for part, m, s in zip(parts, mean, std, strict=True):
        part.mul_(1 / (255 * s)).sub_(m / s)
    return levels.to(dtype)
