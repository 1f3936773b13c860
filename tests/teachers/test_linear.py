from collections.abc import Callable

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from dessl.teachers import Linear
from dessl.teachers.linear import logistic_weights


@pytest.mark.parametrize("n_classes", [2, 3])
def test_it_is_scikit_learns_on_standardised_columns(blobs: Callable, n_classes: int) -> None:
    rows = blobs()
    y = rows.y_l.clamp(max=n_classes - 1)
    scaler = StandardScaler().fit(torch.cat([rows.x_l, rows.x_u]).double().numpy())
    peer = LogisticRegression(C=0.3, tol=1e-8, max_iter=1000)
    peer.fit(scaler.transform(rows.x_l.double().numpy()), y.numpy())
    expected = peer.predict_log_proba(scaler.transform(rows.x_new.double().numpy()))
    found = Linear(0.3).fit(rows.x_l, y, rows.x_u, n_classes).predict_log_proba(rows.x_new)
    assert found.numpy() == pytest.approx(expected, abs=1e-3)


def test_one_class_alone_has_what_the_shares_leave(blobs: Callable) -> None:
    rows = blobs()
    linear = Linear().fit(rows.x_l, torch.zeros_like(rows.y_l), rows.x_u, 2)
    assert linear.predict_log_proba(rows.x_new)[0].exp().tolist() == pytest.approx(
        [41 / 42, 1 / 42]
    )


def test_equal_columns_and_a_huge_strength_are_no_trouble(blobs: Callable) -> None:
    rows = blobs()
    twice = torch.cat([rows.x_l, rows.x_l, torch.ones(len(rows.x_l), 1)], 1).double()
    weights = logistic_weights(twice, rows.y_l, 1e12)
    assert torch.isfinite(weights).all()
    scores = torch.cat([twice, torch.ones(len(twice), 1)], 1) @ weights
    assert float((scores.argmax(1) == rows.y_l).double().mean()) > 0.9


@pytest.mark.parametrize("n_classes", [2, 3])
def test_weights_are_where_the_penalised_loss_is_flat(blobs: Callable, n_classes: int) -> None:
    """The gradient of C Σ CE + ½ |B|², or of two classes ½ |b₂ − b₁|², vanishes there."""
    rows = blobs()
    z, y = rows.x_l.double(), rows.y_l.clamp(max=n_classes - 1)
    weights = logistic_weights(z, y, 0.7).requires_grad_()
    loss = torch.nn.functional.cross_entropy(z @ weights[:-1] + weights[-1], y, reduction="sum")
    slopes = weights[:-1] if n_classes > 2 else weights[:-1, 1:] - weights[:-1, :1]
    (gradient,) = torch.autograd.grad(0.7 * loss + slopes.square().sum() / 2, weights)
    if n_classes == 2:  # along the one direction there is
        gradient = gradient[:, 1] - gradient[:, 0]
    assert float(gradient.abs().max()) < 2e-3


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_with_more_columns_than_rows_it_is_scikit_learns(n_classes: int, weighted: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(40, 120, generator=generator).double()
    y = torch.arange(40) % n_classes
    each = torch.rand(40, generator=generator).double() + 0.5 if weighted else None
    peer = LogisticRegression(C=0.02, tol=1e-10, max_iter=5000)
    peer.fit(z.numpy(), y.numpy(), None if each is None else each.numpy())
    found = logistic_weights(z, y, 0.02, each)
    odds = (z @ found[:-1] + found[-1]).log_softmax(1)
    assert odds.numpy() == pytest.approx(peer.predict_log_proba(z.numpy()), abs=1e-4)


def test_all_columns_say_what_components_leave_out() -> None:
    """One of 200 columns of equal variance: the 50 components hold a quarter of it."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1500, 200, generator=generator)
    y = (x[:, 7] > 0).long()
    right = {}
    for whole in (False, True):
        linear = Linear(3.0, whole=whole).fit(x[:300], y[:300], x[300:1000], 2)
        right[whole] = float(
            (linear.predict_log_proba(x[1000:]).argmax(1) == y[1000:]).float().mean()
        )
        again = Linear.from_state(linear.state())
        assert (again.name, again.whole) == (linear.name, whole)
        assert torch.equal(again.predict_log_proba(x), linear.predict_log_proba(x))
    assert right[True] > right[False] + 0.1


def test_the_strength_on_all_columns_does_not_depend_on_their_number() -> None:
    """Every column four times as a column: |z|² is four times as large, and nothing changes."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(80, 30, generator=generator)
    y = (x[:, 0] > 0).long()
    one, four = (
        Linear(3.0, whole=True).fit(rows, y, rows[:0], 2).predict_log_proba(rows)
        for rows in (x, x.repeat(1, 4))
    )
    torch.testing.assert_close(one, four, atol=1e-3, rtol=1e-3)
