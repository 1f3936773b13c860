from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn


@pytest.fixture
def images() -> Callable[..., Tensor]:
    """Normal float64 images of a given shape, always the same."""

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    return normal


@pytest.fixture
def parameter_count() -> Callable[[nn.Module], int]:
    return lambda model: sum(parameter.numel() for parameter in model.parameters())


@pytest.fixture
def linear_count() -> Callable[..., int]:
    """Weights and biases of linear layers between given widths."""
    return lambda *widths: sum((before + 1) * after for before, after in pairwise(widths))
