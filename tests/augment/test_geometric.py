"""Shifts against numpy's padding; affine maps against float64 arithmetic, pixel by pixel."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from dessl.augment.fixed_point import ONE
from dessl.augment.geometric import affine_maps, moved, shifted


def by_numpy(image: Tensor, column: int, row: int, flip: bool, reach: int) -> np.ndarray:
    pixels = image.numpy()[..., ::-1] if flip else image.numpy()
    padded = np.pad(pixels, ((0, 0), (reach, reach), (reach, reach)), mode="reflect")
    height, width = pixels.shape[1:]
    top, left = reach + row, reach + column
    return padded[:, top : top + height, left : left + width]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_shifts_are_crops_of_the_reflected_image(pictures: Tensor, dtype: torch.dtype) -> None:
    images = pictures.to(dtype)
    n, reach = len(images), min(images.shape[2:]) - 1
    generator = torch.Generator().manual_seed(2)
    columns, rows = torch.randint(-reach, reach + 1, (2, n), generator=generator)
    flip = torch.randint(2, (n,), generator=generator) == 1
    result = shifted(images, columns, rows, flip)
    assert result.dtype == dtype
    for row in range(n):
        expected = by_numpy(images[row], int(columns[row]), int(rows[row]), bool(flip[row]), reach)
        np.testing.assert_array_equal(result[row], expected)


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("turns", [0, 1, 2, 3])
def test_turns_come_between_flip_and_shift(small: Tensor, flip: bool, turns: int) -> None:
    images = small[..., :10, :] if turns % 2 else small
    n = len(images)
    columns, rows = torch.arange(n) % 7 - 3, torch.arange(n) % 5 - 2
    result = shifted(images, columns, rows, torch.full((n,), flip), torch.full((n,), turns))
    flipped = images.flip(-1) if flip else images
    for row in range(n):
        turned = torch.from_numpy(np.rot90(flipped[row].numpy(), turns, (1, 2)).copy())
        expected = by_numpy(turned, int(columns[row]), int(rows[row]), False, 4)
        np.testing.assert_array_equal(result[row], expected)


def test_no_flip_unless_asked(small: Tensor) -> None:
    still = torch.zeros(len(small), dtype=torch.int64)
    assert torch.equal(shifted(small, still, still), small)


def test_a_rotation_takes_the_nearest_pixel(small: Tensor) -> None:
    n, _, height, width = small.shape
    zero = torch.zeros(n, dtype=torch.int64)
    angles = torch.linspace(-30, 30, n, dtype=torch.float64).mul(ONE).round().long()
    result = moved(
        small, affine_maps(angles, zero, zero, zero, zero, height=height, width=width), 3
    )
    for row in range(n):
        angle = math.radians(float(angles[row]) / ONE)
        for y in range(height):
            for x in range(width):
                across, down = x + 0.5 - width / 2, y + 0.5 - height / 2
                column = across * math.cos(angle) - down * math.sin(angle) + width / 2
                line = across * math.sin(angle) + down * math.cos(angle) + height / 2
                on_the_edge = min(abs(v - round(v)) for v in (column, line)) < width / ONE
                if on_the_edge:  # 16.16 rounding decides
                    continue
                inside = 0 <= column < width and 0 <= line < height
                expected = small[row, :, int(line), int(column)].tolist() if inside else [3] * 3
                assert result[row, :, y, x].tolist() == expected
