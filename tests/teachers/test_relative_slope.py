"""λ by the relative slope: least squares, its robust error, and what it is for."""

import numpy as np
import pytest
import torch
from torch import Tensor

from dessl.teachers.relative_slope import relative_slope


def drawn(n: int, classes: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (n,), generator=g)
    truth = torch.eye(classes)[y]
    p = (truth + torch.randn(n, classes, generator=g)).softmax(1)
    q = (2.0 * truth + torch.randn(n, classes, generator=g)).softmax(1)
    return p.double(), q.double(), y


def test_the_slope_and_its_error_are_those_of_clustered_least_squares() -> None:
    p, q, y = drawn(150, 3, seed=0)
    noise = torch.randn(150, 3, generator=torch.Generator().manual_seed(9))
    other = (2.0 * torch.eye(3)[y] + noise).softmax(1).double()
    both = torch.stack([q, other])
    found = relative_slope(p, both, y, n_unlabelled=850)
    e = np.eye(3)[y.numpy()] - p.numpy()
    design = np.stack([(one - p).numpy().ravel() for one in both], axis=1)
    slope, *_ = np.linalg.lstsq(design, e.ravel(), rcond=None)
    rows = design.reshape(150, 3, 2)
    residual = e - rows @ slope
    bread = np.linalg.inv(design.T @ design)
    meat = sum(np.outer(rows[i].T @ residual[i], rows[i].T @ residual[i]) for i in range(len(rows)))
    error = np.sqrt(np.diag(bread @ meat @ bread) * 150 / 148)
    assert bool((found.lam > 0).all())
    np.testing.assert_allclose(found.slope.numpy(), slope, rtol=1e-6)
    np.testing.assert_allclose(found.standard_error.numpy(), error, rtol=1e-6)
    alone = relative_slope(p, q[None], y, n_unlabelled=850)
    d = (q - p).numpy()
    expected = (e * d).sum() / (d * d).sum()
    assert float(alone.slope) == pytest.approx(expected, rel=1e-6)
    lower = expected - 1.6448536 * float(alone.standard_error)
    assert float(alone.lam) == pytest.approx(0.85 * min(1.0, lower), rel=1e-5)


def test_the_error_is_that_of_repeated_draws() -> None:
    slopes, errors = [], []
    for seed in range(200):
        found = relative_slope(
            *(a[None] if i == 1 else a for i, a in enumerate(drawn(100, 3, seed))), n_unlabelled=100
        )
        slopes.append(float(found.slope))
        errors.append(float(found.standard_error))
    assert np.mean(errors) == pytest.approx(np.std(slopes), rel=0.15)


def test_lam_is_near_the_one_of_least_gradient_variance() -> None:
    """The gradient at p of mean_L CE(y) + λ(mean_U CE(q) − mean_L CE(q)), over many label draws."""
    p, q, y = drawn(4000, 2, seed=1)
    q = (4 * q.log()).softmax(1)  # overconfident: the slope is well below 1
    p = p * 0 + 0.5  # a complete case that knows nothing: then centring changes nothing either
    e = torch.eye(2, dtype=torch.float64)[y]
    g = torch.Generator().manual_seed(2)
    lams = torch.linspace(0, 1.5, 16)
    gradients = []
    for _ in range(400):
        rows = torch.randperm(4000, generator=g)
        gold, rest = rows[:200], rows[200:1000]
        base = (p - e)[gold].mean(0)
        change = (p - q)[rest].mean(0) - (p - q)[gold].mean(0)
        gradients.append(base + lams[:, None] * change)
    best = float(lams[torch.stack(gradients).var(0).sum(1).argmin()])
    found = relative_slope(p, q[None], y, n_unlabelled=16_000)  # n_u / n as in the draws
    assert best == pytest.approx(float(found.lam), abs=0.15)


def test_teachers_that_add_nothing_have_no_weight() -> None:
    p, q, y = drawn(200, 3, seed=3)
    shuffled = q[torch.randperm(200, generator=torch.Generator().manual_seed(0))]
    found = relative_slope(p, torch.stack([q, shuffled, p]), y, n_unlabelled=800)
    alone = relative_slope(p, q[None], y, n_unlabelled=800)
    assert found.lam[1:].tolist() == [0.0, 0.0]
    torch.testing.assert_close(found.lam[:1], alone.lam)


def test_teachers_that_agree_share_their_slope() -> None:
    p, q, y = drawn(200, 3, seed=3)
    found = relative_slope(p, torch.stack([q, q]), y, n_unlabelled=800)
    alone = relative_slope(p, q[None], y, n_unlabelled=800)
    torch.testing.assert_close(found.slope, alone.slope.expand(2) / 2)


def test_an_inverted_teacher_and_one_that_agrees_with_p_get_none() -> None:
    p, q, y = drawn(200, 2, seed=4)
    assert float(relative_slope(p, (1 - q)[None], y, n_unlabelled=800).lam) == 0
    assert float(relative_slope(p, p[None], y, n_unlabelled=800).lam) == 0


def test_lams_of_several_teachers_sum_to_one_at_most() -> None:
    y = torch.arange(100) % 2
    p = torch.full((100, 2), 0.5)
    mild = torch.eye(2)[y] * 0.2 + 0.4  # slope 5: the answers are too timid
    found = relative_slope(p, mild[None], y, n_unlabelled=10**6)
    assert float(found.slope) == pytest.approx(5.0)
    assert float(found.lam.sum()) <= 1.0


def test_bad_shapes_are_refused() -> None:
    p, q, y = drawn(10, 2, seed=5)
    with pytest.raises(ValueError, match=r"\(teachers, n, classes\)"):
        relative_slope(p, q, y, n_unlabelled=10)
    with pytest.raises(ValueError, match="n_unlabelled"):
        relative_slope(p, q[None], y, n_unlabelled=0)
