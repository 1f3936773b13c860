"""Each symmetry is what its name says, and together they are the groups of the square."""

from itertools import product

import numpy as np
import pytest
import torch

from dessl.augment import Symmetries
from dessl.augment.symmetries import NO_SYMMETRIES, Position, in_position

IMAGE = torch.arange(16).view(1, 1, 4, 4)


def shown(symmetries: Symmetries) -> set[tuple[int, ...]]:
    return {tuple(in_position(IMAGE, p).flatten().tolist()) for p in symmetries.positions}


@pytest.mark.parametrize(
    ("symmetries", "expected"),
    [
        (Symmetries(flip=True), [np.fliplr]),
        (Symmetries(upside_down=True), [np.flipud]),
        (Symmetries(turn=True), [np.rot90, lambda x: np.rot90(x, 2), lambda x: np.rot90(x, 3)]),
    ],
)
def test_each_symmetry_is_that_of_numpy(symmetries: Symmetries, expected: list) -> None:
    pixels = IMAGE[0, 0].numpy()
    others = {tuple(turn(pixels).flatten().tolist()) for turn in expected}
    assert shown(symmetries) == others | {tuple(pixels.flatten().tolist())}
    assert symmetries.positions[0] == Position(flip=False, turns=0)


@pytest.mark.parametrize("some", list(product([False, True], repeat=3)))
def test_positions_are_closed_under_the_symmetries(some: tuple[bool, bool, bool]) -> None:
    """Changed once more, an image is in one of the same positions: they form a group."""
    positions = Symmetries(*some).positions
    flip, upside_down, turn = some
    assert len(positions) == (4 if turn else 1 + upside_down) * (
        1 + (flip or upside_down if turn else flip)
    )
    assert len(shown(Symmetries(*some))) == len(positions)
    twice = {
        tuple(in_position(in_position(IMAGE, one), other).flatten().tolist())
        for one in positions
        for other in positions
    }
    assert twice == shown(Symmetries(*some))


def test_without_symmetries_images_stay_as_they_are() -> None:
    assert NO_SYMMETRIES.positions == [Position(flip=False, turns=0)]
    assert in_position(IMAGE, NO_SYMMETRIES.positions[0]) is IMAGE
    wide = torch.arange(6).view(1, 1, 2, 3)
    assert [p.turns % 2 for p in Symmetries(flip=True, upside_down=True).positions] == [0] * 4
    assert in_position(wide, Position(flip=True, turns=2)).tolist() == [[[[3, 4, 5], [0, 1, 2]]]]
