import json
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.special import softmax
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture

from dessl.teachers import Gaussians, Linear, State
from dessl.teachers import gaussians as module
from dessl.teachers.rows import SomeRows


def by_the_book(z: np.ndarray, share: np.ndarray, new: np.ndarray, *, diagonal: bool) -> np.ndarray:
    """Log-probabilities of new rows from rows with given class shares (n, p), row by row."""
    counts = share.sum(0)
    overall = sum(w.sum() * row for w, row in zip(share, z, strict=True)) / counts.sum()
    means = [
        (sum(w[k] * row for w, row in zip(share, z, strict=True)) + overall) / (counts[k] + 1)
        for k in range(len(counts))
    ]
    within = sum(
        w[k] * np.outer(row - means[k], row - means[k])
        for w, row in zip(share, z, strict=True)
        for k in range(len(counts))
    )
    if diagonal:
        within = np.diag(np.diag(within))
    d = z.shape[1]
    shape = (within + np.trace(within) / counts.sum() * np.eye(d)) / (counts.sum() + d)
    prior = (counts + 1) / (counts + 1).sum()
    density = [multivariate_normal(mean, shape).logpdf(new) for mean in means]
    p = softmax(np.stack(density, 1) + np.log(prior), axis=1)
    return np.log(0.999 * p + 0.001 / len(counts))


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_labelled_rows_alone_give_discriminant_analysis(blobs: Callable, covariance: str) -> None:
    rows = blobs()
    clouds = Gaussians(covariance).fit(rows.x_l, rows.y_l, rows.x_u[:0], 3)
    z, new = (clouds._space(x).double().numpy() for x in (rows.x_l, rows.x_new))
    share = np.eye(3)[rows.y_l.numpy()]
    expected = by_the_book(z, share, new, diagonal=covariance == "diagonal")
    found = clouds.predict_log_proba(rows.x_new).numpy()
    assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
