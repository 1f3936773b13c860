"""Sparse: logistic regression in which most columns have no weight; trained on labelled rows only.

    min  1/n Σ CE(softmax(z B + b), y) + λ |B|₁,   λ = share · λ_max

λ_max is the least λ for which B is 0. z are the columns themselves, scaled but not turned into
principal components as :class:`dessl.teachers.linear.Linear` has them: of many columns, the few
that matter need not be those of most variance.
"""

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import softplus

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
from dessl.teachers.linear import for_classes, linear_log_proba
from dessl.teachers.space import Space

SHARES = (0.3, 0.1)
TOLERANCE = 1e-2  # of the gradient, relative to λ
FIRST_COLUMNS = 50  # that may have a weight in the first round; the number at most doubles in each
LEAST_GRADIENT = 1e-12  # columns that say less of the classes are constant


class Sparse:
    """Logistic regression with an L1 penalty, on columns scaled by all rows.

    Args:
        share: λ as a share of the least λ for which all slopes are 0; smaller values fit the labels
            more closely, and keep more columns.
        space: The scale of the columns; its principal components are not used. By default learnt
            from the rows of ``fit``.

    >>> x = torch.randn(60, 100, generator=torch.Generator().manual_seed(0))
    >>> sparse = Sparse(0.5).fit(x, (x[:, 7] > 0).long(), x[:0], 2)
    >>> sparse.columns.tolist()
    [7]
    """

    uses_unlabelled = False

    def __init__(self, share: float = 0.3, *, space: Space | None = None) -> None:
        self.share = _checks.number("share", share, low=0, high=1, open_low=True)
        self.name = f"sparse λ={share:g}"
        self._given = space
        self._space: Space | None = None

    @property
    def ignores_x_u(self) -> bool:
        """Whether unlabelled rows are ignored, even for the scale."""
        return self._given is not None

    @property
    def columns(self) -> Tensor:
        """The numbers of the columns that have a weight."""
        if self._space is None:
            raise not_fitted(self)
        return self._weights[:-1].any(1).nonzero()[:, 0]

    def fit(
        self, x_l: Tensor, y_l: Tensor, x_u: Tensor, n_classes: int, weights: Tensor | None = None
    ) -> Self:
        """Fit on labelled rows, with the scale of all rows."""
        rows = checked_rows(x_l, y_l, x_u, n_classes, weights)
        space = self._given or Space.of(rows.x_l, rows.x_u)
        self._space = space.of_columns()
        z = self._space(rows.x_l).double()
        self._weights = sparse_weights(z, rows.y_l, self.share, rows.weights)
        self._classes = Classes.of(rows.y_l, n_classes, rows.weights)
        return self

    def predict_log_proba(self, x: Tensor) -> Tensor:
        """Return log-probabilities (n, n_classes)."""
        if self._space is None:
            raise not_fitted(self)
        z = self._space(checked_columns("x", x)).double()
        return linear_log_proba(z, self._weights, self._classes)

    def state(self) -> State:
        """Return the scale and the weights."""
        if self._space is None:
            raise not_fitted(self)
        tensors = under("space", self._space) | under("classes", self._classes)
        return State(tensors | {"weights": self._weights}, {"share": self.share})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild a fitted regression."""
        new = cls(float(state.settings["share"]))
        new._space = taken_from(state.tensors, "space", Space)
        new._classes = taken_from(state.tensors, "classes", Classes)
        new._weights = state.tensors["weights"]
        return new


def sparse_weights(z: Tensor, y: Tensor, share: float, weights: Tensor | None = None) -> Tensor:
    """Return slopes and, in the last row, intercepts (d + 1, p) of sparse logistic regression.

    There is one column for each class in y; with only one class, all are 0. Only columns whose
    gradient exceeds λ take part; after each round, those of the others that do so join them.

    Args:
        z: float64 (n, d).
        y: (n,) class numbers.
        share: λ / λ_max.
        weights: (n,) how much each row's loss counts.
    """
    each = torch.ones_like(z[:, :1]) if weights is None else weights[:, None]
    each = each / each.sum()
    return for_classes(y, z.shape[1], lambda target: _least_penalised_loss(z, target, share, each))


def _least_penalised_loss(z: Tensor, target: Tensor, share: float, each: Tensor) -> Tensor:
    """Weights (d + 1, k) for targets (n, k), by rounds in which more and more columns take part."""
    found = z.new_zeros(z.shape[1] + 1, target.shape[1])
    means = (each * target).sum(0)
    found[-1] = means.logit() if len(means) == 1 else means.log()
    part = torch.zeros_like(z[0], dtype=torch.bool)
    gradient = _gradient(z, target, each, found, part)
    penalty = share * gradient.max()
    if gradient.max() <= LEAST_GRADIENT:
        return found
    while bool((joining := ~part & (gradient > (1 + TOLERANCE) * penalty)).any()):
        most = min(int(joining.sum()), max(FIRST_COLUMNS, int(part.sum())))
        part[torch.where(joining, gradient, 0.0).topk(most).indices] = True
        own = torch.cat([part, part.new_ones(1)])  # with the intercepts
        found[own] = _round(z[:, part], target, float(penalty), each, found[own])
        gradient = _gradient(z, target, each, found, part)
    return found


def _gradient(z: Tensor, target: Tensor, each: Tensor, found: Tensor, part: Tensor) -> Tensor:
    """The largest slope of the loss in the weights of each column, (d,)."""
    scores = z[:, part] @ found[:-1][part] + found[-1]
    p = scores.sigmoid() if target.shape[1] == 1 else scores.softmax(1)
    return (z.T @ (each * (p - target))).abs().amax(1)


def _round(z: Tensor, target: Tensor, penalty: float, each: Tensor, start: Tensor) -> Tensor:
    """The minimum (d + 1, k) over few columns, as B = U − V with U, V ≥ 0 and a smooth penalty."""
    from scipy.optimize import Bounds, minimize

    d, k = z.shape[1], target.shape[1]
    turned = z.T.contiguous()

    def value_and_gradient(entries: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        parts = torch.from_numpy(entries).view(-1, k)
        above, below = parts[:d], parts[d:-1]
        scores = z @ (above - below) + parts[-1]
        if k == 1:
            p, losses = scores.sigmoid(), softplus(scores) - target * scores
        else:
            log_p = scores.log_softmax(1)
            p, losses = log_p.exp(), -target * log_p
        rest = each * (p - target)
        slope = turned @ rest
        value = (each * losses).sum() + penalty * (above.sum() + below.sum())
        gradient = torch.cat([slope + penalty, penalty - slope, rest.sum(0, keepdim=True)])
        return float(value), gradient.flatten().numpy()

    slopes, intercepts = start[:-1], start[-1:]
    entries = torch.cat([slopes.clamp(min=0), (-slopes).clamp(min=0), intercepts]).flatten().numpy()
    least = np.zeros(len(entries))
    least[-k:] = -np.inf
    options: Any = {"maxiter": 1000, "gtol": TOLERANCE * penalty, "ftol": 1e-12, "maxcor": 20}
    bounds = Bounds(least, np.inf)
    result = minimize(
        value_and_gradient, entries, jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    parts = torch.from_numpy(result.x).view(-1, k)
    return torch.cat([parts[:d] - parts[d:-1], parts[-1:]])
