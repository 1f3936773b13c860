"""Every surrogate of the dict, built for a small problem, whatever its arguments are called."""

import inspect
import itertools
import math
from collections.abc import Callable
from typing import Any, Protocol

import pytest
import torch
from torch import Tensor, nn

from dessl.objective import objective
from dessl.surrogates import SURROGATES, Rows, Surrogate, View

N_ROWS, N_FEATURES, N_CLASSES = 12, 4, 3


class Build(Protocol):
    def __call__(self, name: str, *, view: View | None = None) -> Surrogate: ...


def table(n_rows: int = N_ROWS) -> Tensor:
    generator = torch.Generator().manual_seed(5)
    return (3 * torch.randn(n_rows, N_CLASSES, generator=generator)).softmax(-1)


def views_of(kind: type[Surrogate], view: View | None) -> dict[str, Any]:
    """The given view for every argument that is one; nothing where the defaults are asked for."""
    if view is None:
        return {}
    parameters = inspect.signature(kind).parameters.values()
    return {p.name: view for p in parameters if p.annotation == View}


def built(name: str, *, view: View | None = None) -> Surrogate:
    """A new surrogate of the dict: the three that need an argument get one, all others none.

    An entry added to the dict comes here by itself, if it can be built without arguments.
    """
    if name == "teacher":
        kind = SURROGATES[name]
        return kind(table(), **views_of(kind, view))  # type: ignore[call-arg]
    if name == "combine":
        terms = [built("entropy", view=view), built("mean_teacher", view=view)]
        return SURROGATES[name](terms, weights=[0.5, 2.0])  # type: ignore[call-arg]
    if name == "smooth":
        return SURROGATES[name](built("teacher", view=view), epsilon=0.05)  # type: ignore[call-arg]
    kind = SURROGATES[name]
    return kind(**views_of(kind, view))


def network(seed: int = 0, *, batch_norm: bool = False) -> nn.Sequential:
    """A tiny network whose predictions are sure enough to pass thresholds on many rows."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        norm = [nn.BatchNorm1d(6)] if batch_norm else []
        model = nn.Sequential(nn.Linear(N_FEATURES, 6), *norm, nn.Tanh(), nn.Linear(6, N_CLASSES))
    with torch.no_grad():
        model[-1].weight *= 12
    return model


def some_rows(n: int = N_ROWS, seed: int = 1) -> Rows:
    x = torch.randn(n, N_FEATURES, generator=torch.Generator().manual_seed(seed))
    return Rows(x, torch.arange(n))


def labels(n: int = N_ROWS) -> Tensor:
    return torch.arange(n) % N_CLASSES


def trained(surrogate: Surrogate, model: nn.Module, rows: Rows, steps: int = 3) -> Surrogate:
    """Prepare it and make a few real steps, so that teachers and memories have something to say."""
    surrogate.prepare(model, len(rows.ids), N_CLASSES)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    n_labelled = max(1, len(rows.ids) // 2)
    for _ in range(steps):
        scores = surrogate(model, rows)
        risk = objective(scores, labels(n_labelled).to(rows.x.device), 0.5, risk="ssl")
        optimiser.zero_grad()
        risk.value.backward()
        optimiser.step()
        surrogate.after_step(model, rows, scores)
    return surrogate


def softmax_by_hand(row: Tensor) -> list[float]:
    """Probabilities of one row of logits, in Python's own floats."""
    values = row.detach().tolist()
    weights = [math.exp(value - max(values)) for value in values]
    return [weight / sum(weights) for weight in weights]


def numeric_gradient(value: Callable[[], float], parameter: Tensor, step: float = 1e-6) -> Tensor:
    """Central differences of a number that depends on a parameter, entry by entry."""
    found = torch.zeros_like(parameter)
    with torch.no_grad():
        for place in itertools.product(*(range(side) for side in parameter.shape)):
            kept = float(parameter[place])
            parameter[place] = kept + step
            above = value()
            parameter[place] = kept - step
            below = value()
            parameter[place] = kept
            found[place] = (above - below) / (2 * step)
    return found


@pytest.fixture
def softmax() -> Callable[[Tensor], list[float]]:
    return softmax_by_hand


@pytest.fixture
def differences() -> Callable[..., Tensor]:
    return numeric_gradient


@pytest.fixture
def build() -> Build:
    return built


@pytest.fixture
def make_network() -> Callable[..., nn.Sequential]:
    return network


@pytest.fixture
def make_rows() -> Callable[..., Rows]:
    return some_rows


@pytest.fixture
def train_a_little() -> Callable[..., Surrogate]:
    return trained
