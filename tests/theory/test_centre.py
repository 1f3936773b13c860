"""Deviations from a mean, against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from dessl.theory.centre import centred, precision_of, settled


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e300, -7.7e-300])
@pytest.mark.parametrize("n", [1, 3, 6, 49])
def test_a_constant_has_no_deviation_at_all(value: float, n: int) -> None:
    found = centred(torch.full((n, 2), value, dtype=torch.float64))
    assert found.shape == (n, 2)
    assert not found.any()


def test_each_column_by_itself_against_fractions() -> None:
    rows = torch.randn(7, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows[:, 1] += 1000
    found = centred(rows)
    for k in range(3):
        exact = [Fraction(value) for value in rows[:, k].tolist()]
        mean = sum(exact) / len(exact)
        expected = torch.tensor([float(value - mean) for value in exact], dtype=torch.float64)
        torch.testing.assert_close(found[:, k], expected, rtol=0, atol=1e-12)


def test_adding_a_constant_changes_nothing() -> None:
    rows = torch.arange(8.0).square()
    assert torch.equal(centred(rows + 4096), centred(rows))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_constant_with_rounding_is_settled_and_other_columns_are_untouched(
    dtype: torch.dtype,
) -> None:
    given = torch.tensor([[1.25, 1.0], [1.25, 1.0], [1.25, 1.5]], dtype=dtype)
    given[1, 0] = 1.25 * (1 + torch.finfo(dtype).eps)  # the next number
    rows = given.double()
    found = settled(rows, precision_of(given))
    assert torch.equal(found[:, 0], rows[:1, 0].expand(3))
    assert torch.equal(found[:, 1], rows[:, 1])


def test_the_coarsest_dtype_decides_and_whole_numbers_have_no_rounding() -> None:
    assert precision_of([1, 2], np.array([1, 2])) == np.finfo(np.float64).eps
    assert precision_of([1.0], np.zeros(2, np.float16)) == np.finfo(np.float16).eps
    assert precision_of(torch.zeros(2, dtype=torch.int8)) == np.finfo(np.float64).eps
