"""RandAugment as in FixMatch: n operations in a row, each drawn anew for each image.

A slot holds one operation for each image. All geometric operations are one affine gather, all
pointwise colour operations one look-up in a table, and saturation and sharpness one blend; an image
that drew none of a kind gets that kind's identity. So a slot has one shape whatever was drawn,
and never asks the host: it compiles, and can be captured in a CUDA graph.
"""

from enum import IntEnum
from typing import NamedTuple

import torch
from torch import Tensor

from dessl.augment.colour import grey, mean_grey, smooth
from dessl.augment.fixed_point import ONE, between, blended, fixed
from dessl.augment.geometric import affine_maps, moved
from dessl.augment.tables import adjusted, autocontrast_tables, equalize_tables, looked_up


class Operation(IntEnum):
    """The operations of RandAugment in FixMatch; each is drawn as often as any other."""

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


GEOMETRIC = (
    Operation.ROTATE,
    Operation.SHEAR_X,
    Operation.SHEAR_Y,
    Operation.TRANSLATE_X,
    Operation.TRANSLATE_Y,
)
TABULAR = (
    Operation.AUTOCONTRAST,
    Operation.BRIGHTNESS,
    Operation.CONTRAST,
    Operation.EQUALIZE,
    Operation.POSTERIZE,
    Operation.SOLARIZE,
)
COLOUR = (Operation.COLOUR,)
UNCHANGED = (Operation.IDENTITY,)
SHARPNESS = (Operation.SHARPNESS,)


class RandAugmentDraw(NamedTuple):
    """Operations and how strongly each acts; both int64 (n, n_ops).

    ``strength`` is a share in 16.16, from 0 to ``ONE``, of the way through the operation's range:
    brightness, colour, contrast and sharpness 0.05 to 0.95, posterize 4 to 8 bits, rotate −30° to
    30°, shears and translations −0.3 to 0.3, solarize 0 to 256; the others take none.
    """

    operation: Tensor
    strength: Tensor


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
        magnitude: share of the range of each operation, from 0 to 1; drawn uniformly if not given.

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


def randaugmented(images: Tensor, draw: RandAugmentDraw, fill: int = 0) -> Tensor:
    """Return each image after its own operations, in their order.

    On a CPU each kind of operation runs on the images that drew it; elsewhere, and when compiled,
    every kind runs on every image, with the same result to the last bit.

    Args:
        images: uint8 (n, 1 or 3, height, width).
        draw: (n, n_ops) operations and strengths.
        fill: level of pixels that rotations, shears and translations bring in from outside.

    Returns:
        uint8 (n, 1 or 3, height, width).

    >>> x = torch.tensor([[[[0, 100, 200]]]], dtype=torch.uint8)
    >>> solarize = RandAugmentDraw(torch.tensor([[Operation.SOLARIZE]]), torch.tensor([[ONE // 2]]))
    >>> randaugmented(x, solarize).tolist()
    [[[[0, 100, 55]]]]
    """
    apart = images.device.type == "cpu" and not torch.compiler.is_compiling()
    slot = sorted_slot if apart else static_slot
    for operation, strength in zip(draw.operation.unbind(1), draw.strength.unbind(1), strict=True):
        images = slot(images, operation, strength, fill)
    return images


def static_slot(images: Tensor, operation: Tensor, strength: Tensor, fill: int) -> Tensor:
    """Return each image after one operation; all kinds run on all images."""
    equalize, autocontrast, colour, sharpness = (
        _drew(operation, wanted)[:, None, None]
        for wanted in (
            Operation.EQUALIZE,
            Operation.AUTOCONTRAST,
            Operation.COLOUR,
            Operation.SHARPNESS,
        )
    )
    tables = _adjusted_tables(operation, strength, mean_grey(images))
    tables = torch.where(autocontrast, autocontrast_tables(images), tables)
    tables = torch.where(equalize, equalize_tables(images), tables)
    new = looked_up(moved(images, _maps(images, operation, strength), fill), tables)
    plain = torch.where(colour[..., None], grey(images), smooth(images))
    # An image that drew one of these two was neither moved nor looked up.
    return torch.where((colour | sharpness)[..., None], _mixed(plain, images, strength), new)


