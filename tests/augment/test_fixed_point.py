"""16.16 numbers against floats."""

import numpy as np
import pytest
import torch

from dessl.augment.fixed_point import ONE, between, blended, fixed


def test_blends_round_down_as_float32_does_on_the_grid() -> None:
    weights = np.arange(0, ONE + 1, 37, dtype=np.int32)
    levels = np.arange(0, 256, 5, dtype=np.int32)
    first, second, weight = np.meshgrid(levels, levels, weights, indexing="ij")
    alpha = (weight / ONE).astype(np.float32)
    expected = (first + alpha * (second - first).astype(np.float32)).astype(np.uint8)
    result = blended(*(torch.from_numpy(part) for part in (first, second, weight)))
    np.testing.assert_array_equal(result, expected)


def test_numbers_are_rounded_to_the_nearest_of_the_grid() -> None:
    values = [0.1, -0.1, 1 / 3, 0.95, -2.5, 7.0]
    assert [abs(fixed(value) / ONE - value) <= 0.5 / ONE for value in values] == [True] * 6
    assert (fixed(7.0), fixed(-2.5), ONE) == (7 * ONE, -(ONE * 5 // 2), 65536)


@pytest.mark.parametrize(("low", "high"), [(-30.0, 30.0), (0.05, 0.95), (8.0, 4.0), (0.3, 0.3)])
def test_a_strength_moves_from_one_end_to_the_other(low: float, high: float) -> None:
    strength = torch.arange(0, ONE + 1, 256)
    found = between(low, high, strength)
    assert found.dtype == torch.int64
    exact = low + (high - low) * strength.double() / ONE
    assert float((found.double() / ONE - exact).abs().max()) < 2 / ONE
    assert (int(found[0]), int(found[-1])) == (fixed(low), fixed(high))


def test_a_blend_of_all_or_nothing_is_one_of_the_two() -> None:
    first, second = torch.tensor([0, 3, 255]).int(), torch.tensor([[9], [200]]).int()
    weight = torch.tensor(0).int()
    assert torch.equal(blended(first, second, weight), first.expand(2, 3))
    assert torch.equal(blended(first, second, weight + ONE), second.expand(2, 3))
