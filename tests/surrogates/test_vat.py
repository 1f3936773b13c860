"""VAT against finite differences, eigenvectors and Python floats; and what it leaves untouched."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from dessl.functional import cross_entropy, entropy
from dessl.surrogates import VAT, Rows, Smooth, VATEntropy, as_is

X = torch.randn(5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
ROWS = Rows(X, torch.arange(5))


def small_network(dtype: torch.dtype = torch.float64) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).to(dtype)


def kl(q: list[float], p: list[float]) -> float:
    return sum(b * math.log(b / a) for a, b in zip(p, q, strict=True))


def unit(row: Tensor) -> Tensor:
    return row / math.sqrt(sum(float(v) ** 2 for v in row))


@pytest.mark.parametrize("power_steps", [1, 3])
@pytest.mark.parametrize("divergence", ["kl", "cross_entropy"])
def test_the_equation_row_by_row(
    power_steps: int,
    divergence: str,
    softmax: Callable[[Tensor], list[float]],
    differences: Callable[..., Tensor],
) -> None:
    model, epsilon, xi = small_network(), 0.7, 1e-2
    generator = torch.Generator().manual_seed(3)
    start = torch.randn(X.shape, generator=generator, dtype=torch.float64)
    expected, shifts = [], []
    for row, direction in zip(X, start, strict=True):
        q = softmax(model(row))
        for _ in range(power_steps):
            step = xi * unit(direction)
            direction = differences(
                lambda row=row, q=q, s=step: kl(q, softmax(model(row + s))), step
            )
        shifts.append(epsilon * unit(direction))
        value = kl(q, softmax(model(row + shifts[-1])))
        own = -sum(v * math.log(v) for v in q) if divergence == "cross_entropy" else 0.0
        expected.append(value + own)
    surrogate = VAT(
        epsilon=epsilon, xi=xi, power_steps=power_steps, divergence=divergence, view=as_is, seed=3
    )
    h, logits = surrogate(model, ROWS)
    torch.testing.assert_close(h, torch.tensor(expected, dtype=torch.float64), rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(logits[0], model(X))
    # The gradient: target and perturbation are constants.
    h.sum().backward()
    got = model[0].weight.grad.clone()
    model.zero_grad()
    fixed, moved = model(X).softmax(-1).detach(), X + torch.stack(shifts)
    (fixed * -model(moved).log_softmax(-1)).sum().backward()
    torch.testing.assert_close(got, model[0].weight.grad, rtol=1e-4, atol=1e-6)


def test_many_power_steps_find_the_largest_eigenvector() -> None:
    model = nn.Linear(4, 3, dtype=torch.float64)
    surrogate = VAT(epsilon=1.0, xi=1e-4, power_steps=60)
    start = torch.randn(5, 4, dtype=torch.float64)
    r = surrogate.perturbation(model, X, model(X).detach(), start)
    for row, shift in zip(X, r, strict=True):
        p = model(row).softmax(-1).detach()
        hessian = model.weight.T @ (p.diag() - p.outer(p)) @ model.weight
        eigenvector = torch.linalg.eigh(hessian.detach()).eigenvectors[:, -1]
        assert abs(float(eigenvector @ shift)) == pytest.approx(1, abs=1e-4)


def test_the_default_xi_survives_float32_and_the_original_one_does_not() -> None:
    """On rows as large as images, against the direction that float64 finds."""
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Linear(3072, 20), nn.Tanh(), nn.Linear(20, 10))
    x, start = torch.randn(2, 16, 3072, generator=generator)
    found = {}
    for xi in (1e-2, 1e-6):
        surrogate = VAT(xi=xi)
        found[xi] = surrogate.perturbation(model, x, model(x).detach(), start).double()
    exact = VAT(xi=1e-4).perturbation(
        model.double(), x.double(), model(x.double()).detach(), start.double()
    )
    cosine = {xi: float((r * exact).sum(1).min()) for xi, r in found.items()}
    assert cosine[1e-2] > 0.99
    assert cosine[1e-6] < 0.9


def test_running_statistics_see_the_clean_pass_alone() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)).double()
    once = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)).double()
    once.load_state_dict(model.state_dict())
    once(X)
    for surrogate in (VAT(power_steps=3), Smooth(VAT(power_steps=3))):
        model.load_state_dict({**model.state_dict(), **nn.BatchNorm1d(6).state_dict(prefix="1.")})
        surrogate(model, ROWS).h.sum().backward()
        for got, wanted in zip(model.buffers(), once.buffers(), strict=True):
            torch.testing.assert_close(got, wanted)
    assert model[1].num_batches_tracked == 1


def test_a_model_that_does_not_move_gives_zero() -> None:
    scores = VAT()(lambda x: torch.zeros(len(x), 3, dtype=x.dtype) * x.sum(), ROWS)
    assert (scores.h == 0).all()


def test_divergences_share_their_gradient() -> None:
    gradients = []
    for divergence in ("kl", "cross_entropy"):
        model = small_network()
        VAT(divergence=divergence)(model, ROWS).h.sum().backward()
        gradients.append(model[0].weight.grad)
    torch.testing.assert_close(*gradients)


def test_entropy_comes_on_top_with_its_gradient() -> None:
    gradients, values = [], []
    for surrogate in (VATEntropy(entropy_weight=0.3), VAT()):
        model = small_network()
        h, logits = surrogate(model, ROWS)
        total = h if isinstance(surrogate, VATEntropy) else h + 0.3 * entropy(logits[0])
        total.sum().backward()
        values.append(total)
        gradients.append(model[0].weight.grad)
    torch.testing.assert_close(*values)
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("scale", [30.0, 100.0, 300.0])
def test_unbounded_below_for_any_lambda_and_smoothing_tames_it(scale: float) -> None:
    """Rows 0.1 from the boundary and ε = 1: the surer the model, the lower L − λH.

    The first direction is ± 1 by chance, and stays so: half of the rows cross the boundary.
    """
    rows, y, lam = Rows(torch.full((16, 1), 0.1).double(), torch.arange(16)), torch.ones(16), 0.05

    def model(x: Tensor) -> Tensor:
        return scale * torch.cat([torch.zeros_like(x), x], 1)

    for surrogate, low, high in (
        (VAT(epsilon=1.0, xi=1e-3), -math.inf, 1 - 0.04 * scale),
        (Smooth(VAT(epsilon=1.0, xi=1e-3), epsilon=0.1), -lam * math.log(2 / 0.1), 0.0),
    ):
        h, logits = surrogate(model, rows)
        value = float((cross_entropy(logits[0], y.long()) - lam * h).min())
        assert low <= value <= high
    assert VAT().bounded_up_to == VATEntropy().bounded_up_to == 0


def test_bytes_are_refused() -> None:
    rows = Rows(torch.ones(2, 4, dtype=torch.int64), torch.arange(2))
    with pytest.raises(TypeError, match=r"must be floats; got torch.int64. Pass a view"):
        VAT()(nn.Linear(4, 3), rows)
    with pytest.raises(ValueError, match="power_steps must be at least 1"):
        VAT(power_steps=0)


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.last(checkpoint(self.first, x, use_reentrant=False))
        return logits


def test_models_that_it_cannot_differentiate_are_refused_with_advice() -> None:
    norm = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))
    rows = Rows(X.float(), ROWS.ids)
    compiled = torch.compile(norm, backend="eager")
    for model in (lambda x: norm(x), Checkpointed(), compiled):
        with pytest.raises((RuntimeError, AssertionError)) as caught:
            VAT()(model, rows)
        assert "Pass the nn.Module itself, without checkpointing." in caught.value.__notes__[0]
    assert VAT()(norm, rows).h.isfinite().all()
