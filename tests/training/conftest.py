"""A problem small enough to train on in a blink: two overlapping clouds, a few labels."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dessl import SemiData
from dessl.training import TrainPlan


def clouds(n: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(2, (n,), generator=generator)
    x = torch.randn(n, 4, generator=generator) + 1.5 * y[:, None]
    return x, y


@pytest.fixture
def make_data() -> Any:
    """A fresh SemiData: 20 labelled rows, 100 unlabelled, 40 validation rows."""

    def make(*, poison: float | None = None) -> SemiData:
        x, y = clouds(160, seed=0)
        labels = torch.where(torch.arange(120) < 20, y[:120], -1)
        data = SemiData(x[:120], labels, validation=(x[120:], y[120:]))
        if poison is not None:
            data.x = torch.where(labels[:, None] < 0, poison, data.x)
        return data

    return make


@pytest.fixture
def make_model() -> Any:
    """A network with BatchNorm and dropout: both leave traces that a test can see."""

    def make() -> nn.Module:
        return nn.Sequential(
            nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2)
        )

    return make


@pytest.fixture
def make_plan() -> Any:
    """A plan of 12 steps, evaluated every 4."""

    def make(**changes: Any) -> TrainPlan:
        settings: dict[str, Any] = {
            "steps": 12,
            "labelled_batch": 8,
            "unlabelled_batch": 24,
            "learning_rate": 0.1,
            "evaluate_every": 4,
        }
        return TrainPlan(**{**settings, **changes})

    return make
