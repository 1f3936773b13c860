"""Linear: multinomial logistic regression on the columns of a Space; trained on labelled rows only.

    min  C Σ CE(softmax(z B + b), y) + ½ |B|²

z are the coordinates of the space: of many columns, their principal components. Or they are all
columns, scaled: more to learn, but nothing is left out.
"""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot, softplus

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
from dessl.teachers.space import Space
from dessl.training.threads import one_thread

STRENGTHS = (0.03, 1.0)
WHOLE_STRENGTHS = (3.0, 30.0)  # on all columns
LEAST_PENALTY = 1e-9  # relative to the largest curvature, for equal columns


class Linear:
    """Logistic regression in a space learnt from all rows.

    Args:
        strength: C; larger values fit the labels more closely.
        space: The space of the columns; by default learnt from the rows of ``fit``.
        whole: Whether to use all columns instead of the space's principal components. The strength
            is then divided by the mean of |z|² over labelled rows, so that it means the same for
            any number of columns.

    >>> x = torch.tensor([[0.0], [1.0], [2.0], [3.0]])
    >>> linear = Linear(1.0).fit(x, torch.tensor([0, 0, 1, 1]), x[:0], 2)
    >>> linear.predict_log_proba(torch.tensor([[-1.0], [4.0]])).argmax(1).tolist()
    [0, 1]
    """

    uses_unlabelled = False

    def __init__(
        self, strength: float = 1.0, *, space: Space | None = None, whole: bool = False
    ) -> None:
        self.strength = _checks.number("strength", strength, low=0, open_low=True)
        self.whole = _checks.true_or_false("whole", whole)
        self.name = f"linear{', all columns' * whole} C={strength:g}"
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
        space = self._given or Space.of(rows.x_l, rows.x_u)
        self._space = space.of_columns() if self.whole else space
        z = self._space(rows.x_l).double()
        strength = self.strength
        if self.whole:
            strength /= max(float(z.square().sum(1).mean()), LEAST_PENALTY)
        self._weights = logistic_weights(z, rows.y_l, strength, rows.weights)
        self._classes = Classes.of(rows.y_l, n_classes, rows.weights)
        return self

    def predict_log_proba(self, x: Tensor) -> Tensor:
        """Return log-probabilities (n, n_classes)."""
        if self._space is None:
            raise not_fitted(self)
        z = self._space(checked_columns("x", x)).double()
        return linear_log_proba(z, self._weights, self._classes)

    def state(self) -> State:
        """Return the space and the weights."""
        if self._space is None:
            raise not_fitted(self)
        tensors = under("space", self._space) | under("classes", self._classes)
        settings = {"strength": self.strength, "whole": self.whole}
        return State(tensors | {"weights": self._weights}, settings)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild a fitted regression."""
        new = cls(float(state.settings["strength"]), whole=bool(state.settings.get("whole")))
        new._space = taken_from(state.tensors, "space", Space)
        new._classes = taken_from(state.tensors, "classes", Classes)
        new._weights = state.tensors["weights"]
        return new


def logistic_weights(
    z: Tensor, y: Tensor, strength: float, weights: Tensor | None = None
) -> Tensor:
    """Return slopes and, in the last row, intercepts (d + 1, p) of logistic regression.

    There is one column for each class in y; with only one class, all are 0.

    With A = (z, 1), c the largest curvature of the loss in a score (½, or ¼ of two classes) and
    RRᵀ = c AᵀA + I/C (no penalty in the intercept's place), the weights are sought as R^−ᵀ b: there
    the curvature is at most 1, and with the scores S = A R^−ᵀ b the penalty is |b|² − c |S|².
    With more columns than rows, z = KQᵀ with orthonormal Q (d, n): the slopes lie in its span, and
    are those of K times Q.

    Args:
        z: float64 (n, d).
        y: (n,) class numbers.
        strength: C.
        weights: (n,) how much each row's loss counts; AᵀA above is then AᵀWA, and |S|² is SᵀWS.
    """
    if z.shape[1] > len(z):
        span, turned = torch.linalg.qr(z.T)
        found = logistic_weights(turned.T.contiguous(), y, strength, weights)
        return torch.cat([span @ found[:-1], found[-1:]])
    return for_classes(y, z.shape[1], lambda target: _least_loss(z, target, strength, weights))


def for_classes(y: Tensor, columns: int, solve: Callable[[Tensor], Tensor]) -> Tensor:
    """Return weights (columns + 1, p), one column for each class in y; all 0 if there is only one.

    Args:
        y: (n,) class numbers.
        columns: Number of slopes.
        solve: Maps targets (n, k) to weights (columns + 1, k). The targets are one-hot classes, or
            of two classes the second column alone.

    >>> for_classes(torch.tensor([0, 2, 2]), 1, lambda target: 4 * target[1:]).tolist()
    [[-2.0, 2.0], [-2.0, 2.0]]
    """
    present, number = torch.unique(y, return_inverse=True)
    if len(present) < 2:
        return torch.zeros(columns + 1, len(present), dtype=torch.float64)
    with one_thread():  # for matrices this small, a second thread only waits
        if len(present) > 2:
            return solve(one_hot(number).double())
        # Two classes have one column, for the second class: each gets half of it.
        second = solve(number[:, None].double())
        return torch.cat([-second / 2, second / 2], 1)


def _least_loss(z: Tensor, target: Tensor, strength: float, weights: Tensor | None) -> Tensor:
    """Weights (d + 1, k) for targets (n, k): shares of all classes, or of the second of two."""
    from scipy.optimize import minimize

    k = target.shape[1]
    curvature = 0.25 if k == 1 else 0.5
    rows = torch.cat([z, torch.ones_like(z[:, :1])], 1)
    each = torch.ones_like(rows[:, :1]) if weights is None else weights[:, None]
    gram = curvature * (rows.T @ (rows if weights is None else each * rows))
    least = LEAST_PENALTY * gram.diagonal().max()
    penalty = torch.full_like(gram[0], 1 / strength).clamp(min=least)
    penalty[-1] = least
    root = torch.linalg.cholesky(gram + penalty.diag())
    flat = torch.linalg.solve_triangular(root, rows.T, upper=False)
    rows = flat.T.contiguous()

    def value_and_gradient(entries: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        b = torch.from_numpy(entries).view(-1, k)
        scores = rows @ b
        if k == 1:
            p = scores.sigmoid()
            loss = (each * softplus(scores)).sum() - (each * target * scores).sum()
        else:
            log_p = scores.log_softmax(1)
            p, loss = log_p.exp(), -(each * target * log_p).sum()
        value = loss + (b.square().sum() - curvature * (each * scores.square()).sum()) / 2
        gradient = flat @ (each * (p - target - curvature * scores)) + b
        return float(value), gradient.flatten().numpy()

    options: Any = {"maxiter": 300, "gtol": 1e-4, "ftol": 1e-12, "maxcor": 20}
    start = np.zeros(rows.shape[1] * k)
    found = minimize(value_and_gradient, start, jac=True, method="L-BFGS-B", options=options)
    slopes: Tensor = torch.linalg.solve_triangular(
        root.T, torch.from_numpy(found.x).view(-1, k), upper=True
    )
    return slopes.contiguous()


def linear_log_proba(z: Tensor, weights: Tensor, classes: Classes) -> Tensor:
    """Return log-probabilities (n, n_classes) of rows (n, d) from weights (d + 1, p)."""
    return classes.among_all((z @ weights[:-1] + weights[-1]).double().log_softmax(-1))
