"""Weighted labels: a label of weight 2 counts as two, in every teacher and in the pool."""

import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor

from dessl import SemiData
from dessl.teachers import Gaussians, Graph, Kernel, Linear, Sparse, Teacher, Trees, pooled
from dessl.teachers.base import checked_rows, class_prior
from dessl.teachers.boosting import LIBRARIES, Boosting, Library
from dessl.teachers.classifiers import FromClassifier
from dessl.teachers.crossfit import out_of_fold, selected_by_others
from dessl.teachers.families import check_teachers
from dessl.teachers.graph import diffused
from dessl.teachers.pool import best_of, exponent, fit_pool
from dessl.teachers.report import Gain
from dessl.teachers.space import Space

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(30, 3, generator=GENERATOR)
Y = (X[:, 0] + 0.5 * torch.randn(30, generator=GENERATOR) > 0).long()
X_U = torch.randn(50, 3, generator=GENERATOR)
TIMES = torch.arange(30) % 3 + 1
TEACHERS = {
    "linear": lambda: Linear(1.0),
    "sparse": lambda: Sparse(0.1),
    "graph": lambda: Graph(0.8, 0.1),
    "gaussians": lambda: Gaussians("full", 1.0),
    "kernel": lambda: Kernel(1.0),
    "trees": lambda: Trees(trees=30),
    "classifier": lambda: FromClassifier(LogisticRegression()),
}


def predicted(teacher: Teacher, weights: Tensor | None, rows: Tensor | None = None) -> Tensor:
    x, y = (X, Y) if rows is None else (X[rows], Y[rows])
    given = {} if weights is None else {"weights": weights}
    return teacher.fit(x, y, X_U, 2, **given).predict_log_proba(X_U)


@pytest.mark.parametrize("name", TEACHERS)
def test_equal_weights_change_nothing(name: str) -> None:
    plain = predicted(TEACHERS[name](), None)
    torch.testing.assert_close(predicted(TEACHERS[name](), torch.full((30,), 7.0)), plain)


@pytest.mark.parametrize("name", TEACHERS)
def test_heavy_labels_of_a_class_make_it_likelier(name: str) -> None:
    plain = predicted(TEACHERS[name](), None).exp()[:, 1].mean()
    heavy = predicted(TEACHERS[name](), torch.where(Y == 1, 5.0, 1.0)).exp()[:, 1].mean()
    assert heavy > plain + 0.01


def test_a_regression_counts_a_label_of_weight_two_twice() -> None:
    space = Linear(1.0).fit(X, Y, X_U, 2)._space
    # Weights are scaled to a mean of 1, so that C refers to the number of rows.
    strength = 30 / TIMES.sum().item()
    weighted = predicted(Linear(1.0, space=space), TIMES.double())
    repeated = torch.arange(30).repeat_interleave(TIMES)
    twice = Linear(strength, space=space).fit(X[repeated], Y[repeated], X_U, 2)
    torch.testing.assert_close(weighted, twice.predict_log_proba(X_U), atol=2e-4, rtol=2e-4)


def test_a_regression_is_scikit_learns() -> None:
    space = Linear(1.0).fit(X, Y, X_U, 2)._space
    weights = TIMES.double() / TIMES.double().mean()
    z = space(X).double().numpy()
    own = LogisticRegression(C=1.0, tol=1e-8).fit(z, Y.numpy(), sample_weight=weights.numpy())
    found = predicted(Linear(1.0, space=space), weights)
    expected = own.predict_log_proba(space(X_U).double().numpy())
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-3)


def test_discriminant_analysis_has_weighted_means() -> None:
    """Without unlabelled rows, against the moments computed row by row."""
    weights = TIMES.double() / TIMES.double().mean()
    clouds = Gaussians("full", 0.0).fit(X, Y, X_U[:0], 2, weights=weights)
    z = clouds._space(X).double()
    counts = torch.stack([weights[k == Y].sum() for k in (0, 1)])
    sums = torch.stack([(weights[:, None] * z)[k == Y].sum(0) for k in (0, 1)])
    total = counts.sum()
    means = (sums + sums.sum(0) / total) / (counts + 1)[:, None]
    within = sum(
        weights[i] * torch.outer(z[i] - means[Y[i]], z[i] - means[Y[i]]) for i in range(30)
    )
    average = within.diagonal().mean() / total
    shape = (within + 3 * average * torch.eye(3).double()) / (total + 3)
    slopes = torch.linalg.solve(shape, means.T)
    intercepts = ((counts + 1) / (counts + 1).sum()).log() - (means.T * slopes).sum(0) / 2
    torch.testing.assert_close(clouds._weights, torch.cat([slopes, intercepts[None]]))


def test_a_graph_diffuses_weighted_labels() -> None:
    """F is linear in the labels: the mass of weighted ones is a sum over single labels."""
    weights = TIMES.double() / TIMES.double().mean()
    graph = Graph(0.8, 0.1).fit(X, Y, X_U, 2, weights=weights)
    each = diffused(graph.shared.of(X, X_U), torch.eye(30), [0.8])[0]  # of every label alone
    mass = torch.stack([(weights * each)[:, k == Y].sum(1) for k in (0, 1)], 1)
    torch.testing.assert_close(graph._memory.mass, mass.float())
    expected = class_prior(Y, 2, weights)
    torch.testing.assert_close(graph._memory.prior, expected)
    counts = torch.stack([weights[k == Y].sum() for k in (0, 1)])
    torch.testing.assert_close(expected, (counts + 1) / 32)


