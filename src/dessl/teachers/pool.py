"""The pool: one weight for each teacher, fitted on out-of-fold predictions and shrunk to an anchor.

    w = argmin_{w ≥ 0}  CE(softmax(Σ w_m T_m log p_m)) + 10/n (Σw − 1)² + r Σ_{m ≠ anchor} w_m²
    r = (1 + 100/n) / n
    T_m = argmin_{T ≥ 0}  CE(softmax(T log p_m)) + 10/n (T − 1)²        (1 for the anchor)

Both problems are convex. Shrinkage, not a test, makes the pool safe: with few labels the weights
stay near 1 for the anchor and near 0 for the others.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dessl import _checks
from dessl.training.threads import one_thread

ANCHOR = "cc"  # the complete case
SUM_PENALTY = 10.0
WEIGHT_PENALTY = 1.0
FEW_LABELS = 100.0  # number of labels at which the penalty on weights doubles
LEAST_WEIGHT = 1e-4  # members with a smaller weight are dropped
MOST_STEPS, SMALL = 100, 1e-10  # limits of Newton's method: number and size of steps


class PoolWeights(NamedTuple):
    """Weights and exponents of a pool's candidates.

    Attributes:
        weights: Weight w of each candidate, by name; 0 if it was dropped.
        exponents: Exponent T of each candidate, by name.
        anchor: Name of the candidate that the weights are shrunk towards.
    """

    weights: dict[str, float]
    exponents: dict[str, float]
    anchor: str

    @property
    def kept(self) -> tuple[str, ...]:
        """Names of the candidates whose weight is not 0."""
        return tuple(name for name, weight in self.weights.items() if weight)

    def combine(self, log_probas: Mapping[str, Tensor]) -> Tensor:
        """Return log-probabilities (n, classes) of the pool from those of its members.

        Args:
            log_probas: (n, classes) of at least the candidates in ``kept``, by name.

        >>> pool = PoolWeights({"cc": 0.5, "a": 0.5}, {"cc": 1.0, "a": 1.0}, "cc")
        >>> p = {"cc": torch.tensor([[0.9, 0.1]]).log(), "a": torch.tensor([[0.1, 0.9]]).log()}
        >>> pool.combine(p).exp()
        tensor([[0.5000, 0.5000]], dtype=torch.float64)
        """
        absent = [name for name in self.kept if name not in log_probas]
        if absent:
            raise ValueError(
                f"log_probas must have an entry for each member with a weight; {absent} are absent."
            )
        scores = [
            self.weights[name] * self.exponents[name] * log_probas[name].double()
            for name in self.kept
        ]
        return torch.stack(scores).sum(0).log_softmax(-1)


def fit_pool(
    candidates: Mapping[str, Tensor],
    y: Tensor,
    anchor: str = ANCHOR,
    *,
    n: float | None = None,
    weights: Tensor | None = None,
) -> PoolWeights:
    """Fit exponents and weights on out-of-fold predictions.

    Args:
        candidates: Log-probabilities (rows, classes) by name, for rows whose labels the candidate
            was not trained on.
        y: (rows,) class numbers.
        anchor: Name of the candidate whose weight is not penalised.
        n: Effective number of labels, if some rows are copies; by default the number of rows.
        weights: How much each row's loss counts, (rows,); None if all count the same.

    >>> right = torch.tensor([[0.9, 0.1], [0.1, 0.9]]).log().repeat(100, 1)
    >>> pool = fit_pool({"cc": right.flip(1), "graph": right}, torch.tensor([0, 1] * 100))
    >>> pool.kept
    ('graph',)
    """
    stack = stacked(candidates, y)
    if anchor not in candidates:
        raise ValueError(f"the anchor {anchor!r} must be a candidate; got {list(candidates)}.")
    names, labels = list(candidates), len(y) if n is None else n
    exponents = {
        name: 1.0 if name == anchor else exponent(log_p, y, labels, weights)
        for name, log_p in candidates.items()
    }
    tempered = stack * np.array([exponents[name] for name in names])[:, None, None]
    ridge = np.array([0.0 if name == anchor else weight_penalty(labels) for name in names])
    start = np.array([float(name == anchor) for name in names])
    found = least_cross_entropy(
        tempered, y.numpy(), SUM_PENALTY / labels, ridge, start, _shares(weights)
    )
    found[found < LEAST_WEIGHT] = 0.0
    return PoolWeights(dict(zip(names, found.tolist(), strict=True)), exponents, anchor)


def weight_penalty(n: float) -> float:
    """Return r, the penalty on the square of a weight other than the anchor's, for n labels."""
    return WEIGHT_PENALTY * (1 + FEW_LABELS / n) / n


def _shares(weights: Tensor | None) -> NDArray[np.float64] | None:
    """Weights as shares of their sum."""
    return None if weights is None else (weights.double() / weights.double().sum()).numpy()


def _mean(values: NDArray[np.float64], shares: NDArray[np.float64] | None) -> Any:
    """The mean over the last axis, weighted by shares if there are any."""
    return values.mean(-1) if shares is None else values @ shares


