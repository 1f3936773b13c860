"""Predictions of a simulated model whose accuracy, confidence and labels are known."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

Draw = Callable[..., tuple[Tensor, Tensor]]


@pytest.fixture
def predictions() -> Draw:
    """A function that draws (probabilities, y); ``sharpness`` 1 is calibrated."""

    def drawn(
        n: int = 60, classes: int = 3, distance: float = 2.0, sharpness: float = 1.0, seed: int = 0
    ) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(seed)
        y = torch.randint(classes, (n,), generator=generator)
        x = torch.randn(n, classes, generator=generator, dtype=torch.float64)
        x[torch.arange(n), y] += distance
        return torch.softmax(sharpness * distance * x, dim=1), y

    return drawn
