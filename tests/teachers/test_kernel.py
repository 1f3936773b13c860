from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from dessl.teachers import Kernel
from dessl.teachers.kernel import KERNELS


def test_features_reproduce_the_kernel(blobs: Callable) -> None:
    rows = blobs()
    kernel = Kernel(0.5).fit(rows.x_l, rows.y_l, rows.x_u, 3)
    z = kernel._space(rows.x_l).double()
    similar = (-torch.cdist(z, z).square() / 2 / kernel._bandwidth**2).exp()
    features = kernel._similarities(z) @ kernel._basis
    assert (features @ features.T).numpy() == pytest.approx(similar.numpy(), abs=1e-4)


def test_it_is_the_least_penalised_risk_over_the_kernels_functions(blobs: Callable) -> None:
    """min C Σ CE(K a + b) + ½ tr(aᵀ K a), solved in the dual weights a."""
    rows = blobs(n_l=30)
    kernel = Kernel(1.0, strength=2.0).fit(rows.x_l, rows.y_l, rows.x_u, 3)
    z = kernel._space(rows.x_l).double()
    k = (-torch.cdist(z, z).square() / 2 / kernel._bandwidth**2).exp().numpy()
    y = rows.y_l.numpy()

    def risk(flat: np.ndarray) -> tuple[float, np.ndarray]:
        a, b = flat[:-3].reshape(30, 3), flat[-3:]
        scores = torch.from_numpy(k @ a + b).log_softmax(1).numpy()
        residual = np.exp(scores) - np.eye(3)[y]
        value = -2.0 * scores[np.arange(30), y].sum() + (a * (k @ a)).sum() / 2
        slope = k @ (2.0 * residual + a)
        return value, np.concatenate([slope.ravel(), 2.0 * residual.sum(0)])

    options = {"maxiter": 5000, "maxfun": 10000, "ftol": 1e-15, "gtol": 1e-9}
    best = minimize(risk, np.zeros(93), jac=True, method="L-BFGS-B", options=options)
    new = kernel._space(rows.x_new).double()
    similar = (-torch.cdist(new, z).square() / 2 / kernel._bandwidth**2).exp()
    scores = similar @ torch.from_numpy(best.x[:-3].reshape(30, 3)) + torch.from_numpy(best.x[-3:])
    found = kernel.predict_log_proba(rows.x_new)
    assert found.numpy() == pytest.approx(scores.log_softmax(1).numpy(), abs=5e-3)


def test_a_sharp_boundary_wants_the_strong_kernel() -> None:
    x = torch.randn(1100, 5, generator=torch.Generator().manual_seed(0))
    y = (x.square().sum(1) > 4.35).long()  # the median radius: no class is ever uncertain
    losses = {
        strength: -Kernel(width, strength)
        .fit(x[:100], y[:100], x, 2)
        .predict_log_proba(x[100:])
        .gather(1, y[100:, None])
        .mean()
        for width, strength in KERNELS
        if width == 0.5
    }
    assert losses[100.0] < losses[10.0] - 0.03


def test_only_another_strength_is_in_the_name() -> None:
    assert [Kernel(*setting).name for setting in ((0.5, 10.0), (0.5, 100.0))] == [
        "kernel h=0.5", "kernel h=0.5 C=100",
    ]  # fmt: skip


def test_rows_that_are_all_equal_are_no_trouble() -> None:
    x, y = torch.ones(8, 2), torch.arange(8) % 2
    assert torch.isfinite(Kernel().fit(x, y, x[:0], 2).predict_log_proba(x)).all()


def test_copies_of_few_rows_have_the_distances_of_the_rows() -> None:
    """Rounding keeps copies apart by 1e-8, which would be the median distance."""
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        number = torch.multinomial(torch.tensor([0.9, 0.05, 0.05]), 80, True, generator=generator)
        x = torch.randn(3, 13, generator=generator)[number]
        kernel = Kernel(1.0).fit(x, (number > 0).long(), x[:0], 2)
        z = kernel._space(x).double()
        apart = (z[:, None] - z).norm(dim=-1)
        assert kernel._bandwidth > 0.5 * float(apart[apart > 1e-6].median())


def test_labelled_rows_that_are_all_copies_have_a_bandwidth() -> None:
    x = torch.randn(1, 13, generator=torch.Generator().manual_seed(0)).repeat(40, 1)
    x_u = torch.randn(50, 13, generator=torch.Generator().manual_seed(1))
    kernel = Kernel(0.5).fit(x, torch.arange(40) % 2, x_u, 2)
    assert kernel._bandwidth == 0.5
