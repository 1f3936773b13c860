"""The symmetries of the square, and the positions of an image that they lead to.

A position is a flip left to right, or none, and then 0 to 3 quarter turns anticlockwise: eight
positions in all, of which an image that is not square has four.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Position(NamedTuple):
    """Whether to flip an image left to right, and by how many quarters to turn it then."""

    flip: bool
    turns: int


class Symmetries(NamedTuple):
    """Which symmetries leave the class of an image unchanged, as in :class:`dessl.augment.Weak`.

    Attributes:
        flip: Left to right.
        upside_down: Upside down.
        turn: By quarter turns; only for square images.
    """

    flip: bool = False
    upside_down: bool = False
    turn: bool = False

    @property
    def positions(self) -> list[Position]:
        """All positions that they lead to, the unchanged one first.

        >>> [len(Symmetries(*some).positions) for some in ((False, True), (True, True, True))]
        [2, 8]
        """
        found = {
            Position((flip + down) % 2 == 1, (quarters + 2 * down) % 4)
            for flip in range(1 + self.flip)
            for down in range(1 + self.upside_down)  # a flip and a half-turn
            for quarters in range(1 + 3 * self.turn)
        }
        return sorted(found)


NO_SYMMETRIES = Symmetries()


def in_position(images: Tensor, position: Position) -> Tensor:
    """Return images (n, channels, height, width) in another position.

    >>> in_position(torch.tensor([[[[1, 2], [3, 4]]]]), Position(flip=True, turns=2)).tolist()
    [[[[3, 4], [1, 2]]]]
    """
    flipped = images.flip(-1) if position.flip else images
    return torch.rot90(flipped, position.turns, (-2, -1)) if position.turns else flipped
