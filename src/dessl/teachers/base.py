"""Teacher: the protocol of all predictors in this package, and what they share.

A teacher learns from labelled rows and may use unlabelled ones. It knows nothing about folds
(:mod:`dessl.teachers.crossfit`) or other teachers (:mod:`dessl.teachers.pool`).
"""

from typing import Any, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from dessl import _checks
from dessl._checks import ArrayLike


class State(NamedTuple):
    """A fitted teacher without pickle: tensors for safetensors, and settings for JSON."""

    tensors: dict[str, Tensor]
    settings: dict[str, Any]


@runtime_checkable
class Teacher(Protocol):
    """A predictor that may use unlabelled rows.

    Attributes:
        name: Name in reports.
    """

    name: str

    def fit(self, x_l: Tensor, y_l: Tensor, x_u: Tensor, n_classes: int) -> Self:
        """Learn from rows (n_l, d) with classes (n_l,), and unlabelled rows (n_u, d).

        Classes are 0 … n_classes − 1, present in y or not; n_u may be 0. A teacher that also takes
        ``weights``, how much each label counts, (n_l,), can be used if labels have propensities.
        """
        ...

    def predict_log_proba(self, x: Tensor) -> Tensor:
        """Return log-probabilities (n, n_classes), float64, of rows (n, d)."""
        ...


@runtime_checkable
class OwnFolds(Protocol):
    """A teacher with a cheaper way to out-of-fold predictions than fitting five times."""

    def out_of_fold(
        self, x_l: Tensor, y_l: Tensor, x_u: Tensor, folds: Tensor, n_classes: int, **how: Any
    ) -> Tensor:
        """Return log-probabilities (n_l, n_classes): each row from the labels outside its fold."""
        ...


