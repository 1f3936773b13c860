"""The operations of RandAugment, how they are drawn, and the parameters of each draw.

Each slot of an image has one operation. It sets the parameters of every kind of operation (affine
map, table, blend); the kinds it does not use are set to the identity.
"""

from enum import IntEnum
from typing import NamedTuple

import torch
from torch import Tensor

from dessl.augment.fixed_point import ONE, between, fixed
from dessl.augment.geometric import affine_maps


class Operation(IntEnum):
    """The operations of RandAugment in FixMatch, drawn with equal probability."""

    AUTOCONTRAST = 0
    BRIGHTNESS = 1
    COLOUR = 2
    CONTRAST = 3
    EQUALIZE = 4
    IDENTITY = 5
    POSTERIZE = 6
    ROTATE = 7
    SHARPNESS = 8
    SHEAR_X = 9
    SHEAR_Y = 10
    SOLARIZE = 11
    TRANSLATE_X = 12
    TRANSLATE_Y = 13


class RandAugmentDraw(NamedTuple):
    """Operations and their strengths, both int64 (n, n_ops).

    ``strength``, in 16.16 from 0 to ``ONE``, is the position within the operation's range:
    brightness, colour, contrast and sharpness 0.05 to 0.95, posterize 4 to 8 bits, rotate −30° to
    30°, shears and translations −0.3 to 0.3, solarize 0 to 256; the other operations ignore it.
    """

    operation: Tensor
    strength: Tensor


class Slot(NamedTuple):
    """The parameters of one operation for each of n images.

    ``operation`` int64 (n,); ``maps`` int32 (n, 6), see :func:`affine_maps`; ``weight``, ``keep``
    and ``threshold`` int32 (n,), see :func:`adjusted`; ``sharing`` int32 (n,) in 16.16, the weight
    of the image itself in colour and sharpness.
    """

    operation: Tensor
    maps: Tensor
    weight: Tensor
    keep: Tensor
    threshold: Tensor
    sharing: Tensor


def drawn_operations(
    n: int,
    n_ops: int,
    generator: torch.Generator,
    device: torch.device,
    magnitude: float | None = None,
) -> RandAugmentDraw:
    """Draw ``n_ops`` operations for each of n images, uniformly and independently.

    Args:
        n: number of images.
        n_ops: operations for each image.
        generator: on the device.
        device: of the draw.
        magnitude: position within each operation's range, from 0 to 1; drawn uniformly by default.

    >>> draw = drawn_operations(8, 3, torch.Generator().manual_seed(0), torch.device("cpu"))
    >>> draw.operation.shape, draw.strength.shape
    (torch.Size([8, 3]), torch.Size([8, 3]))
    """
    shape = (n, n_ops)
    operation = torch.randint(len(Operation), shape, generator=generator, device=device)
    if magnitude is None:
        strength = torch.randint(ONE, shape, generator=generator, device=device)
    else:
        strength = torch.full(shape, fixed(magnitude), device=device, dtype=torch.int64)
    return RandAugmentDraw(operation, strength)


def slots(draw: RandAugmentDraw, *, height: int, width: int) -> list[Slot]:
    """Convert a draw to parameters, slot by slot, for images of one size.

    >>> draw = RandAugmentDraw(torch.tensor([[Operation.SOLARIZE]]), torch.tensor([[ONE // 2]]))
    >>> slots(draw, height=8, width=8)[0].threshold.tolist() == [128 * ONE]
    True
    """
    operation, strength = draw
    toned = drew(operation, Operation.BRIGHTNESS) | drew(operation, Operation.CONTRAST)
    sharing = between(0.05, 0.95, strength)
    dropped = 256 >> (between(4, 8, strength) >> 16)
    numbers = (
        torch.where(toned, sharing, ONE),
        256 - torch.where(drew(operation, Operation.POSTERIZE), dropped, 1),
        torch.where(drew(operation, Operation.SOLARIZE), between(0, 256, strength), 256 * ONE),
        sharing,
    )
    columns = (operation, _maps(draw, height, width), *(v.to(torch.int32) for v in numbers))
    return [Slot(*parts) for parts in zip(*(v.unbind(1) for v in columns), strict=True)]


def drew(operation: Tensor, wanted: Operation) -> Tensor:
    """Return where an operation was drawn, bool, same shape as the draw."""
    # A plain int: torch.compile treats comparing a tensor with an enum as a constant.
    return operation == wanted.value


def _maps(draw: RandAugmentDraw, height: int, width: int) -> Tensor:
    """Return affine maps (n, n_ops, 6)."""
    operation, strength = draw
    amount = between(-0.3, 0.3, strength)
    return affine_maps(
        angle=between(-30, 30, strength) * drew(operation, Operation.ROTATE),
        shear_x=amount * drew(operation, Operation.SHEAR_X),
        shear_y=amount * drew(operation, Operation.SHEAR_Y),
        shift_x=amount * width * drew(operation, Operation.TRANSLATE_X),
        shift_y=amount * height * drew(operation, Operation.TRANSLATE_Y),
        height=height,
        width=width,
    )
