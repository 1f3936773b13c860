"""Linear: multinomial logistic regression on the columns of a Space; labelled rows alone teach it.

min  C Σ CE(softmax(z B + b), y) + ½ |B|²
"""

import warnings
from typing import Self

import torch
from torch import Tensor

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

STRENGTHS = (0.03, 1.0)


class Linear:
    """Logistic regression in a space learnt from all rows.

    Args:
        strength: C: the larger, the closer to the labels.
        space: Of the columns; learnt from the rows of ``fit`` if not given.

    >>> x = torch.tensor([[0.0], [1.0], [2.0], [3.0]])
    >>> linear = Linear(1.0).fit(x, torch.tensor([0, 0, 1, 1]), x[:0], 2)
    >>> linear.predict_log_proba(torch.tensor([[-1.0], [4.0]])).argmax(1).tolist()
    [0, 1]
    """

    uses_unlabelled = False

    def __init__(self, strength: float = 1.0, *, space: Space | None = None) -> None:
        self.strength = strength
        self.name = f"linear C={strength:g}"
        self._given = space
        self._space: Space | None = None

    @property
    def ignores_x_u(self) -> bool:
        """Whether unlabelled rows are not even looked at, for a space."""
        return self._given is not None

    def fit(self, x_l: Tensor, y_l: Tensor, x_u: Tensor, n_classes: int) -> Self:
        """Fit on labelled rows, in the space of all rows."""
        rows = checked_rows(x_l, y_l, x_u, n_classes)
        self._space = self._given or Space.of(rows.x_l, rows.x_u)
        z = self._space(rows.x_l).double()
        self._weights = logistic_weights(z, rows.y_l, self.strength)
        self._classes = Classes.of(rows.y_l, n_classes)
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
        return State(tensors | {"weights": self._weights}, {"strength": self.strength})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild a fitted regression."""
        new = cls(float(state.settings["strength"]))
        new._space = taken_from(state.tensors, "space", Space)
        new._classes = taken_from(state.tensors, "classes", Classes)
        new._weights = state.tensors["weights"]
        return new


def logistic_weights(z: Tensor, y: Tensor, strength: float) -> Tensor:
    """Return slopes and, in the last row, intercepts (d + 1, p) of logistic regression.

    There is one column for each class in y; with one class alone, all are 0.

    Args:
        z: float64 (n, d).
        y: (n,) class numbers.
        strength: C.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    n_present = len(torch.unique(y))
    if n_present < 2:
        return torch.zeros(z.shape[1] + 1, n_present, dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # near the least is near enough
        model = LogisticRegression(C=strength, max_iter=300, tol=1e-5)
        model.fit(z.numpy(), y.numpy())
    weights = torch.from_numpy(model.coef_.T).double()
    weights = torch.cat([weights, torch.from_numpy(model.intercept_).double()[None]])
    # Of two classes there is one column, for the second: half of it for each.
    return torch.cat([-weights / 2, weights / 2], 1) if n_present == 2 else weights


def linear_log_proba(z: Tensor, weights: Tensor, classes: Classes) -> Tensor:
    """Return log-probabilities (n, n_classes) of rows (n, d) by weights (d + 1, p)."""
    return classes.among_all((z @ weights[:-1] + weights[-1]).double().log_softmax(-1))
