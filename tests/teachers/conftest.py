from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from torch import Tensor


class Blobs(NamedTuple):
    x_l: Tensor
    y_l: Tensor
    x_u: Tensor
    x_new: Tensor
    y_new: Tensor
    folds: Tensor


@pytest.fixture
def blobs() -> Callable[..., Blobs]:
    """Three overlapping Gaussians in two columns of different units."""

    def made(n_l: int = 40, n_u: int = 120, seed: int = 0, noise: float = 1.0) -> Blobs:
        generator = torch.Generator().manual_seed(seed)
        n = n_l + n_u + 100
        y = torch.arange(n) % 3
        centres = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])
        x = centres[y] + noise * torch.randn(n, 2, generator=generator)
        x = x * torch.tensor([1.0, 50.0])
        folds = (torch.arange(n_l) // 3) % 5
        return Blobs(x[:n_l], y[:n_l], x[n_l : n_l + n_u], x[n_l + n_u :], y[n_l + n_u :], folds)

    return made
