"""Whole tables against Pillow's formulas in Python numbers, for every level and every range."""

import numpy as np
import torch

from dessl.augment.colour import mean_grey, smooth
from dessl.augment.fixed_point import ONE, blended
from dessl.augment.tables import autocontrast_tables


def test_autocontrast_rounds_as_python_does_for_every_range() -> None:
    ends = [(low, high) for low in range(256) for high in range(low + 1, 256)]
    images = torch.tensor(ends, dtype=torch.uint8).view(-1, 1, 1, 2)
    tables = autocontrast_tables(images)[:, 0].numpy()
    low, high = (np.array(end, dtype=np.float64)[:, None] for end in zip(*ends, strict=True))
    scale = 255.0 / (high - low)
    expected = np.clip((np.arange(256) * scale + -low * scale).astype(int), 0, 255)
    np.testing.assert_array_equal(tables, expected)


def test_blends_round_down_as_float32_does_on_the_grid() -> None:
    weights = np.arange(0, ONE + 1, 37, dtype=np.int32)
    levels = np.arange(0, 256, 5, dtype=np.int32)
    first, second, weight = np.meshgrid(levels, levels, weights, indexing="ij")
    alpha = (weight / ONE).astype(np.float32)
    expected = (first + alpha * (second - first).astype(np.float32)).astype(np.uint8)
    result = blended(*(torch.from_numpy(part) for part in (first, second, weight)))
    np.testing.assert_array_equal(result, expected)


def test_smoothing_divides_exactly_for_every_sum() -> None:
    """Every sum the kernel can give, 5 × the middle + the 8 neighbours, from 0 to 13 · 255."""
    total = np.arange(13 * 255 + 1)
    level, rest = total // 13, total % 13
    middle = rest > 8
    images = np.repeat(level[:, None], 9, axis=1)
    images[:, 4] += middle
    neighbours = [0, 1, 2, 3, 5, 6, 7, 8]
    images[:, neighbours] += np.arange(8) < (rest - 5 * middle)[:, None]
    assert (images.sum(1) + 4 * images[:, 4] == total).all()
    result = smooth(torch.from_numpy(images.astype(np.uint8)).view(-1, 1, 3, 3))
    np.testing.assert_array_equal(result[:, 0, 1, 1], np.floor(total / 13 + 0.5))


def test_mean_grey_rounds_halves_up() -> None:
    images = torch.tensor([[0, 1], [1, 2], [254, 255]], dtype=torch.uint8).view(3, 1, 1, 2)
    assert mean_grey(images).tolist() == [1, 2, 255]
