"""Grey and smooth images against Pillow, and for every sum that a kernel can give."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageFilter

from dessl.augment.colour import grey, mean_grey, smooth


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


@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_grey_is_pillows(mode: str) -> None:
    levels = np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)
    image = Image.fromarray(levels).convert(mode)
    x = torch.from_numpy(np.array(image)).view(1, 40, 50, -1).permute(0, 3, 1, 2)
    found = grey(x)
    assert (found.dtype, found.shape) == (torch.int32, (1, 1, 40, 50))
    np.testing.assert_array_equal(found[0, 0], np.asarray(image.convert("L")))
    assert mean_grey(x).tolist() == [int(np.asarray(image.convert("L")).mean() + 0.5)]


def test_smoothing_is_pillows_and_leaves_the_border_and_the_input_alone() -> None:
    levels = np.random.default_rng(1).integers(0, 256, (9, 7), dtype=np.uint8)
    x = torch.from_numpy(levels.copy()).view(1, 1, 9, 7)
    found = smooth(x)[0, 0].numpy()
    np.testing.assert_array_equal(found, Image.fromarray(levels).filter(ImageFilter.SMOOTH))
    np.testing.assert_array_equal(found[[0, -1]], levels[[0, -1]])
    np.testing.assert_array_equal(x[0, 0], levels)


@pytest.mark.parametrize("size", [(1, 1), (2, 5), (5, 2)])
def test_an_image_without_inner_pixels_is_not_smoothed(size: tuple[int, int]) -> None:
    x = torch.randint(0, 256, (2, 3, *size), dtype=torch.uint8)
    assert torch.equal(smooth(x), x.int())
