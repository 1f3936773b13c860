"""Kernel: logistic regression on Gaussian similarities, trained on labelled rows only.

k(z, z') = exp(−|z − z'|² / 2h²), h the median distance between labelled rows times a width. With
K = U Λ Uᵀ on (at most 500 of) them, rows become k(z, ·) U Λ^−½, and a logistic regression follows:
the most probable Gaussian process, up to its rank.
"""

from typing import Self

import torch
from torch import Tensor

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
from dessl.teachers.linear import linear_log_proba, logistic_weights
from dessl.teachers.space import Space

STRENGTH = 10.0
KERNELS = ((0.5, STRENGTH), (1.0, STRENGTH), (0.5, 100.0))  # width and strength
LANDMARKS = 500
ROWS_AT_ONCE = 4096  # rows predicted at once
LEAST_EIGENVALUE = 1e-6  # relative to the largest: anything below is rounding
LEAST_DISTANCE = 1e-6  # relative to the longest row: copies are apart by rounding


class Kernel:
    """Logistic regression with a Gaussian kernel, in a space learnt from all rows.

    Args:
        width: Width of the kernel, in median distances between labelled rows.
        strength: C; larger values fit the labels more closely.
        space: The space in which similarities are measured; by default learnt from the rows of
            ``fit``.

    >>> x = torch.tensor([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]])
    >>> kernel = Kernel(0.5).fit(x, torch.tensor([0, 0, 1, 1, 0, 0]), x[:0], 2)
    >>> kernel.predict_log_proba(torch.tensor([[0.5], [2.5], [4.5]])).argmax(1).tolist()
    [0, 1, 0]
    """

    uses_unlabelled = False

    def __init__(
        self, width: float = 1.0, strength: float = STRENGTH, *, space: Space | None = None
    ) -> None:
        self.width = _checks.number("width", width, low=0, open_low=True)
        self.strength = _checks.number("strength", strength, low=0, open_low=True)
        self.name = f"kernel h={width:g}" + ("" if strength == STRENGTH else f" C={strength:g}")
        self._given = space
        self._space: Space | None = None

    @property
    def ignores_x_u(self) -> bool:
        """Whether unlabelled rows are ignored, even for the space."""
        return self._given is not None

    def fit(
        self, x_l: Tensor, y_l: Tensor, x_u: Tensor, n_classes: int, weights: Tensor | None = None
    ) -> Self:
        """Fit on labelled rows, in the space of all rows."""
        rows = checked_rows(x_l, y_l, x_u, n_classes, weights)
        self._space = self._given or Space.of(rows.x_l, rows.x_u)
        z = self._space(rows.x_l).double()
        self._landmarks = z[:: -(-len(z) // LANDMARKS)].contiguous()
        self._bandwidth = self.width * _median_distance(self._landmarks)
        # U Λ^−½ of the kernel matrix, without directions that are only rounding.
        values, vectors = torch.linalg.eigh(self._similarities(self._landmarks))
        kept = values > LEAST_EIGENVALUE * values.max()
        self._basis: Tensor = (vectors[:, kept] / values[kept].sqrt()).contiguous()
        features = self._similarities(z) @ self._basis
        self._weights = logistic_weights(features, rows.y_l, self.strength, rows.weights)
        self._classes = Classes.of(rows.y_l, n_classes, rows.weights)
        return self

    def predict_log_proba(self, x: Tensor) -> Tensor:
        """Return log-probabilities (n, n_classes)."""
        if self._space is None:
            raise not_fitted(self)
        blocks = torch.split(self._space(checked_columns("x", x)), ROWS_AT_ONCE)
        features = (self._similarities(z.double()) @ self._basis for z in blocks)
        found = [linear_log_proba(block, self._weights, self._classes) for block in features]
        return torch.cat(found)

    def state(self) -> State:
        """Return the space, the landmarks and the weights."""
        if self._space is None:
            raise not_fitted(self)
        tensors = under("space", self._space) | under("classes", self._classes)
        tensors |= {"landmarks": self._landmarks, "basis": self._basis, "weights": self._weights}
        own = {"width": self.width, "strength": self.strength, "bandwidth": self._bandwidth}
        return State(tensors, own)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild a fitted kernel regression."""
        tensors, settings = state
        new = cls(float(settings["width"]), float(settings["strength"]))
        new._space = taken_from(tensors, "space", Space)
        new._classes = taken_from(tensors, "classes", Classes)
        new._landmarks, new._basis, new._weights = (
            tensors[name] for name in ("landmarks", "basis", "weights")
        )
        new._bandwidth = float(settings["bandwidth"])
        return new

    def _similarities(self, z: Tensor) -> Tensor:
        """Return k(z, landmark), (n, landmarks)."""
        distances = torch.cdist(z, self._landmarks) / self._bandwidth
        return (-distances.square() / 2).exp()


def _median_distance(z: Tensor) -> float:
    """The median distance between rows (n, d) that differ; 1 if all are equal."""
    distances = torch.cdist(z, z)
    apart = distances[distances > 0]
    least = LEAST_DISTANCE * z.norm(dim=1).max()
    if len(apart) and bool(apart.median() <= least):  # most rows are copies
        apart = distances[distances > least]
    return float(apart.median()) if len(apart) else 1.0
