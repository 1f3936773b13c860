"""Data that tests of recipes share."""

from collections.abc import Callable

import pytest
import torch

from dessl import SemiData


def made_blobs(
    n: int, n_labelled: int, seed: int = 0
) -> tuple[SemiData, torch.Tensor, torch.Tensor]:
    """Two overlapping classes, of which few rows have a label, and 500 rows to test on."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(n + 500) % 2
    x = torch.randn(n + 500, 3, generator=generator) + 1.5 * y[:, None]
    few = torch.where(torch.arange(n) < n_labelled, y[:n], -1)
    return SemiData(x[:n], few), x[n:], y[n:]


@pytest.fixture
def blobs() -> Callable:
    return made_blobs


def made_by_class(n: int = 900) -> tuple[SemiData, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, 3, (n,), generator=generator)
    x = torch.randn(n, 3, generator=generator)
    x[:, 0] += 2.0 * y
    x[:, 1] += 2.0 * (y == 1)
    phi = torch.tensor([0.4, 0.1, 0.05])[y]
    labelled = torch.rand(n, generator=generator) < phi
    return SemiData(x, torch.where(labelled, y, -1), propensity=phi), y


@pytest.fixture
def by_class() -> Callable:
    return made_by_class
