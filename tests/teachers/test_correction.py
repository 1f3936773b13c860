"""The shrunk correction, against an independent optimiser and planted corruptions."""

import pytest
import torch
from torch import Tensor

from dessl.teachers.correction import Correction, centred_log, fitted_correction


def drawn(n: int, classes: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """A weak complete case, a good teacher's probabilities, and the truth."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (n,), generator=g)
    truth = torch.eye(classes)[y]
    log_p = (truth + torch.randn(n, classes, generator=g)).log_softmax(1).double()
    q = (4.0 * truth + torch.randn(n, classes, generator=g)).softmax(1)
    return log_p, q, y


def objective(
    log_p: Tensor, said: Tensor, y: Tensor, a: Tensor, t: Tensor, d: Tensor, b: Tensor
) -> Tensor:
    """The issue's formula, row by row in loops over teachers."""
    logits = a * log_p + b
    for m in range(len(said)):
        logits = logits + t[m] * said[m] + said[m] @ d[m]
    loss = -logits.log_softmax(1)[torch.arange(len(y)), y].sum()
    return loss + (a - 1) ** 2 + 0.1 * (t**2).sum() + 2 * ((d**2).sum() + (b**2).sum())


def test_the_centred_log_is_the_issues() -> None:
    q = torch.tensor([[0.7, 0.2, 0.1]])
    logs = torch.log((q.double() + 0.01) / (1 + 0.03))
    torch.testing.assert_close(centred_log(q), logs - logs.mean())


@pytest.mark.parametrize("matrix", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("teachers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_another_optimiser_finds_the_same_minimum(teachers: int, *, matrix: bool) -> None:
    log_p, q, y = drawn(60, 3, seed=1)
    tables = [q, q.roll(1, dims=1).flip(0)][:teachers]
    said = torch.stack([centred_log(table) for table in tables])
    a = torch.ones((), dtype=torch.float64, requires_grad=True)
    t = torch.zeros(teachers, dtype=torch.float64, requires_grad=True)
    d = torch.zeros(teachers, 3, 3, dtype=torch.float64, requires_grad=matrix)
    b = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    parameters = [p for p in (a, t, d, b) if p.requires_grad]
    optimiser = torch.optim.Adam(parameters, lr=0.02)
    for step in range(4000):
        for group in optimiser.param_groups:
            group["lr"] = 0.02 * (1 - step / 4000)
        optimiser.zero_grad()
        objective(log_p, said, y, a, t, d, b).backward()
        optimiser.step()
    found = fitted_correction(log_p, said, y, matrix=matrix)
    ours = objective(
        log_p, said, y, torch.tensor(found.power), found.trust, found.matrix, found.offset
    )
    theirs = objective(log_p, said, y, a, t, d, b).detach()
    assert float(ours) <= float(theirs) + 1e-6
    torch.testing.assert_close(found.trust, t.detach(), atol=2e-3, rtol=0)
    torch.testing.assert_close(found.matrix, d.detach(), atol=2e-3, rtol=0)
    assert found.power == pytest.approx(float(a.detach()), abs=2e-3)


def test_the_gradient_vanishes_at_the_solution() -> None:
    log_p, q, y = drawn(80, 4, seed=2)
    said = centred_log(q)[None]
    found = fitted_correction(log_p, said, y)
    parts = [
        part.clone().requires_grad_()
        for part in (
            torch.tensor(found.power, dtype=torch.float64),
            found.trust,
            found.matrix,
            found.offset,
        )
    ]
    objective(log_p, said, y, *parts).backward()
    for part in parts:
        assert part.grad is not None
        assert float(part.grad.abs().max()) < 1e-3


def mean_loss(log_p: Tensor, y: Tensor) -> float:
    return float(-log_p.gather(1, y[:, None]).mean())


@pytest.mark.parametrize("corruption", ["permuted", "inverted", "offset"])
def test_a_planted_corruption_is_undone_on_new_rows(corruption: str) -> None:
    log_p, q, y = drawn(600, 3, seed=3)
    wrong = {
        "permuted": q.roll(1, dims=1),
        "inverted": (1 / (q + 0.05)) / (1 / (q + 0.05)).sum(1, keepdim=True),
        "offset": (q.log() + torch.tensor([4.0, 0.0, 0.0])).softmax(1),
    }[corruption]
    gold, new = slice(0, 300), slice(300, None)
    said = centred_log(wrong)[None]
    found = fitted_correction(log_p[gold], said[:, gold], y[gold])
    corrected = mean_loss(found(log_p[new], said[:, new]), y[new])
    clean = fitted_correction(log_p[gold], centred_log(q)[None][:, gold], y[gold])
    best = mean_loss(clean(log_p[new], centred_log(q)[None][:, new]), y[new])
    assert corrected < 0.5 * mean_loss(log_p[new], y[new])
    assert corrected < 0.5 * mean_loss(wrong[new].log(), y[new])
    assert corrected < best + 0.15


def test_few_rows_and_no_information_leave_the_complete_case() -> None:
    log_p, q, y = drawn(400, 3, seed=4)
    shuffled = centred_log(q[torch.randperm(400, generator=torch.Generator().manual_seed(0))])
    found = fitted_correction(log_p, shuffled[None], y)
    assert abs(float(found.trust)) < 0.15
    assert float(found.matrix.abs().max()) < 0.15
    none = fitted_correction(log_p[:0], shuffled[None][:, :0], y[:0])
    torch.testing.assert_close(none(log_p, shuffled[None]), log_p)


def test_a_missing_answer_leaves_the_complete_case_to_its_power_and_offset() -> None:
    log_p, q, y = drawn(100, 3, seed=5)
    found = fitted_correction(log_p, centred_log(q)[None], y)
    nothing = centred_log(torch.full((100, 3), 1 / 3))[None]
    expected = (found.power * log_p + found.offset).log_softmax(1)
    torch.testing.assert_close(found(log_p, nothing), expected)


def test_tensors_there_and_back() -> None:
    log_p, q, y = drawn(50, 3, seed=6)
    said = centred_log(q)[None]
    found = fitted_correction(log_p, said, y)
    again = Correction.from_tensors(found.tensors())
    assert bool((again(log_p, said) == found(log_p, said)).all())


def test_shapes_that_do_not_fit_are_refused() -> None:
    log_p, q, y = drawn(10, 3, seed=7)
    with pytest.raises(ValueError, match="Stack the answers"):
        fitted_correction(log_p, centred_log(q), y)
    with pytest.raises(ValueError, match="one gold label"):
        fitted_correction(log_p, centred_log(q)[None], y[:5])