def exponent(log_p: Tensor, y: Tensor, n: float, weights: Tensor | None = None) -> float:
    """Return the T that calibrates out-of-fold log-probabilities (rows, classes), shrunk to 1.

    Uses Newton's method, which is fast, and halves steps that do not descend: a pool needs hundreds
    of these.
    """
    scores, penalty, shares = log_p.double().numpy(), SUM_PENALTY / n, _shares(weights)
    observed = float(_mean(scores[np.arange(len(y)), y.numpy()], shares))

    def value_and_slopes(power: float) -> tuple[float, float, float]:
        tempered = power * scores
        highest = tempered.max(1, keepdims=True)
        p = np.exp(tempered - highest)
        total = p.sum(1, keepdims=True)
        p /= total
        mean = (p * scores).sum(1)
        value = float(_mean((np.log(total) + highest)[:, 0], shares)) - power * observed
        spread = float(_mean((p * scores**2).sum(1) - mean**2, shares))
        slope = float(_mean(mean, shares)) - observed + 2 * penalty * (power - 1)
        return value + penalty * (power - 1) ** 2, slope, spread + 2 * penalty

    power, (value, slope, bend) = 1.0, value_and_slopes(1.0)
    for _ in range(MOST_STEPS):
        step = -slope / bend
        while (tried := value_and_slopes(max(0.0, power + step)))[0] > value and abs(step) > SMALL:
            step /= 2
        moved = abs(max(0.0, power + step) - power)
        power, (value, slope, bend) = max(0.0, power + step), tried
        if moved <= SMALL:
            break
    return power


def best_of(
    family: Mapping[str, Tensor],
    y: Tensor,
    n: float | None = None,
    weights: Tensor | None = None,
) -> str:
    """Return the name of the candidate with the lowest cross-entropy after calibration.

    >>> good, bad = torch.tensor([[0.9, 0.1]]).log(), torch.tensor([[0.6, 0.4]]).log()
    >>> best_of({"bad": bad.expand(50, 2), "good": good.expand(50, 2)}, torch.zeros(50).long())
    'good'
    """
    labels = len(y) if n is None else n
    scores = {}
    for name, log_p in family.items():
        power = exponent(log_p, y, labels, weights)
        scores[name] = float(_mean(losses(power * log_p.double(), y).numpy(), _shares(weights)))
    return min(scores, key=lambda name: scores[name])


def mixed(log_p: Tensor, other: Tensor, share: float) -> Tensor:
    """Return log((1 − share) p + share p') of two predictions as logarithms.

    >>> mixed(torch.tensor([1.0, 0.0]).log(), torch.tensor([0.5, 0.5]).log(), 0.1).exp()
    tensor([0.9500, 0.0500])
    """
    if not share:
        return log_p
    return torch.logaddexp(log_p + math.log1p(-share), other + math.log(share))


def losses(scores: Tensor, y: Tensor) -> Tensor:
    """Return the cross-entropy (rows,) of unnormalised log-probabilities (rows, classes)."""
    return -scores.log_softmax(-1).gather(1, y[:, None])[:, 0]


def least_cross_entropy(
    stack: NDArray[np.float64],
    y: NDArray[np.int64],
    sum_penalty: float,
    ridge: NDArray[np.float64],
    start: NDArray[np.float64],
    shares: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return the w ≥ 0 that minimises the penalised cross-entropy, (members,).

    Args:
        stack: (members, rows, classes) log-probabilities.
        y: (rows,) class numbers.
        sum_penalty: Penalty on (Σw − 1)².
        ridge: Penalty on each w², (members,).
        start: Initial w; the problem is convex, so the minimum does not depend on it.
        shares: Weight of each row in the mean, (rows,), with a sum of 1; None for equal ones.
    """
    from scipy.optimize import minimize

    rows = np.arange(len(y))
    observed = stack[:, rows, y]

    def value_and_gradient(w: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        scores = np.tensordot(w, stack, 1)
        scores -= scores.max(1, keepdims=True)
        p = np.exp(scores)
        total = p.sum(1, keepdims=True)
        p /= total
        excess = w.sum() - 1
        value = float(_mean(np.log(total[:, 0]) - scores[rows, y], shares))
        slope = _mean(np.einsum("mnc,nc->mn", stack, p) - observed, shares)
        penalty = sum_penalty * excess**2 + float(ridge @ w**2)
        return value + penalty, slope + 2 * sum_penalty * excess + 2 * ridge * w

    options: Any = {"ftol": 1e-14, "gtol": 1e-9, "maxiter": 1000}
    bounds = [(0.0, None)] * len(start)
    with one_thread():
        found = minimize(
            value_and_gradient, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options
        )
    return np.asarray(found.x, dtype=np.float64)


def stacked(candidates: Mapping[str, Tensor], y: Tensor) -> NDArray[np.float64]:
    """Stack the candidates, (members, rows, classes), and check that their shapes match y."""
    if not candidates:
        raise ValueError("candidates must have at least the anchor; got none.")
    shapes = {name: tuple(log_p.shape) for name, log_p in candidates.items()}
    first = next(iter(shapes.values()))
    if len(set(shapes.values())) > 1 or len(first) != 2 or first[0] != len(y):
        raise ValueError(
            f"candidates must all have the shape ({len(y)}, classes), one row for each label; got "
            f"{shapes}."
        )
    for name, log_p in candidates.items():
        _checks.finite(f"candidates[{name!r}]", log_p)
    return np.stack([log_p.double().numpy() for log_p in candidates.values()])
