"""A small population whose splits can all be enumerated."""

import pytest
import torch
from torch import Tensor


@pytest.fixture
def population() -> tuple[Tensor, Tensor]:
    """L and H of eight rows, correlated."""
    generator = torch.Generator().manual_seed(0)
    h = torch.rand(8, generator=generator, dtype=torch.float64)
    return 0.8 * h + 0.3 * torch.rand(8, generator=generator, dtype=torch.float64), h