def sorted_slot(images: Tensor, operation: Tensor, strength: Tensor, fill: int) -> Tensor:
    """Return each image after one operation; each kind runs on the images that drew it."""
    drawn = operation.tolist()
    order: list[int] = []
    parts = []
    for kind in (UNCHANGED, GEOMETRIC, TABULAR, COLOUR, SHARPNESS):
        rows = [row for row, wanted in enumerate(drawn) if wanted in kind]
        order += rows
        chosen = torch.tensor(rows, dtype=torch.int64)
        x, op, share = (t.index_select(0, chosen) for t in (images, operation, strength))
        if kind is GEOMETRIC:
            x = moved(x, _maps(x, op, share), fill)
        elif kind is TABULAR:
            x = looked_up(x, _sorted_tables(x, op, share))
        elif kind is not UNCHANGED:
            x = _mixed(grey(x) if kind is COLOUR else smooth(x), x, share)
        parts.append(x)
    return torch.cat(parts).index_select(0, torch.tensor(order).argsort())


def _sorted_tables(images: Tensor, operation: Tensor, strength: Tensor) -> Tensor:
    """Return tables (n, channels, 256), with statistics of the images that need them."""

    def rows(wanted: Operation) -> Tensor:
        return _drew(operation, wanted).nonzero().flatten()

    chosen = rows(Operation.CONTRAST)
    anchor = torch.zeros(len(images), dtype=torch.int32)
    anchor.index_copy_(0, chosen, mean_grey(images.index_select(0, chosen)))
    tables = _adjusted_tables(operation, strength, anchor).repeat(1, images.shape[1], 1)
    chosen = rows(Operation.EQUALIZE)
    tables.index_copy_(0, chosen, equalize_tables(images.index_select(0, chosen)))
    chosen = rows(Operation.AUTOCONTRAST)
    return tables.index_copy_(0, chosen, autocontrast_tables(images.index_select(0, chosen)))


def _adjusted_tables(operation: Tensor, strength: Tensor, mean: Tensor) -> Tensor:
    """Return tables (n, 1, 256) that change only the images that drew one of the four."""
    brightness, contrast = (
        _drew(operation, Operation.BRIGHTNESS),
        _drew(operation, Operation.CONTRAST),
    )
    weight = torch.where(brightness | contrast, between(0.05, 0.95, strength), ONE)
    bits = between(4, 8, strength) >> 16
    keep = torch.where(_drew(operation, Operation.POSTERIZE), 256 - (256 >> bits), 255)
    solarize = _drew(operation, Operation.SOLARIZE)
    threshold = torch.where(solarize, between(0, 256, strength), 256 * ONE)
    return adjusted(mean * contrast, *(v.to(torch.int32) for v in (weight, keep, threshold)))


def _maps(images: Tensor, operation: Tensor, strength: Tensor) -> Tensor:
    """Return affine maps (n, 6) that change only the images that drew a geometric operation."""
    height, width = images.shape[2:]
    amount = between(-0.3, 0.3, strength)
    return affine_maps(
        angle=between(-30, 30, strength) * (_drew(operation, Operation.ROTATE)),
        shear_x=amount * (_drew(operation, Operation.SHEAR_X)),
        shear_y=amount * (_drew(operation, Operation.SHEAR_Y)),
        shift_x=amount * width * (_drew(operation, Operation.TRANSLATE_X)),
        shift_y=amount * height * (_drew(operation, Operation.TRANSLATE_Y)),
        height=height,
        width=width,
    )


def _mixed(plain: Tensor, images: Tensor, strength: Tensor) -> Tensor:
    """Return the blend of colour and sharpness, uint8, shaped as the images."""
    weight = between(0.05, 0.95, strength).to(torch.int32)[:, None, None, None]
    return blended(plain, images.to(torch.int32), weight).to(torch.uint8)


def _drew(operation: Tensor, wanted: Operation) -> Tensor:
    # A plain int: torch.compile takes the comparison of a tensor with an enum for a constant.
    return operation == wanted.value
