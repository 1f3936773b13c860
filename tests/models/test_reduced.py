"""Reduced images against torch's pooling, and against pixels repeated until areas are whole."""

import pytest
import torch
from torch.nn.functional import adaptive_avg_pool2d

from dessl.models import LeNet, Reduced
from dessl.models.reduced import area_averaged, reduced_sides


@pytest.mark.parametrize("side", [64, 96])
def test_whole_areas_are_torch_s_average_pooling(side: int) -> None:
    images = torch.rand(3, 2, side, side)
    torch.testing.assert_close(area_averaged(images, 32), adaptive_avg_pool2d(images, 32))


@pytest.mark.parametrize("sides", [(33, 50), (100, 40), (224, 225)])
def test_broken_areas_count_by_their_share(sides: tuple[int, int]) -> None:
    images = torch.rand(2, 1, *sides, dtype=torch.float64)
    height, width = reduced_sides(sides, 32)
    finer = images.repeat_interleave(height, 2).repeat_interleave(width, 3)
    expected = adaptive_avg_pool2d(finer, (height, width))
    torch.testing.assert_close(area_averaged(images, 32), expected)


def test_bytes_keep_their_levels() -> None:
    images = torch.randint(256, (3, 1, 64, 64), dtype=torch.uint8)
    torch.testing.assert_close(area_averaged(images, 32), area_averaged(images.float(), 32))
    assert area_averaged(images[:0], 32).shape == (0, 1, 32, 32)


def test_small_images_stay_as_they_are() -> None:
    images = torch.randint(256, (2, 1, 32, 20), dtype=torch.uint8)
    assert area_averaged(images, 32) is images


def test_a_network_sees_the_reduced_images() -> None:
    network, images = LeNet(size=(32, 32)), torch.rand(2, 1, 64, 64)
    expected = network(adaptive_avg_pool2d(images, 32))
    torch.testing.assert_close(Reduced(network, 32)(images), expected)
