from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn.datasets import make_moons
from sklearn.neighbors import NearestNeighbors

from dessl.teachers import Graph, out_of_fold
from dessl.teachers.graph import LEFT_OUT, graph_of


def by_the_formula(z: np.ndarray, y: np.ndarray, a: np.ndarray, alpha: float) -> np.ndarray:
    """G = Σ α^t S^t E_L, G[i, l] *= √(deg_l / deg_i), F = G[:, A] Y[A], in float64."""
    distances, near = NearestNeighbors(n_neighbors=9).fit(z).kneighbors(z)
    sigma = distances[:, -1]
    w = np.zeros((len(z), len(z)))
    for i in range(len(z)):
        for d, j in zip(distances[i, 1:], near[i, 1:], strict=True):
            w[i, j] = max(np.exp(-(d**2) / (sigma[i] * sigma[j])), 1e-6)
    w = np.maximum(w, w.T)
    degree = w.sum(1)
    s = w / np.sqrt(np.outer(degree, degree))
    g, power, step = np.eye(len(z)), np.eye(len(z)), 0
    while alpha**step > LEFT_OUT:
        step += 1
        power = s @ power
        g = g + alpha**step * power
    g = g * np.sqrt(degree[None, :] / degree[:, None])
    return g[:, a] @ np.eye(y.max() + 1)[y[a]]


@pytest.mark.parametrize("alpha", [0.5, 0.95])
def test_out_of_fold_is_the_formula(blobs: Callable, alpha: float) -> None:
    rows = blobs()
    found = out_of_fold(Graph(alpha, 0.1), rows.x_l, rows.y_l, rows.x_u, rows.folds, 3)
    space = graph_of(rows.x_l, rows.x_u).space
    z = torch.cat([space(rows.x_l), space(rows.x_u)]).double().numpy()
    y = rows.y_l.numpy()
    for fold in range(5):
        held = (rows.folds == fold).numpy()
        a = np.flatnonzero(~held)
        f = by_the_formula(z, y, a, alpha)
        unseen = np.setdiff1d(np.arange(len(z)), a)
        m = torch.from_numpy(f[unseen].sum(1)).median().item()
        prior = (np.bincount(y[a], minlength=3) + 1) / (len(a) + 3)
        p = (f + 0.1 * m * prior) / (f.sum(1, keepdims=True) + 0.1 * m)
        assert found[rows.folds == fold].exp().numpy() == pytest.approx(p[: len(y)][held], abs=2e-4)


def test_a_new_row_is_one_more_unlabelled_row(blobs: Callable) -> None:
    rows = blobs(n_u=300)
    graph = Graph(0.8, 1.0).fit(rows.x_l, rows.y_l, rows.x_u, 3)
    edges = graph.shared.of(rows.x_l, rows.x_u)
    z = edges.space(rows.x_new[:1]).double().numpy()
    nodes = edges.index.rows.double().numpy()
    squares = ((nodes - z) ** 2).sum(1)
    near = np.argsort(squares)[:8]
    own = np.sqrt(squares[near[-1]])
    w = np.exp(-squares[near] / (own * edges.sigma.numpy()[near]))
    mass = 0.8 * (w[:, None] * graph._memory.mass.numpy()[near]).sum(0) / w.sum()
    prior, weight = graph._memory.prior.numpy(), graph._memory.median
    expected = (mass + weight * prior) / (mass.sum() + weight)
    assert graph.predict_log_proba(rows.x_new[:1])[0].exp().numpy() == pytest.approx(
        expected, rel=1e-4
    )


def test_the_order_of_rows_does_not_matter(blobs: Callable) -> None:
    rows = blobs()
    turn = torch.randperm(len(rows.x_u), generator=torch.Generator().manual_seed(0))
    one, two = (
        Graph().fit(rows.x_l, rows.y_l, x_u, 3).predict_log_proba(rows.x_new)
        for x_u in (rows.x_u, rows.x_u[turn])
    )
    assert one.numpy() == pytest.approx(two.numpy(), abs=1e-4)


def test_unlabelled_rows_show_the_moons() -> None:
    x, y = make_moons(600, noise=0.07, random_state=0)
    x, y = torch.from_numpy(x).float(), torch.from_numpy(y)
    few = torch.cat([(y == k).nonzero().flatten()[:3] for k in (0, 1)])
    accuracy = {}
    for name, x_u in (("with", x), ("without", x[:0])):
        graph = Graph(0.95, 0.1).fit(x[few], y[few], x_u, 2)
        accuracy[name] = float((graph.predict_log_proba(x).argmax(1) == y).float().mean())
    assert accuracy["with"] > 0.97
    assert accuracy["with"] > accuracy["without"] + 0.05


def test_copies_of_all_rows_change_nothing(blobs: Callable) -> None:
    rows = blobs()
    twice = [part.repeat(2, *[1] * (part.ndim - 1)) for part in (rows.x_l, rows.y_l, rows.x_u)]
    one = Graph().fit(rows.x_l, rows.y_l, rows.x_u, 3).predict_log_proba(rows.x_new)
    two = Graph().fit(*twice, 3).predict_log_proba(rows.x_new)
    assert one.exp().numpy() == pytest.approx(two.exp().numpy(), abs=0.02)


def test_a_class_without_mass_keeps_its_share(blobs: Callable) -> None:
    rows = blobs()
    log_p = Graph().fit(rows.x_l, rows.y_l, rows.x_u, 4).predict_log_proba(rows.x_new)
    assert torch.isfinite(log_p).all()
    assert log_p.exp().sum(1).numpy() == pytest.approx(1)


def test_rows_that_are_all_equal_are_no_trouble() -> None:
    x = torch.ones(12, 2)
    y = torch.arange(12) % 2
    graph = Graph().fit(x, y, x, 2)
    assert graph.predict_log_proba(x[:1]).exp()[0].tolist() == pytest.approx([0.5, 0.5])
    assert torch.isfinite(out_of_fold(Graph(), x, y, x, torch.arange(12) // 3, 2)).all()


def test_labels_that_are_held_count_as_unlabelled_rows(blobs: Callable) -> None:
    rows = blobs()
    held = rows.folds == 0
    found = Graph().fit(rows.x_l, rows.y_l, rows.x_u, 3, held=held)
    others = torch.cat([rows.x_l[held], rows.x_u])
    expected = Graph().fit(rows.x_l[~held], rows.y_l[~held], others, 3)
    new = rows.x_u + 0.1
    torch.testing.assert_close(
        found.predict_log_proba(new), expected.predict_log_proba(new), rtol=0, atol=1e-4
    )
