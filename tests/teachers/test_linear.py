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
