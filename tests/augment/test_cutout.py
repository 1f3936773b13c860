"""Cutout against a rectangle drawn by Pillow, and the law of its squares."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw
from scipy import stats
from torch import Tensor

from dessl.augment.cutout import CutoutDraw, cut_out, drawn_cutout
from dessl.augment.fixed_point import ONE, fixed

CPU = torch.device("cpu")


def by_pillow(image: Tensor, side: float, x: float, y: float, fill: int) -> Tensor:
    """One square as in the FixMatch code, in floats; ``side`` is a share of the width."""
    picture = Image.fromarray(image.permute(1, 2, 0).squeeze(-1).numpy())
    width, height = picture.size
    if side > 0:
        left = int(max(0, x * width - side * width / 2))
        top = int(max(0, y * height - side * width / 2))
        corner = (min(width, left + side * width), min(height, top + side * width))
        colour = fill if picture.mode == "L" else (fill,) * 3
        ImageDraw.Draw(picture).rectangle((left, top, int(corner[0]), int(corner[1])), colour)
    pixels = torch.from_numpy(np.array(picture))
    return pixels.permute(2, 0, 1) if pixels.ndim == 3 else pixels[None]


@pytest.mark.parametrize("largest", [0.5, 1.0, 0.1])
def test_squares_equal_those_of_pillow(pictures: Tensor, largest: float) -> None:
    draw = drawn_cutout(len(pictures), torch.Generator().manual_seed(1), CPU)
    draw.side[1] = 0
    expected = []
    for image, side, x, y in zip(pictures, *(part.tolist() for part in draw), strict=True):
        share = (side * fixed(largest) >> 16) / ONE
        expected.append(by_pillow(image, share, x / ONE, y / ONE, fill=127))
    assert torch.equal(cut_out(pictures, draw, largest), torch.stack(expected))


def test_no_square_where_none_is_wanted(small: Tensor) -> None:
    draw = drawn_cutout(len(small), torch.Generator().manual_seed(1), CPU)
    assert torch.equal(cut_out(small, draw, largest=0.0), small)


def test_the_square_is_at_most_half_the_width(small: Tensor) -> None:
    ones = torch.full((len(small),), ONE)
    black = torch.zeros_like(small)
    covered = cut_out(black, CutoutDraw(ones, ones // 4, ones // 4), fill=255)[0, 0] > 0
    assert int(covered.any(0).sum()) == small.shape[3] // 2 + 1  # both end pixels are filled


def test_sides_and_places_are_uniform_and_independent(generator: torch.Generator) -> None:
    draw = drawn_cutout(20_000, generator, CPU)
    for part in draw:
        assert stats.kstest(part / ONE, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(np.stack([part.numpy() for part in draw]))[0, 1:]).max() < 0.03
