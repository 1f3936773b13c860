"""Draws whose frequencies are the probabilities of the design."""

import numpy as np
import pytest

from dessl.safety.unequal_draw import design, systematic


def test_each_row_is_drawn_as_often_as_its_probability_says() -> None:
    chances = design(np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 2.0, 0.1]), 3)
    assert chances.sum() == pytest.approx(3)
    assert (chances > 0).all()
    assert (chances <= 1).all()
    generator = np.random.default_rng(0)
    counts = np.zeros(8)
    for _ in range(4000):
        rows = systematic(chances, generator)
        assert len(rows) == 3
        counts[rows] += 1
    np.testing.assert_allclose(counts / 4000, chances, atol=0.035)