@runtime_checkable
class Saveable(Protocol):
    """A teacher that can be written to disk and read back without pickle."""

    def state(self) -> State:
        """Return tensors and settings from which the fitted teacher can be rebuilt."""
        ...

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild a fitted teacher; its predictions are the same to the last digit."""
        ...


class Rows(NamedTuple):
    """What a teacher is fitted on, checked: labelled rows, their classes, unlabelled rows.

    ``weights`` say how much each label counts, with a mean of 1; None if all count the same.
    """

    x_l: Tensor
    y_l: Tensor
    x_u: Tensor
    n_classes: int
    weights: Tensor | None = None

    @property
    def mass(self) -> Tensor:
        """The classes as weighted indicators, (n_l, n_classes), float64."""
        y = one_hot(self.y_l, self.n_classes).double()
        return y if self.weights is None else y * self.weights[:, None]

    def weights_of(self, some: Tensor) -> Tensor | None:
        """The weights of some labels, as a fit to these alone would scale them: to a mean of 1."""
        return None if self.weights is None else self.weights[some] / self.weights[some].mean()


def checked_rows(
    x_l: ArrayLike,
    y_l: ArrayLike,
    x_u: "ArrayLike | None",
    n_classes: int,
    weights: "Tensor | None" = None,
) -> Rows:
    """Return rows as float tensors (n, d) and classes as int64; raise an error on bad input.

    Args:
        x_l: (n_l, d) numbers.
        y_l: (n_l,) class numbers.
        x_u: (n_u, d) numbers; None or empty if nothing is unlabelled.
        n_classes: Number of classes, present in y or not.
        weights: (n_l,) how much each label counts, in any unit; None if all count the same.

    >>> rows = checked_rows([[0.0, 1.0], [2.0, 3.0]], [0, 1], None, 2)
    >>> rows.x_u.shape, rows.y_l.dtype
    (torch.Size([0, 2]), torch.int64)
    """
    _checks.whole_number("n_classes", n_classes, low=2)
    x = checked_columns("x_l", x_l)
    y = torch.as_tensor(y_l).detach()
    if y.shape != (len(x),):
        raise ValueError(
            f"y_l must have one class for each of the {len(x)} labelled rows, shape ({len(x)},); "
            f"got {tuple(y.shape)}."
        )
    if y.is_floating_point() or y.is_complex() or y.dtype == torch.bool:
        raise TypeError(f"y_l must be whole class numbers; got {y.dtype}.")
    if len(y) and not (int(y.min()) >= 0 and int(y.max()) < n_classes):
        raise ValueError(
            f"y_l must lie in 0 … {n_classes - 1}; got {int(y.min())} to {int(y.max())}. "
            "Unlabelled rows go to x_u."
        )
    unlabelled = x.new_empty(0, x.shape[1]) if x_u is None or len(x_u) == 0 else x_u
    u = checked_columns("x_u", unlabelled) if len(unlabelled) else x.new_empty(0, x.shape[1])
    if u.shape[1] != x.shape[1]:
        raise ValueError(
            f"x_l and x_u must have the same columns; got {x.shape[1]} and {u.shape[1]}."
        )
    return Rows(x, y.long(), u.to(x.dtype), n_classes, _checked_weights(weights, len(x)))


def _checked_weights(weights: Tensor | None, n: int) -> Tensor | None:
    """Positive weights (n,), float64, scaled to a mean of 1."""
    if weights is None:
        return None
    found = torch.as_tensor(_checks.numbers("weights", weights)).double()
    if found.shape != (n,) or not bool((torch.isfinite(found) & (found > 0)).all()):
        raise ValueError(
            f"weights must be {n} positive numbers, one for each label; got shape "
            f"{tuple(found.shape)}."
        )
    return found / found.mean()


def checked_columns(name: str, x: ArrayLike) -> Tensor:
    """Return finite numbers (n, d) as a float tensor, keeping float32 and float64."""
    tensor = torch.as_tensor(_checks.numbers(name, x))
    if tensor.ndim != 2 or not len(tensor) or not tensor.shape[1]:
        raise ValueError(
            f"{name} must have one row of columns for each sample, shape (n, d); got "
            f"{tuple(tensor.shape)}. Flatten images with .flatten(1), or pass a network's features."
        )
    if not tensor.is_floating_point():
        tensor = tensor.float()
    lowest, highest = torch.aminmax(tensor)  # NaN if any entry is; avoids a copy
    if not bool(torch.isfinite(highest - lowest)):
        _checks.finite(name, tensor)
    return tensor


def class_prior(y: Tensor, n_classes: int, weights: Tensor | None = None) -> Tensor:
    """Return class shares (n_classes,), float64, with one label of each class added.

    So a class missing from a fold has a small probability instead of 0. Labels count by their
    weights (n,), if there are any, whose mean is 1.

    >>> class_prior(torch.tensor([0, 0, 1]), 3).tolist()
    [0.5, 0.3333333333333333, 0.16666666666666666]
    """
    counts = y.bincount(weights, minlength=n_classes).double() + 1
    return counts / counts.sum()


class Classes(NamedTuple):
    """The classes that a teacher has seen.

    Attributes:
        present: Their numbers (p,), in order.
        prior: Shares (n_classes,), with one label of each class added.
    """

    present: Tensor
    prior: Tensor

    @classmethod
    def of(cls, y: Tensor, n_classes: int, weights: Tensor | None = None) -> Self:
        """Read them from class numbers (n,), which may have weights of mean 1."""
        return cls(torch.unique(y), class_prior(y, n_classes, weights))

    def among_all(self, log_p: Tensor) -> Tensor:
        """Return log-probabilities (n, n_classes) from those of the classes present, (n, p).

        A class that was not seen gets its prior share, and the others the rest.

        >>> classes = Classes.of(torch.tensor([0, 2]), 3)
        >>> classes.among_all(torch.tensor([[0.5, 0.5]]).log()).exp()
        tensor([[0.4000, 0.2000, 0.4000]], dtype=torch.float64)
        """
        full = self.prior.log().expand(len(log_p), -1).clone()
        absent = torch.ones(len(self.prior), dtype=torch.bool)
        absent[self.present] = False
        full[:, self.present] = log_p.double() + (1 - self.prior[absent].sum()).log()
        return full


def not_fitted(teacher: object) -> RuntimeError:
    """The error of a teacher used before it is fitted."""
    return RuntimeError(f"this {type(teacher).__name__} has not been fitted. Call .fit first.")


Parts = TypeVar("Parts", bound=tuple[Any, ...])


def under(prefix: str, parts: Any) -> dict[str, Tensor]:
    """Return a named tuple's tensors as entries ``prefix.field`` of a state.

    >>> sorted(under("classes", Classes.of(torch.tensor([0, 1]), 2)))
    ['classes.present', 'classes.prior']
    """
    return {f"{prefix}.{name}": part.contiguous() for name, part in parts._asdict().items()}


def taken_from(tensors: dict[str, Tensor], prefix: str, kind: type[Parts]) -> Parts:
    """Return the named tuple that :func:`under` wrote."""
    fields: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
    return kind(*(tensors[f"{prefix}.{name}"] for name in fields))
