"""The law of the draw: which operations, how strong, and each image for itself."""

import numpy as np
import pytest
import torch
from scipy import stats

from dessl.augment import Operation
from dessl.augment.fixed_point import ONE
from dessl.augment.operations import drawn_operations

CPU = torch.device("cpu")


def test_each_operation_is_drawn_as_often_as_any_other(generator: torch.Generator) -> None:
    draw = drawn_operations(20_000, 3, generator, CPU)
    for slot in range(3):
        counts = np.bincount(draw.operation[:, slot], minlength=len(Operation))
        assert len(counts) == len(Operation)
        assert stats.chisquare(counts).pvalue > 1e-3


def test_strengths_are_uniform(generator: torch.Generator) -> None:
    strength = drawn_operations(20_000, 2, generator, CPU).strength
    assert int(strength.min()) >= 0
    assert int(strength.max()) < ONE
    for slot in range(2):
        assert stats.kstest(strength[:, slot] / ONE, "uniform").pvalue > 1e-3


def test_slots_and_images_are_drawn_independently(generator: torch.Generator) -> None:
    operation, strength = drawn_operations(20_000, 2, generator, CPU)
    kinds = len(Operation)
    for first, second in (
        (operation[:, 0], operation[:, 1]),
        (operation[:-1, 0], operation[1:, 0]),
        (operation[:, 0], strength[:, 0] * kinds // ONE),
        (strength[:-1, 0] * kinds // ONE, strength[1:, 0] * kinds // ONE),
    ):
        table = np.bincount(first * kinds + second, minlength=kinds**2).reshape(kinds, kinds)
        assert stats.chi2_contingency(table).pvalue > 1e-3


@pytest.mark.parametrize("magnitude", [0.0, 0.25, 1.0])
def test_a_fixed_magnitude_is_the_same_for_all(
    generator: torch.Generator, magnitude: float
) -> None:
    draw = drawn_operations(50, 2, generator, CPU, magnitude)
    assert (draw.strength == magnitude * ONE).all()
    assert draw.operation.unique().numel() == len(Operation)
