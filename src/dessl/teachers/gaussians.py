"""Gaussians: one cloud for each class, all of one shape, fitted to labelled and unlabelled rows.

    p(z | k) = N(z; μ_k, Σ),   log p(k | z) = z Σ⁻¹ μ_k − ½ μ_kᵀ Σ⁻¹ μ_k + log π_k + const.

EM maximises Σ_L log π_y p(z | y) + ω Σ_U log Σ_k π_k p(z | k), with labelled rows fixed to their
class. Each mean has one pseudo-row at the mean of all rows, Σ has d at its own average variance,
and each class has one pseudo-label. Without unlabelled rows this is linear discriminant analysis.
A thousandth of each prediction is spread over the classes: clouds that EM made too narrow would
otherwise give odds that no small weight in a pool makes harmless.
"""

import math
from typing import Literal, NamedTuple, Self

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from dessl import _checks
from dessl.teachers.base import (
    Classes,
    State,
    checked_columns,
    checked_rows,
    not_fitted,
    taken_from,
    under,
)
from dessl.teachers.rows import SomeRows
from dessl.teachers.space import Space

Covariance = Literal["full", "diagonal"]
COVARIANCES: tuple[Covariance, ...] = ("full", "diagonal")
MASSES = (1.0, math.inf)
MOST_UNLABELLED = 20_000  # rows used: enough for the moments of at most 64 columns
MOST_STEPS = 30
STILL = 1e-4  # means that move less, in standard deviations, have converged
LEAST_VARIANCE = 1e-9
SPREAD = 1e-3  # share of a prediction that is spread over the classes


