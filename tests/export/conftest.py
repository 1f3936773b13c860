"""Small fitted teachers, and a pool of them."""

from collections.abc import Callable

import pytest
import torch

from dessl.recipes import PooledPredictor
from dessl.recipes.predictor import Predictor
from dessl.teachers import Pooled, PoolWeights
from dessl.teachers.rows import as_columns


def some_rows(n: int, seed: int, d: int = 3) -> torch.Tensor:
    return 10 + 3 * torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


def fitted_teacher(teacher: object, d: int = 3, n_classes: int = 3) -> object:
    """Fitted on labels of the classes 0 and 2 alone where there are three."""
    x = some_rows(30, 0, d)
    y = (x[:, 0] > 10).long() * (n_classes - 1)
    return teacher.fit(x, y, some_rows(40, 1, d), n_classes)


def pool_of(*teachers: object, anchor: float = 0.3) -> PooledPredictor:
    torch.manual_seed(0)
    networks = Predictor(
        [torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)], torch.full((3,), 10.0), torch.ones(3) * 3
    )
    members = {teacher.name: fitted_teacher(teacher) for teacher in teachers}
    weights = {"cc": anchor} | {name: 0.4 + 0.1 * k for k, name in enumerate(members)}
    powers = {"cc": 1.0} | dict.fromkeys(members, 1.5)
    pool = Pooled(PoolWeights(weights, powers, "cc"), members, networks, as_columns, None)
    return PooledPredictor(networks, pool)


@pytest.fixture(scope="session")
def rows() -> Callable[..., torch.Tensor]:
    return some_rows


@pytest.fixture(scope="session")
def fitted() -> Callable[..., object]:
    return fitted_teacher


@pytest.fixture(scope="session")
def make_pool() -> Callable[..., PooledPredictor]:
    return pool_of
