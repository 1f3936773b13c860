"""The two views of consistency training: weak (symmetry, shift), strong (RandAugment, Cutout).

Both take uint8 images and return normalised floats, with an independent draw per image.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from dessl import _checks
from dessl.augment.cutout import CutoutDraw, cut_out, drawn_cutout
from dessl.augment.geometric import shifted
from dessl.augment.images import (
    checked_generator,
    checked_images,
    checked_normalisation,
    normalised,
)
from dessl.augment.operations import RandAugmentDraw, drawn_operations
from dessl.augment.randaugment import randaugmented


class WeakDraw(NamedTuple):
    """For each image, one of the eight symmetries of the square, then how far to shift it.

    ``flip``, bool (n,), flips left to right; ``turns``, int64 (n,), then turns anticlockwise by
    0 to 3 quarters (None for no turns): a flip and two quarters put the image upside down.
    ``columns`` and ``rows``, int64 (n,), shift.
    """

    flip: Tensor
    columns: Tensor
    rows: Tensor
    turns: Tensor | None = None


class StrongDraw(NamedTuple):
    """The three draws of a strong view, in the order they are applied."""

    weak: WeakDraw
    operations: RandAugmentDraw
    cutout: CutoutDraw


class Weak:
    """Flip horizontally with probability ½, then shift by whole pixels with reflection padding.

    The default is the weak view of FixMatch: up to 12.5 % of a side, 4 pixels of 32. With other
    symmetries, each image is shown in a position drawn uniformly from all that they lead to: with
    turns and a flip, eight of them.

    Args:
        flip: whether images may be flipped left to right; turn it off for digits and text.
        upside_down: whether images may be flipped upside down.
        turn: whether images, which must be square, may be turned by quarters.
        shift: maximum shift, in pixels if an int, as a fraction of the side if a float.
        mean: mean of the levels in [0, 1]; one number, or one for each channel.
        std: standard deviation of the levels; as for ``mean``.
        dtype: dtype of the result.

    >>> weak = Weak(mean=0.5, std=0.5)
    >>> x = torch.zeros(2, 3, 32, 32, dtype=torch.uint8)
    >>> view = weak(x, torch.Generator().manual_seed(0))
    >>> view.shape, view.dtype, view.unique().tolist()
    (torch.Size([2, 3, 32, 32]), torch.float32, [-1.0])
    """

    def __init__(
        self,
        *,
        flip: bool = True,
        upside_down: bool = False,
        turn: bool = False,
        shift: float = 0.125,
        mean: float | Sequence[float] = 0.0,
        std: float | Sequence[float] = 1.0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if isinstance(shift, int):
            _checks.whole_number("shift", shift)
        else:
            _checks.number("shift", shift, low=0, high=1, open_high=True)
        self.flip, self.upside_down, self.turn = flip, upside_down, turn
        self.shift = shift
        self.mean, self.std = checked_normalisation(mean, std, dtype)
        self.dtype = dtype

    def draw(self, images: Tensor, generator: torch.Generator) -> WeakDraw:
        """Draw symmetries and shifts for a batch; uses only the images' shape and device.

        A view without symmetries and shifts draws nothing and leaves the generator unchanged.
        """
        n, _, height, width = checked_images(images).shape
        device = images.device
        checked_generator(generator, device)
        if self.turn and height != width:
            raise ValueError(
                f"only square images can be turned by quarters; got {height} × {width} pixels. "
                "Pass turn=False."
            )

        def drawn(low: int, high: int) -> Tensor:
            if low == high:
                return torch.full((n,), low, device=device)
            return torch.randint(low, high + 1, (n,), generator=generator, device=device)

        flip = drawn(0, int(self.flip)) == 1
        down, across = self._reach(height), self._reach(width)
        columns, rows = drawn(-across, across), drawn(-down, down)
        if not (self.upside_down or self.turn):
            return WeakDraw(flip, columns, rows)
        upside_down = drawn(0, int(self.upside_down))  # a flip and a half-turn
        turns = (drawn(0, 3 * self.turn) + 2 * upside_down) % 4
        return WeakDraw(flip ^ (upside_down == 1), columns, rows, turns)

    def levels(self, images: Tensor, draw: WeakDraw) -> Tensor:
        """Apply a draw without normalising: uint8, same shape as the images."""
        return shifted(checked_images(images), draw.columns, draw.rows, draw.flip, draw.turns)

    def apply(self, images: Tensor, draw: WeakDraw) -> Tensor:
        """Apply a draw and return the view: floats (n, channels, height, width)."""
        return normalised(self.levels(images, draw), self.mean, self.std, self.dtype)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Return a weak view of uint8 images (n, channels, height, width), as floats."""
        return self.apply(images, self.draw(images, generator))

    def _reach(self, side: int) -> int:
        reach = self.shift if isinstance(self.shift, int) else round(self.shift * side)
        if reach >= side:
            raise ValueError(
                f"shift must be smaller than the images' sides; got {self.shift} for a side of "
                f"{side}. Pass a fraction of the side, such as 0.125."
            )
        return reach