class Gaussians:
    """Discriminant analysis whose means and covariance also use the unlabelled rows.

    Args:
        covariance: ``"full"``, or ``"diagonal"`` for columns that are independent within a class.
        mass: What all unlabelled rows together may weigh, in units of the labelled ones; a single
            unlabelled row never weighs more than a labelled one.
        space: The space of the columns; by default learnt from the rows of ``fit``.

    >>> x = torch.tensor([[0.0], [0.1], [0.9], [4.0], [4.1], [4.9]])
    >>> clouds = Gaussians().fit(x[[0, 3]], torch.tensor([0, 1]), x, 2)
    >>> clouds.predict_log_proba(torch.tensor([[2.0], [3.0]])).argmax(1).tolist()
    [0, 1]
    """

    uses_unlabelled = True
    takes_some_rows = True

    def __init__(
        self,
        covariance: Covariance = "full",
        mass: float = math.inf,
        *,
        space: Space | None = None,
    ) -> None:
        _checks.one_of("covariance", covariance, COVARIANCES)
        self.covariance: Covariance = covariance
        self.mass = _checks.number("mass", mass, low=0)
        self.name = f"gaussians {covariance}" + ("" if math.isinf(mass) else f" mass={mass:g}")
        self._given = space
        self._space: Space | None = None

    def fit(
        self,
        x_l: Tensor,
        y_l: Tensor,
        x_u: Tensor | SomeRows,
        n_classes: int,
        weights: Tensor | None = None,
    ) -> Self:
        """Fit to labelled rows and at most 20,000 unlabelled ones, evenly spaced."""
        rows = checked_rows(x_l, y_l, _some(x_u), n_classes, weights)
        self._space = self._given or Space.of(rows.x_l, rows.x_u)
        z_l, z_u = (self._space(part).double() for part in (rows.x_l, rows.x_u))
        self._classes = Classes.of(rows.y_l, n_classes, rows.weights)
        self._weights = self._fitted(z_l, rows.y_l, z_u, rows.weights)
        return self

    def out_of_fold(
        self,
        x_l: Tensor,
        y_l: Tensor,
        x_u: Tensor | SomeRows,
        folds: Tensor,
        n_classes: int,
        weights: Tensor | None = None,
    ) -> Tensor:
        """Return log-probabilities (n_l, n_classes): each row from the labels outside its fold.

        All folds share one projection of the rows. A held-out row counts as unlabelled.
        """
        rows = checked_rows(x_l, y_l, _some(x_u), n_classes, weights)
        space = self._given or Space.of(rows.x_l, rows.x_u)
        z_l, z_u = (space(part).double() for part in (rows.x_l, rows.x_u))
        found = torch.full((len(z_l), n_classes), torch.nan, dtype=torch.float64)
        for fold in torch.unique(folds[folds >= 0]).tolist():
            held = folds == fold
            y, unlabelled = rows.y_l[~held], torch.cat([z_u, z_l[held]])
            counts = rows.weights_of(~held)
            slopes = self._fitted(z_l[~held], y, unlabelled, counts)
            found[held] = _log_proba(z_l[held], slopes, Classes.of(y, n_classes, counts))
        return found

    def predict_log_proba(self, x: Tensor) -> Tensor:
        """Return log-probabilities (n, n_classes)."""
        if self._space is None:
            raise not_fitted(self)
        z = self._space(checked_columns("x", x)).double()
        return _log_proba(z, self._weights, self._classes)

    def state(self) -> State:
        """Return the space and the weights."""
        if self._space is None:
            raise not_fitted(self)
        tensors = under("space", self._space) | under("classes", self._classes)
        mass = None if math.isinf(self.mass) else self.mass
        return State(
            tensors | {"weights": self._weights}, {"covariance": self.covariance, "mass": mass}
        )

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild fitted clouds."""
        mass = state.settings["mass"]
        new = cls(state.settings["covariance"], math.inf if mass is None else float(mass))
        new._space = taken_from(state.tensors, "space", Space)
        new._classes = taken_from(state.tensors, "classes", Classes)
        new._weights = state.tensors["weights"]
        return new

    def _fitted(self, z_l: Tensor, y: Tensor, z_u: Tensor, weights: Tensor | None) -> Tensor:
        """Slopes and, in the last row, intercepts (d + 1, p) for the classes in y."""
        share = one_hot(torch.unique(y, return_inverse=True)[1]).double()
        if weights is not None:
            share = share * weights[:, None]
        weight = min(1.0, self.mass * len(z_l) / max(1, len(z_u)))
        seen = _Moments.of(z_l, share)
        clouds = _clouds(seen, self.covariance)
        if not len(z_u) or not weight:
            return clouds.weights()
        # What unlabelled rows add to the moments of z zᵀ does not depend on their classes.
        squares = seen.squares + weight * (z_u.T @ z_u)
        for _ in range(MOST_STEPS):
            w, before = clouds.weights(), clouds.means
            share = weight * (z_u @ w[:-1] + w[-1]).softmax(1)
            both = _Moments(seen.counts + share.sum(0), seen.sums + share.T @ z_u, squares)
            clouds = _clouds(both, self.covariance)
            if float((clouds.means - before).abs().max()) < STILL:
                break
        return clouds.weights()


def bounded(scores: Tensor) -> Tensor:
    """Return log-probabilities of scores (n, p), of which a thousandth is spread over the classes.

    >>> bounded(torch.tensor([[0.0, 500.0]])).exp()
    tensor([[5.0000e-04, 9.9950e-01]])
    """
    even = scores.new_tensor(SPREAD / scores.shape[-1]).log()
    return torch.logaddexp(scores.log_softmax(-1) + math.log1p(-SPREAD), even)


def _log_proba(z: Tensor, weights: Tensor, classes: Classes) -> Tensor:
    return classes.among_all(bounded(z @ weights[:-1] + weights[-1]))


class _Moments(NamedTuple):
    """Weighted counts (p,) and sums (p, d) of rows by class, and Σ z zᵀ (d, d) of all rows."""

    counts: Tensor
    sums: Tensor
    squares: Tensor

    @classmethod
    def of(cls, z: Tensor, share: Tensor) -> Self:
        return cls(share.sum(0), share.T @ z, (share.sum(1, keepdim=True) * z).T @ z)


class _Clouds(NamedTuple):
    """Means (p, d), shared covariance (d, d) and class shares (p,)."""

    means: Tensor
    covariance: Tensor
    shares: Tensor

    def weights(self) -> Tensor:
        """The log-odds as slopes and intercepts, (d + 1, p)."""
        slopes = torch.cholesky_solve(self.means.T, torch.linalg.cholesky(self.covariance))
        intercepts = self.shares.log() - (self.means.T * slopes).sum(0) / 2
        return torch.cat([slopes, intercepts[None]])


def _clouds(seen: _Moments, covariance: Covariance) -> _Clouds:
    """The parameters that maximise the likelihood of rows with these moments and pseudo-rows."""
    counts, sums, squares = seen
    total, d = counts.sum(), sums.shape[1]
    means = (sums + sums.sum(0) / total) / (counts + 1)[:, None]
    cross = sums.T @ means
    within = squares - cross - cross.T + (means.T * counts) @ means
    if covariance == "diagonal":
        within = within.diagonal().diag()
    average = (within.diagonal().mean() / total).clamp(min=LEAST_VARIANCE)
    shape = (within + d * average * torch.eye(d, dtype=within.dtype)) / (total + d)
    return _Clouds(means, shape, (counts + 1) / (counts + 1).sum())


def _some(x_u: Tensor | SomeRows) -> Tensor:
    """At most 20,000 of the unlabelled rows, evenly spaced."""
    return x_u[:: max(1, -(-len(x_u) // MOST_UNLABELLED))].cpu()