@pytest.mark.parametrize("library", LIBRARIES)
def test_boosting_weights_labels(library: Library) -> None:
    pytest.importorskip(library)
    boosting = Boosting(library=library)
    plain = predicted(boosting, None)
    torch.testing.assert_close(predicted(boosting, torch.full((30,), 3.0)), plain)
    assert not torch.equal(predicted(boosting, torch.where(Y == 1, 5.0, 1.0)), plain)


@pytest.mark.parametrize("name", TEACHERS)
def test_folds_take_the_weights_of_their_labels(name: str) -> None:
    folds, weights = torch.arange(30) % 3, torch.where(Y == 1, 5.0, 1.0)
    found = out_of_fold(TEACHERS[name](), X, Y, X_U, folds, 2, weights)
    for fold in range(3):
        rows = folds != fold
        # As one fit without the fold, whose rows stay among the unlabelled ones.
        own = TEACHERS[name]().fit(X[rows], Y[rows], torch.cat([X_U, X[~rows]]), 2,
                                   weights=weights[rows])  # fmt: skip
        difference = (own.predict_log_proba(X[~rows]).exp() - found[~rows].exp()).abs().max()
        assert difference < (0.2 if name == "graph" else 0.02)


def test_folds_together_are_folds_apart_with_weights_too() -> None:
    """The weights of a fold's labels are scaled to a mean of 1, as in a fit to them alone."""
    folds, weights, space = torch.arange(30) % 3, 1.0 + 9 * (torch.arange(30) % 3), Space.of(X, X_U)
    found = Gaussians(space=space).out_of_fold(X, Y, X_U, folds, 2, weights)
    for fold in range(3):
        own, others = folds != fold, torch.cat([X_U, X[folds == fold]])
        alone = Gaussians(space=space).fit(X[own], Y[own], others, 2, weights[own])
        torch.testing.assert_close(found[~own], alone.predict_log_proba(X[~own]))


@pytest.mark.parametrize(
    "weights", [torch.ones(29), torch.zeros(30), torch.full((30,), math.nan), -torch.ones(30)]
)
def test_bad_weights_are_refused(weights: Tensor) -> None:
    with pytest.raises(ValueError, match=r"weights must be 30 positive numbers|finite"):
        checked_rows(X, Y, None, 2, weights)


LOG_P = {
    "cc": torch.randn(30, 2, generator=GENERATOR).double().log_softmax(1),
    "a": torch.stack([-X[:, 0], X[:, 0]], 1).double().log_softmax(1),
}
REPEATED = torch.arange(30).repeat_interleave(TIMES)


class TestPool:
    """A row of weight k counts as k rows."""

    def test_weights_and_exponents(self) -> None:
        twice = {name: log_p[REPEATED] for name, log_p in LOG_P.items()}
        expected = fit_pool(twice, Y[REPEATED], n=30)
        found = fit_pool(LOG_P, Y, n=30, weights=TIMES.double())
        assert found.weights == pytest.approx(expected.weights, abs=1e-5)
        assert found.exponents == pytest.approx(expected.exponents, abs=1e-8)

    def test_the_best_candidate(self) -> None:
        right = LOG_P["a"].argmax(1) == Y
        family = {"a": LOG_P["a"], "flat": torch.full((30, 2), 0.5).double().log()}
        assert best_of(family, Y, 30) == "a"
        assert best_of(family, Y, 30, torch.where(right, 0.001, 1.0)) == "flat"
        assert exponent(family["a"], Y, 3000, torch.where(right, 0.001, 1.0)) < 0.2

    def test_gains(self) -> None:
        before, after = torch.rand(30), torch.rand(30)
        found = Gain.of(before, after, weights=TIMES.double())
        copies = torch.arange(30)[REPEATED]
        expected = Gain.of(before[REPEATED], after[REPEATED], copies)
        assert found.mean == pytest.approx(expected.mean)
        assert found.standard_error == pytest.approx(expected.standard_error)

    def test_the_step_of_a_network(self) -> None:
        logits = torch.tensor([[[2.0, 0.0]] * 4, [[0.0, 2.0]] * 4])
        y = torch.tensor([0, 0, 0, 1])
        counts = torch.tensor([1.0, 1.0, 1.0, 9.0])
        assert selected_by_others(logits, y).argmax(1).tolist()[0] == 0
        assert selected_by_others(logits, y, weights=counts).argmax(1).tolist()[0] == 1


def test_a_pool_of_labels_drawn_by_class_recovers_the_shares() -> None:
    """Class 1 is labelled five times as often; weighted, the pool predicts its true share."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=1500)
    x = rng.normal(size=(1500, 2)) + 1.0 * y[:, None]
    pi = np.where(y == 1, 0.25, 0.05)
    codes = np.where(rng.random(1500) < pi, y, -1)
    shares = []
    for propensity in (None, pi):
        data = SemiData(torch.from_numpy(x).float(), torch.from_numpy(codes), propensity=propensity)
        n = data.n_labelled
        flat = torch.full((n, 2), 0.5).double().log()
        pool = pooled(data, torch.arange(n) % 5, flat, lambda x: torch.zeros(len(x), 2))
        shares.append(float(pool.predict_log_proba(data.x).exp()[:, 1].mean()))
    assert shares[0] > 0.65
    assert abs(shares[1] - y.mean()) < 0.1


def test_a_classifier_without_weights_is_refused_with_propensities() -> None:
    check_teachers(["graph", LogisticRegression(), Linear()], propensity=True)
    with pytest.raises(ValueError, match="'KNeighborsClassifier' accepts no weights"):
        check_teachers([KNeighborsClassifier()], propensity=True)
    check_teachers([KNeighborsClassifier()])
