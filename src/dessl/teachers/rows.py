"""Rows as teachers see them: columns (n, d), and SomeRows of a larger array, a block at a time.

There may be millions of unlabelled rows, and a teacher that projects them to a few columns needs no
copy of all of them.
"""

import math
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from dessl.models.reduced import area_averaged, reduced_sides

AT_ONCE = 2**22  # entries of a block: 16 MB in float32
LARGEST_SIDE = 32  # of images as columns; larger ones are reduced


def as_columns(x: Tensor) -> Tensor:
    """Return rows as columns (n, d), on the same device; pixels of images as values from 0 to 1.

    Images with a side above 32 pixels are reduced to 32: coarse shapes are what distances between
    pixels can measure, and time and memory grow with the area.

    >>> as_columns(torch.full((2, 1, 2, 2), 255, dtype=torch.uint8))
    tensor([[1., 1., 1., 1.],
            [1., 1., 1., 1.]])
    """
    seen = area_averaged(x.detach(), LARGEST_SIDE) if x.ndim == 4 else x.detach()
    flat = seen.flatten(1)
    return flat.float() / 255 if x.dtype == torch.uint8 else flat


def columns_of(shape: Sequence[int]) -> int:
    """Return how many columns :func:`as_columns` makes of rows of a shape.

    >>> columns_of((5,)), columns_of((1, 28, 28)), columns_of((3, 224, 224))
    (5, 784, 3072)
    """
    if len(shape) != 3:
        return math.prod(shape)
    channels, *sides = shape
    return channels * math.prod(reduced_sides((sides[0], sides[1]), LARGEST_SIDE))


class SomeRows:
    """Rows of an array that is not copied.

    Args:
        x: (n, ...) all rows, on any device.
        numbers: (m,) which of them, on the same device.
        columns: Function from some of the rows to columns (k, d).

    >>> rows = SomeRows(torch.arange(8.0).view(4, 2), torch.tensor([3, 0]), lambda x: x)
    >>> len(rows), rows[:1].tolist(), [block.tolist() for block in rows.blocks()]
    (2, [[6.0, 7.0]], [[[6.0, 7.0], [0.0, 1.0]]])
    """

    def __init__(self, x: Tensor, numbers: Tensor, columns: Callable[[Tensor], Tensor]) -> None:
        self.x, self.numbers, self.columns = x, numbers, columns

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, some: slice) -> Tensor:
        return self.columns(self.x[self.numbers[some]])

    @property
    def device(self) -> torch.device:
        """Device of the rows."""
        return self.x.device

    def blocks(self) -> Iterator[Tensor]:
        """Yield the columns (k, d), a few rows at a time."""
        for first in range(0, len(self), step := _step(self.x)):
            yield self[first : first + step]

    def gathered(self) -> Tensor:
        """Return the columns (m, d) of all rows: a copy."""
        return self[:]


def blocks_of(rows: Tensor | SomeRows) -> Iterator[Tensor]:
    """Yield a few rows at a time, from columns (n, d) or from rows not yet gathered."""
    return rows.blocks() if isinstance(rows, SomeRows) else iter(torch.split(rows, _step(rows)))


def _step(rows: Tensor) -> int:
    return max(1, AT_ONCE // max(1, rows[:1].numel()))
