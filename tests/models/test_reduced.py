"""Reduced images against torch's pooling, and against pixels repeated until areas are whole."""

import pytest
import torch
from torch.nn.functional import adaptive_avg_pool2d

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


def test_bytes_are_rounded_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dessl.models.reduced.AT_ONCE", 2 * 64 * 64)
    images = torch.randint(256, (5, 1, 64, 64), dtype=torch.uint8)
    found = area_averaged(images, 32)
    assert found.dtype == torch.uint8
    assert torch.equal(found, adaptive_avg_pool2d(images.float(), 32).round().to(torch.uint8))
    assert area_averaged(images[:0], 32).shape == (0, 1, 32, 32)
    assert torch.equal(area_averaged(found, 32), found)


def test_small_images_stay_as_they_are() -> None:
    images = torch.randint(256, (2, 1, 32, 20), dtype=torch.uint8)
    assert area_averaged(images, 32) is images


@pytest.mark.parametrize("sides", [(40, 52), (300, 280)])
def test_bytes_are_exact_means_so_that_every_runtime_rounds_alike(sides: tuple[int, int]) -> None:
    images = torch.randint(256, (3, 1, *sides), dtype=torch.uint8)
    height, width = reduced_sides(sides, 32)
    blocks = images.long()  # sums over parts of pixels, one direction after the other
    for side, parts in enumerate((height, width), start=2):
        blocks = blocks.repeat_interleave(parts, side).unflatten(side, (parts, -1)).sum(side + 1)
    expected = (blocks / (sides[0] * sides[1])).round().to(torch.uint8)
    assert torch.equal(area_averaged(images, 32), expected)