class Strong:
    """A weak view, then RandAugment, then Cutout: the strong view of FixMatch.

    The defaults are those of DeFixMatch: three operations of random magnitude.

    Args:
        n_ops: operations for each image.
        magnitude: position within each operation's range, from 0 to 1; random by default.
        cutout: maximum side of the square, as a fraction of the width; 0 for none.
        flip: whether images may be flipped left to right.
        upside_down: whether images may be flipped upside down.
        turn: whether images, which must be square, may be turned by quarters.
        shift: maximum shift, in pixels if an int, as a fraction of the side if a float.
        fill: level of the pixels outside the image.
        cutout_fill: level of the square.
        mean: mean of the levels in [0, 1]; one number, or one for each channel.
        std: standard deviation of the levels; as for ``mean``.
        dtype: dtype of the result.

    >>> strong = Strong(n_ops=3, mean=(0.49, 0.48, 0.45), std=(0.25, 0.24, 0.26))
    >>> x = torch.randint(256, (2, 3, 32, 32), dtype=torch.uint8)
    >>> strong(x, torch.Generator().manual_seed(0)).shape
    torch.Size([2, 3, 32, 32])
    """

    def __init__(
        self,
        *,
        n_ops: int = 3,
        magnitude: float | None = None,
        cutout: float = 0.5,
        flip: bool = True,
        upside_down: bool = False,
        turn: bool = False,
        shift: float = 0.125,
        fill: int = 0,
        cutout_fill: int = 127,
        mean: float | Sequence[float] = 0.0,
        std: float | Sequence[float] = 1.0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if magnitude is not None:
            _checks.number("magnitude", magnitude, low=0, high=1)
        self.weak = Weak(
            flip=flip,
            upside_down=upside_down,
            turn=turn,
            shift=shift,
            mean=mean,
            std=std,
            dtype=dtype,
        )
        self.n_ops = _checks.whole_number("n_ops", n_ops)
        self.magnitude = magnitude
        self.cutout = _checks.number("cutout", cutout, low=0, high=1)
        self.fill = _checks.whole_number("fill", fill, high=255)
        self.cutout_fill = _checks.whole_number("cutout_fill", cutout_fill, high=255)

    def draw(self, images: Tensor, generator: torch.Generator) -> StrongDraw:
        """Draw all the augmentations of a batch; uses only its shape and device."""
        checked_images(images, channels=(1, 3))
        n, device = len(images), images.device
        return StrongDraw(
            self.weak.draw(images, generator),
            drawn_operations(n, self.n_ops, generator, device, self.magnitude),
            drawn_cutout(n, generator, device),
        )

    def levels(self, images: Tensor, draw: StrongDraw) -> Tensor:
        """Apply a draw without normalising: uint8, same shape as the images."""
        checked_images(images, channels=(1, 3))
        images = randaugmented(self.weak.levels(images, draw.weak), draw.operations, self.fill)
        return cut_out(images, draw.cutout, self.cutout, self.cutout_fill)

    def apply(self, images: Tensor, draw: StrongDraw) -> Tensor:
        """Apply a draw and return the view: floats (n, channels, height, width)."""
        weak = self.weak
        return normalised(self.levels(images, draw), weak.mean, weak.std, weak.dtype)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Return a strong view of uint8 images (n, 1 or 3, height, width), as floats."""
        return self.apply(images, self.draw(images, generator))
