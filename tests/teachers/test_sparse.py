from collections.abc import Callable

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from dessl.teachers import Linear, Sparse
from dessl.teachers import sparse as room
from dessl.teachers.space import Space
from dessl.teachers.sparse import SHARES, sparse_weights


def rows(n: int = 120, d: int = 90, n_classes: int = 2) -> tuple[Tensor, Tensor]:
    """Three columns of many decide, and another one is constant."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, d, generator=generator, dtype=torch.float64)
    x[:, 9] = 4.0
    scores = 2 * x[:, :n_classes] - x[:, 3:4] * torch.arange(n_classes)
    noise = torch.rand(n, n_classes, generator=generator, dtype=torch.float64)
    return x, (scores - (-noise.log()).log()).argmax(1)


def risk(z: Tensor, y: Tensor, weights: Tensor, counts: Tensor | None = None) -> Tensor:
    losses = torch.nn.functional.cross_entropy(z @ weights[:-1] + weights[-1], y, reduction="none")
    return losses.mean() if counts is None else (counts * losses).sum() / counts.sum()


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "TOLERANCE", 1e-6)


@pytest.mark.parametrize("share", [0.5, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.usefixtures("exact")
def test_it_is_scikit_learns(n_classes: int, weighted: bool, share: float) -> None:
    z, y = rows(n_classes=n_classes)
    counts = 1.0 + torch.arange(len(y)) % 3 if weighted else torch.ones(len(y))
    counts = counts.double() / counts.double().mean()
    shares = torch.stack([counts[y == k].sum() for k in range(n_classes)]) / len(y)
    least = z.T @ (counts[:, None] * (shares - torch.eye(n_classes)[y].double())) / len(y)
    strength = 1 / (len(y) * share * float(least.abs().max()))
    peer = LogisticRegression(
        C=strength, l1_ratio=1, solver="saga", tol=1e-7, max_iter=20_000, random_state=0
    )
    peer.fit(z.numpy(), y.numpy(), sample_weight=counts.numpy())
    weights = sparse_weights(z, y, share, counts if weighted else None)
    found = (z @ weights[:-1] + weights[-1]).log_softmax(1)
    assert found.numpy() == pytest.approx(peer.predict_log_proba(z.numpy()), abs=2e-3)
    kept = weights[:-1].any(1)
    assert kept.tolist() == torch.from_numpy(peer.coef_ != 0).any(0).tolist()
    assert 0 < int(kept.sum()) < z.shape[1]


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("share", SHARES)
def test_slopes_of_the_loss_are_the_penalty_or_less(n_classes: int, share: float) -> None:
    """The subgradient vanishes: −λ sign(B) where B is not 0, within ±λ elsewhere."""
    z, y = rows(n_classes=n_classes)
    weights = sparse_weights(z, y, share).requires_grad_()
    (slopes,) = torch.autograd.grad(risk(z, y, weights), weights)
    zero = sparse_weights(z, y, 1.0).requires_grad_()
    assert not zero[:-1].any()
    penalty = share * float(torch.autograd.grad(risk(z, y, zero), zero)[0][:-1].abs().max())
    b, found = weights[:-1].detach(), slopes[:-1]
    near = 2 * room.TOLERANCE * penalty
    assert float(found.abs().max()) <= penalty + near
    kept = b != 0
    assert float((found + penalty * b.sign())[kept].abs().max()) < near
    assert float(slopes[-1].abs().max()) < near


@pytest.mark.usefixtures("exact")
def test_a_label_of_weight_two_counts_twice() -> None:
    z, y = rows(60)
    times = torch.arange(60) % 3 + 1
    weighted = sparse_weights(z, y, 0.2, times.double())
    repeated = torch.arange(60).repeat_interleave(times)
    twice = sparse_weights(z[repeated], y[repeated], 0.2)
    torch.testing.assert_close(weighted, twice, atol=1e-4, rtol=1e-3)


@pytest.mark.usefixtures("exact")
def test_columns_join_in_rounds_until_none_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    z, y = rows(n_classes=4)
    at_once = sparse_weights(z, y, 0.1)
    monkeypatch.setattr(room, "FIRST_COLUMNS", 2)
    torch.testing.assert_close(sparse_weights(z, y, 0.1), at_once, atol=1e-4, rtol=1e-3)


def test_it_sees_the_columns_and_not_their_components() -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(1500, 300, generator=generator)
    y = (2 * x[:, 5] - 2 * x[:, 70] + torch.randn(1500, generator=generator) > 0).long()
    space = Space.of(x)
    assert space.directions.shape == (300, 50)
    sparse = Sparse(0.3, space=space).fit(x[:150], y[:150], x[:0], 2)
    assert {5, 70} <= set(sparse.columns.tolist())
    losses = [
        -float(one.predict_log_proba(x[150:]).gather(1, y[150:, None]).mean())
        for one in (sparse, Linear(0.03, space=space).fit(x[:150], y[:150], x[:0], 2))
    ]
    assert losses[0] < 0.45 < 0.6 < losses[1]


def test_a_unit_is_no_matter(blobs: Callable) -> None:
    found = blobs()
    times = torch.tensor([1000.0, 0.01])
    plain = Sparse(0.1).fit(found.x_l, found.y_l, found.x_u, 3)
    other = Sparse(0.1).fit(times * found.x_l, found.y_l, times * found.x_u, 3)
    torch.testing.assert_close(
        plain.predict_log_proba(found.x_new),
        other.predict_log_proba(times * found.x_new),
        atol=1e-3,
        rtol=1e-3,
    )


def test_one_class_alone_has_what_the_shares_leave(blobs: Callable) -> None:
    found = blobs()
    sparse = Sparse().fit(found.x_l, torch.zeros_like(found.y_l), found.x_u, 2)
    expected = [41 / 42, 1 / 42]
    assert sparse.predict_log_proba(found.x_new)[0].exp().tolist() == pytest.approx(expected)
    assert sparse.columns.tolist() == []


def test_constant_columns_leave_the_shares_of_the_classes() -> None:
    y = torch.tensor([0, 0, 0, 1])
    sparse = Sparse(0.1).fit(torch.ones(4, 70), y, torch.ones(8, 70), 2)
    found = sparse.predict_log_proba(torch.ones(1, 70)).exp()
    assert found[0].tolist() == pytest.approx([0.75, 0.25])


def test_what_is_saved_comes_back(blobs: Callable) -> None:
    found = blobs()
    sparse = Sparse(0.15).fit(found.x_l, found.y_l, found.x_u, 4)
    again = Sparse.from_state(sparse.state())
    assert (again.name, again.share) == ("sparse λ=0.15", 0.15)
    assert torch.equal(again.predict_log_proba(found.x_new), sparse.predict_log_proba(found.x_new))


@pytest.mark.parametrize("share", [0, 1.5, -1])
def test_a_share_is_above_0_and_at_most_1(share: float) -> None:
    with pytest.raises(ValueError, match=r"share must lie in \(0, 1\]"):
        Sparse(share)


def test_it_is_fitted_first() -> None:
    for use in (lambda one: one.columns, lambda one: one.state()):
        with pytest.raises(RuntimeError, match="Sparse has not been fitted"):
            use(Sparse())
