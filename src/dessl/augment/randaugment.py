"""RandAugment as in FixMatch: n operations in sequence, drawn independently for each image.

All geometric operations are one affine gather, all pointwise colour operations one table lookup,
and saturation and sharpness one blend; kinds that an image did not draw act as the identity. So
shapes do not depend on the draw and nothing synchronises with the host: it compiles, and can be
captured in a CUDA graph.
"""

from itertools import chain

import torch
from torch import Tensor

from dessl.augment.colour import grey, mean_grey, smooth
from dessl.augment.fixed_point import blended
from dessl.augment.geometric import moved
from dessl.augment.operations import Operation, RandAugmentDraw, Slot, drew, slots
from dessl.augment.tables import adjusted, autocontrast_tables, equalize_tables, looked_up

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
SHARPNESS = (Operation.SHARPNESS,)
UNCHANGED = (Operation.IDENTITY,)
KINDS = (UNCHANGED, GEOMETRIC, TABULAR, COLOUR, SHARPNESS)
KIND_OF = [next(k for k, kind in enumerate(KINDS) if operation in kind) for operation in Operation]


def randaugmented(images: Tensor, draw: RandAugmentDraw, fill: int = 0) -> Tensor:
    """Apply each image's own operations, in order.

    On a CPU each kind of operation runs only on the images that drew it; elsewhere, and when
    compiled, every kind runs on every image, with bit-identical results.

    Args:
        images: uint8 (n, 1 or 3, height, width).
        draw: (n, n_ops) operations and strengths.
        fill: level of the pixels outside the image, for rotations, shears and translations.

    Returns:
        uint8 (n, 1 or 3, height, width).

    >>> x = torch.tensor([[[[0, 100, 200]]]], dtype=torch.uint8)
    >>> solarize = RandAugmentDraw(torch.tensor([[Operation.SOLARIZE]]), torch.tensor([[1 << 15]]))
    >>> randaugmented(x, solarize).tolist()
    [[[[0, 100, 55]]]]
    """
    apart = images.device.type == "cpu" and not torch.compiler.is_compiling()
    after = after_sorted_slot if apart else after_static_slot
    height, width = images.shape[2:]
    for slot in slots(draw, height=height, width=width):
        images = after(images, slot, fill)
    return images


def after_static_slot(images: Tensor, slot: Slot, fill: int) -> Tensor:
    """Apply one operation to each image; every kind runs on all images."""
    contrast, autocontrast, equalize, colour, sharpness = (
        drew(slot.operation, wanted)[:, None, None]
        for wanted in (
            Operation.CONTRAST,
            Operation.AUTOCONTRAST,
            Operation.EQUALIZE,
            Operation.COLOUR,
            Operation.SHARPNESS,
        )
    )
    anchor = mean_grey(images) * contrast[:, 0, 0]
    tables = adjusted(anchor, slot.weight, slot.keep, slot.threshold)
    tables = torch.where(autocontrast, autocontrast_tables(images), tables)
    tables = torch.where(equalize, equalize_tables(images), tables)
    new = looked_up(moved(images, slot.maps, fill), tables)
    plain = torch.where(colour[..., None], grey(images), smooth(images))
    # For an image that drew one of these two, the map and the table were the identity.
    return torch.where((colour | sharpness)[..., None], _shared(images, plain, slot.sharing), new)


def after_sorted_slot(images: Tensor, slot: Slot, fill: int) -> Tensor:
    """Apply one operation to each image; each kind runs only on the images that drew it."""
    rows: list[list[int]] = [[] for _ in KINDS]
    for row, operation in enumerate(slot.operation.tolist()):
        rows[KIND_OF[operation]].append(row)
    parts = []
    for kind, drawn in zip(KINDS, rows, strict=True):
        chosen = torch.tensor(drawn, dtype=torch.int64)
        x = images.index_select(0, chosen)
        if kind is GEOMETRIC:
            x = moved(x, slot.maps.index_select(0, chosen), fill)
        elif kind is TABULAR:
            x = looked_up(x, _tables(x, Slot(*(part.index_select(0, chosen) for part in slot))))
        elif kind is not UNCHANGED:
            plain = grey(x) if kind is COLOUR else smooth(x)
            x = _shared(x, plain, slot.sharing.index_select(0, chosen))
        parts.append(x)
    order = torch.tensor(list(chain.from_iterable(rows)), dtype=torch.int64)
    return torch.cat(parts).index_select(0, order.argsort())


def _tables(images: Tensor, slot: Slot) -> Tensor:
    """Return tables (n, channels, 256); compute statistics only for the images that need them."""

    def rows(wanted: Operation) -> tuple[Tensor, Tensor]:
        chosen = drew(slot.operation, wanted).nonzero().flatten()
        return chosen, images.index_select(0, chosen)

    chosen, x = rows(Operation.CONTRAST)
    anchor = torch.zeros(len(images), dtype=torch.int32).index_copy_(0, chosen, mean_grey(x))
    tables = adjusted(anchor, slot.weight, slot.keep, slot.threshold)
    tables = tables.repeat(1, images.shape[1], 1)
    chosen, x = rows(Operation.EQUALIZE)
    tables.index_copy_(0, chosen, equalize_tables(x))
    chosen, x = rows(Operation.AUTOCONTRAST)
    return tables.index_copy_(0, chosen, autocontrast_tables(x))


def _shared(images: Tensor, plain: Tensor, sharing: Tensor) -> Tensor:
    """Blend each image with its grey or smoothed version; uint8, same shape as the images."""
    return blended(plain, images.to(torch.int32), sharing[:, None, None, None]).to(torch.uint8)