@pytest.mark.parametrize("mass", [1.0, math.inf])
def test_the_result_is_a_fixed_point_of_em(
    blobs: Callable, covariance: str, mass: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STILL", 1e-9)
    monkeypatch.setattr(module, "MOST_STEPS", 2000)
    rows = blobs()
    clouds = Gaussians(covariance, mass).fit(rows.x_l, rows.y_l, rows.x_u, 3)
    parts = (rows.x_l, rows.x_u, rows.x_new)
    z_l, z_u, new = (clouds._space(x).double().numpy() for x in parts)
    weight = min(1.0, mass * len(z_l) / len(z_u))
    posterior = (clouds.predict_log_proba(rows.x_u).exp().numpy() - 0.001 / 3) / 0.999
    share = np.concatenate([np.eye(3)[rows.y_l.numpy()], weight * posterior])
    both = np.concatenate([z_l, z_u])
    expected = by_the_book(both, share, new, diagonal=covariance == "diagonal")
    assert clouds.predict_log_proba(rows.x_new).numpy() == pytest.approx(expected, abs=1e-6)


def test_with_many_rows_it_is_scikit_learns_mixture(blobs: Callable) -> None:
    rows = blobs(n_l=6, n_u=6000, noise=0.8)
    clouds = Gaussians("full").fit(rows.x_l, rows.y_l, rows.x_u, 3)
    z_u, new = (clouds._space(x).double().numpy() for x in (rows.x_u, rows.x_new))
    z_l = clouds._space(rows.x_l).double().numpy()
    start = np.stack([z_l[rows.y_l.numpy() == k].mean(0) for k in range(3)])
    mixture = GaussianMixture(3, covariance_type="tied", means_init=start).fit(z_u)
    found = clouds.predict_log_proba(rows.x_new).exp().numpy()
    assert found == pytest.approx(mixture.predict_proba(new), abs=0.02)


def test_unlabelled_rows_help_where_classes_are_clouds(blobs: Callable) -> None:
    rows = blobs(n_l=6, n_u=600)

    def loss(teacher: Gaussians | Linear) -> float:
        log_p = teacher.predict_log_proba(rows.x_new)
        return float(-log_p[torch.arange(len(log_p)), rows.y_new].mean())

    with_them = loss(Gaussians().fit(rows.x_l, rows.y_l, rows.x_u, 3))
    without = loss(Gaussians().fit(rows.x_l, rows.y_l, rows.x_u[:0], 3))
    assert with_them < 0.8 * without
    assert with_them < 0.8 * loss(Linear().fit(rows.x_l, rows.y_l, rows.x_u, 3))


def test_unlabelled_rows_without_mass_change_nothing_but_the_space(blobs: Callable) -> None:
    rows = blobs()
    one = Gaussians(mass=0.0).fit(rows.x_l, rows.y_l, rows.x_u, 3)
    other = Gaussians(mass=0.0, space=one._space).fit(rows.x_l, rows.y_l, rows.x_u[:0], 3)
    assert torch.equal(one.predict_log_proba(rows.x_new), other.predict_log_proba(rows.x_new))


def test_of_very_many_rows_some_are_used(blobs: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_UNLABELLED", 50)
    rows = blobs()
    few = Gaussians().fit(rows.x_l, rows.y_l, rows.x_u[::3], 3)
    many = Gaussians().fit(rows.x_l, rows.y_l, rows.x_u, 3)
    assert torch.equal(few.predict_log_proba(rows.x_new), many.predict_log_proba(rows.x_new))


def test_rows_that_are_not_gathered_give_the_same(blobs: Callable) -> None:
    rows = blobs()
    some = SomeRows(rows.x_u, torch.arange(len(rows.x_u)), lambda x: x)
    arguments = (rows.x_l, rows.y_l)
    one = Gaussians().out_of_fold(*arguments, some, rows.folds, 3)
    assert torch.equal(one, Gaussians().out_of_fold(*arguments, rows.x_u, rows.folds, 3))


def test_folds_together_are_folds_apart(blobs: Callable) -> None:
    rows = blobs()
    shared = Gaussians().fit(rows.x_l, rows.y_l, rows.x_u, 3)._space
    together = Gaussians(space=shared).out_of_fold(rows.x_l, rows.y_l, rows.x_u, rows.folds, 3)
    held = rows.folds == 1
    unlabelled = torch.cat([rows.x_u, rows.x_l[held]])
    apart = Gaussians(space=shared).fit(rows.x_l[~held], rows.y_l[~held], unlabelled, 3)
    assert torch.equal(together[held], apart.predict_log_proba(rows.x_l[held]))


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_equal_rows_and_one_class_are_no_trouble(covariance: str) -> None:
    x, y = torch.ones(8, 2), torch.arange(8) % 2
    assert torch.isfinite(Gaussians(covariance).fit(x, y, x, 2).predict_log_proba(x)).all()
    alone = Gaussians(covariance).fit(x, torch.zeros(8).long(), x, 3).predict_log_proba(x)
    assert alone.exp().sum(1).numpy() == pytest.approx(1)
    assert bool((alone.argmax(1) == 0).all())


def test_clouds_that_are_too_narrow_give_no_extreme_odds() -> None:
    x = torch.cat([torch.zeros(50, 1), torch.ones(50, 1)])
    clouds = Gaussians().fit(x[[0, 99]], torch.tensor([0, 1]), x, 2)
    z = clouds._space(x).double()
    odds = z @ clouds._weights[:-1] + clouds._weights[-1]
    assert float((odds[:, 0] - odds[:, 1]).abs().min()) > 50
    p = clouds.predict_log_proba(x).exp()
    assert p.amin(1).numpy() == pytest.approx(0.0005, rel=1e-6)


@pytest.mark.parametrize("mass", [1.0, math.inf])
def test_it_is_saved_to_the_last_digit(blobs: Callable, mass: float) -> None:
    rows = blobs()
    clouds = Gaussians("diagonal", mass).fit(rows.x_l, rows.y_l, rows.x_u, 3)
    saved = clouds.state()
    settings = json.loads(json.dumps(saved.settings, allow_nan=False))
    again = Gaussians.from_state(State(saved.tensors, settings))
    assert again.name == clouds.name
    assert torch.equal(again.predict_log_proba(rows.x_new), clouds.predict_log_proba(rows.x_new))
