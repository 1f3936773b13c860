"""The asymptotic covariance against M-estimators fitted many times on a logistic model."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from dessl.theory import asymptotic_covariance

DIM = 2
PI = 0.25


def draw(shape: tuple[int, ...], generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Features, labels, and a teacher's guess at them that leans to one side.

    The truth is quadratic and the model linear: for a well-specified model E[∇L | x] = 0 at θ*, so
    that Cov(∇L, ∇H) = 0 and no λ could help.
    """
    feature = torch.randn(*shape, generator=generator, dtype=torch.float64)
    x = torch.stack([torch.ones_like(feature), feature], -1)
    score = 0.5 + feature - feature.square()
    y = torch.rand(shape, generator=generator, dtype=torch.float64) < torch.sigmoid(score)
    return x, y.double(), torch.sigmoid(score + 2.0)


def gradients(x: Tensor, y: Tensor, teacher: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
    """∇L of the logistic loss and ∇H of the cross-entropy to the teacher, one row each."""
    p = torch.sigmoid((x * theta).sum(-1))
    return (p - y).unsqueeze(-1) * x, (p - teacher).unsqueeze(-1) * x


def fit(x: Tensor, y: Tensor, teacher: Tensor, row_l: Tensor, row_h: Tensor) -> Tensor:
    """Minimise Σ row_l L + Σ row_h H by Newton's method, for a batch of data sets at once."""
    theta = torch.zeros(len(x), DIM, dtype=torch.float64)
    for _ in range(8):
        g_l, g_h = gradients(x, y, teacher, theta.unsqueeze(1))
        gradient = (row_l.unsqueeze(-1) * g_l + row_h.unsqueeze(-1) * g_h).sum(1)
        p = torch.sigmoid((x * theta.unsqueeze(1)).sum(-1))
        curvature = (row_l + row_h) * p * (1 - p)
        hessian = torch.einsum("bn,bni,bnj->bij", curvature, x, x)
        theta = theta - torch.linalg.solve(hessian, gradient)
    return theta


def simulated(lam: float, weights: str) -> Tensor:
    """n times the covariance of the estimator over 3,000 MCAR data sets of n = 2,000 rows."""
    generator = torch.Generator().manual_seed(0)
    n, estimates = 2000, []
    for _ in range(30):
        x, y, teacher = draw((100, n), generator)
        r = (torch.rand(100, n, generator=generator) < PI).double()
        n_l = r.sum(1, keepdim=True) if weights == "counts" else PI * n
        n_u = n - n_l
        estimates.append(fit(x, y, teacher, r / n_l, lam * ((1 - r) / n_u - r / n_l)))
    return torch.cov(torch.cat(estimates).T) * n


@pytest.fixture(scope="module")
def population() -> tuple[Tensor, Tensor, Tensor]:
    """Hessian and per-sample gradients at θ*, over 500,000 rows."""
    x, y, teacher = draw((500_000,), torch.Generator().manual_seed(1))
    ones = torch.ones(1, len(x), dtype=torch.float64)
    theta = fit(x[None], y[None], teacher[None], ones, 0 * ones)[0]
    p = torch.sigmoid(x @ theta)
    hessian = torch.einsum("n,ni,nj->ij", p * (1 - p), x, x) / len(x)
    return hessian, *gradients(x, y, teacher, theta)


@pytest.mark.parametrize(
    ("weights", "lam"),
    [
        pytest.param("counts", 0.0, marks=pytest.mark.slow),
        ("counts", 0.7),
        pytest.param("expected", 0.7, marks=pytest.mark.slow),
    ],
)
def test_agrees_with_simulation(
    population: tuple[Tensor, Tensor, Tensor], weights: str, lam: float
) -> None:
    hessian, g_l, g_h = population
    theory = asymptotic_covariance(hessian, g_l, g_h, PI, lam, weights=weights).covariance
    monte_carlo = simulated(lam, weights)
    assert float(monte_carlo.trace()) == pytest.approx(float(theory.trace()), rel=0.08)
    scale = theory.diagonal().sqrt().outer(theory.diagonal().sqrt())
    assert ((monte_carlo - theory) / scale).abs().max() < 0.1


def test_the_two_weightings_differ_where_the_mean_of_grad_h_is_not_zero(
    population: tuple[Tensor, Tensor, Tensor],
) -> None:
    hessian, g_l, g_h = population
    counts = asymptotic_covariance(hessian, g_l, g_h, PI, 0.7)
    expected = asymptotic_covariance(hessian, g_l, g_h, PI, 0.7, weights="expected")
    assert expected.covariance.trace() > 1.1 * counts.covariance.trace()
    centred = asymptotic_covariance(hessian, g_l, g_h - g_h.mean(0), PI, 0.7, weights="expected")
    torch.testing.assert_close(centred.covariance, counts.covariance)


@pytest.mark.parametrize("weights", ["counts", "expected"])
def test_the_optimal_lambda_is_the_least_trace(
    population: tuple[Tensor, Tensor, Tensor], weights: str
) -> None:
    hessian, g_l, g_h = population
    result = asymptotic_covariance(hessian, g_l, g_h, PI, weights=weights)
    best = result.optimal_lambda

    def trace(lam: float) -> float:
        return float(
            asymptotic_covariance(hessian, g_l, g_h, PI, lam, weights=weights).covariance.trace()
        )

    assert result.optimal_trace_ratio < 0.97
    assert trace(best) < min(trace(best - 1e-3), trace(best + 1e-3))
    assert trace(best) / trace(0.0) == pytest.approx(result.optimal_trace_ratio)
    assert trace(0.0) == pytest.approx(float(result.complete_case.trace()))
    # The closed form of theorem 3.5, with M by weighting.
    inverse = torch.linalg.inv(hessian)
    centred_l, centred_h = g_l - g_l.mean(0), g_h - g_h.mean(0)
    k = centred_l.T @ centred_h / len(g_l)
    m = (centred_h.T @ centred_h if weights == "counts" else g_h.T @ g_h) / len(g_h)
    closed = (1 - PI) * (inverse @ k @ inverse).trace() / (inverse @ m @ inverse).trace()
    assert best == pytest.approx(float(closed))


def test_the_covariance_is_symmetric_and_positive(
    population: tuple[Tensor, Tensor, Tensor],
) -> None:
    hessian, g_l, g_h = population
    sigma = asymptotic_covariance(hessian, g_l, g_h, PI, 2.0).covariance
    torch.testing.assert_close(sigma, sigma.T)
    assert torch.linalg.eigvalsh(sigma).min() > 0


def test_arrays_are_accepted() -> None:
    result = asymptotic_covariance([[2.0]], [[1.0], [-1.0]], [[1.0], [-1.0]], 0.5, 0.0)
    assert float(result.covariance) == pytest.approx(0.5)


def test_a_loss_without_gradient_has_nothing_to_gain() -> None:
    result = asymptotic_covariance([[1.0]], [[0.0], [0.0]], [[1.0], [-1.0]], 0.5)
    assert (result.optimal_lambda, result.optimal_trace_ratio) == (0.0, 1.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_hessian_that_only_rounding_keeps_from_being_singular_is_refused(
    dtype: torch.dtype,
) -> None:
    """Softmax regression without a penalty: adding a vector to all classes' weights is free."""
    x = torch.randn(50, 3, generator=torch.Generator().manual_seed(0), dtype=dtype)

    def risk(weights: Tensor) -> Tensor:
        return torch.logsumexp(x @ weights.view(3, 4), -1).mean()

    hessian = torch.autograd.functional.hessian(risk, 0.1 * torch.arange(12, dtype=dtype))
    rows = torch.randn(2, 30, 12, generator=torch.Generator().manual_seed(1))
    torch.linalg.inv(hessian)  # PyTorch itself does not notice
    with pytest.raises(ValueError, match="hessian must be invertible; it is singular"):
        asymptotic_covariance(hessian, *rows, 0.5)
    asymptotic_covariance(hessian + 0.01 * torch.eye(12), *rows, 0.5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: asymptotic_covariance([[0.0]], [[1.0], [2.0]], [[1.0], [2.0]], 0.5),
            "hessian must be invertible",
        ),
        (
            lambda: asymptotic_covariance([[1.0, 2.0], [0.0, 1.0]], *torch.ones(2, 3, 2), 0.5),
            "hessian must be symmetric",
        ),
        (
            lambda: asymptotic_covariance([[1.0]], [[1.0]], [[1.0]], 0.5),
            "the number of rows m must be at least 2; got 1",
        ),
        (
            lambda: asymptotic_covariance([[1.0]], [[1.0]], [[1.0]], 0.5, float("inf")),
            r"lam must lie in \(-inf, inf\); got inf",
        ),
        (lambda: asymptotic_covariance([[1.0]], [[1.0]], [[1.0]], 1.0), r"pi must lie in \(0, 1\)"),
        (
            lambda: asymptotic_covariance([[1.0]], [[1.0, 2.0]], [[1.0, 2.0]], 0.5),
            "must be \\(p, p\\)",
        ),
        (
            lambda: asymptotic_covariance([[1.0]], [[1.0]], [[1.0]], 0.5, weights="n"),
            "weights must be one of 'counts', 'expected'",
        ),
    ],
)
def test_bad_input_is_refused_with_a_remedy(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
