"""Temporal ensembling against a dictionary of past predictions."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from dessl.surrogates import Rows, Scores, TemporalEnsembling, as_is

N, A = 7, 0.6


def batch(generator: torch.Generator) -> Rows:
    """Five rows of seven, with repeats now and then."""
    ids = torch.randint(N, (5,), generator=generator)
    return Rows(torch.randn(5, 4, generator=generator), ids)


@pytest.mark.parametrize("momentum", [0.0, 0.6])
def test_the_equation_over_many_steps(
    momentum: float, softmax: Callable[[Tensor], list[float]]
) -> None:
    model = nn.Linear(4, 3)
    surrogate = TemporalEnsembling(momentum=momentum, view=as_is)
    surrogate.prepare(model, N, 3)
    memory: dict[int, list[float]] = {}
    visits: dict[int, int] = {}
    generator = torch.Generator().manual_seed(0)
    repeats = 0
    for _ in range(12):
        rows = batch(generator)
        scores = surrogate(model, rows)
        predictions = [softmax(row) for row in model(rows.x)]
        expected = []
        for row, p in zip(rows.ids.tolist(), predictions, strict=True):
            if row not in memory:
                expected.append(0.0)
                continue
            target = [z / (1 - momentum ** visits[row]) for z in memory[row]]
            assert sum(target) == pytest.approx(1)
            expected.append(sum((a - b) ** 2 for a, b in zip(p, target, strict=True)))
        torch.testing.assert_close(scores.h, torch.tensor(expected))
        surrogate.after_step(model, rows, scores)
        visited: set[int] = set()
        for row, p in zip(rows.ids.tolist(), predictions, strict=True):
            if row in visited:
                repeats += 1
                continue
            visited.add(row)
            past = memory.get(row, [0.0] * 3)
            memory[row] = [momentum * z + (1 - momentum) * v for z, v in zip(past, p, strict=True)]
            visits[row] = visits.get(row, 0) + 1
    assert repeats > 0


def test_the_gradient_is_that_of_a_fixed_target(differences: Callable[..., Tensor]) -> None:
    model = nn.Linear(4, 3, dtype=torch.float64)
    rows = Rows(torch.randn(5, 4, dtype=torch.float64), torch.arange(5))
    surrogate = TemporalEnsembling(view=as_is)
    surrogate.prepare(model, 5, 3)
    surrogate.after_step(model, rows, surrogate(model, rows))
    with torch.no_grad():
        model.weight += 1
    target = surrogate.target(rows.ids).double()
    surrogate(model, rows).h.sum().backward()
    numeric = differences(
        lambda: float((model(rows.x).softmax(-1) - target).square().sum()), model.weight
    )
    torch.testing.assert_close(model.weight.grad, numeric, rtol=1e-6, atol=1e-7)


def test_a_large_batch_does_not_cost_its_square() -> None:
    n = 200_000  # squared, 40 GB
    surrogate = TemporalEnsembling(view=as_is)
    surrogate.prepare(nn.Identity(), n, 2)
    rows = Rows(torch.randn(n, 2), torch.arange(n).flip(0))
    surrogate.after_step(nn.Identity(), rows, surrogate(nn.Identity(), rows))
    torch.testing.assert_close(surrogate.target(rows.ids), rows.x.softmax(-1))


def test_other_rows_keep_their_memory() -> None:
    model = nn.Linear(4, 3)
    surrogate = TemporalEnsembling(view=as_is)
    surrogate.prepare(model, N, 3)
    everything = Rows(torch.randn(N, 4), torch.arange(N))
    surrogate.after_step(model, everything, surrogate(model, everything))
    before = surrogate.target(everything.ids)
    some = Rows(everything.x[2:4] + 1, everything.ids[2:4])
    surrogate.after_step(model, some, surrogate(model, some))
    changed = (surrogate.target(everything.ids) != before).any(1)
    assert changed.tolist() == [False, False, True, True, False, False, False]


def test_without_prepare_the_error_says_so() -> None:
    rows = Rows(torch.zeros(2, 4), torch.arange(2))
    with pytest.raises(RuntimeError, match=r"no state yet. Call prepare"):
        TemporalEnsembling()(nn.Linear(4, 3), rows)


def test_a_momentum_of_one_is_refused() -> None:
    with pytest.raises(ValueError, match=r"momentum must lie in \[0, 1\)"):
        TemporalEnsembling(momentum=1.0)


@pytest.mark.parametrize(("classes", "logits"), [(1, 1), (1, 3), (3, 2)])
def test_a_memory_of_other_classes_than_the_model_is_refused(classes: int, logits: int) -> None:
    surrogate, model = TemporalEnsembling(view=as_is), nn.Identity()
    surrogate.prepare(model, N, classes)
    rows = Rows(torch.zeros(2, logits), torch.arange(2))
    message = f"prepared for {classes} classes; the model has {max(2, logits)}"
    with pytest.raises(ValueError, match=message):
        surrogate(model, rows)
    with pytest.raises(ValueError, match=message):
        surrogate.after_step(model, rows, Scores(torch.zeros(2), rows.x.unsqueeze(0)))
