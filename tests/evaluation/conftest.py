"""Predictions with known troubles: imbalanced classes, over-confidence, ties."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

Draw = Callable[..., tuple[Tensor, Tensor]]


@pytest.fixture
def draw() -> Draw:
    """A function that draws (logits, y): float64, over-confident, rare later classes."""

    def drawn(n: int = 500, classes: int = 4, seed: int = 0) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(seed)
        weights = 1.0 / torch.arange(1, classes + 1, dtype=torch.float64)
        y = torch.multinomial(weights, n, replacement=True, generator=generator)
        logits = 2 * torch.randn(n, classes, generator=generator, dtype=torch.float64)
        logits[torch.arange(n), y] += 2
        return logits, y

    return drawn
