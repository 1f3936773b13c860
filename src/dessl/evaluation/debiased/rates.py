"""Metrics that are not means: recall, precision, rates at a threshold, macro F1, AUC.

Each is a smooth function of means, so that its estimate θ̂ from the labelled rows moves by the mean
of their influences ψ. With L = θ̂ + ψ(x, y) the metric is a mean again, and H = θ̂ + Σ_k p_k ψ(x, k)
is the model's expectation for a row:

    recall of class c      ψ = 1[y=c] (1[ŷ=c] − θ̂) / P(y=c)
    precision of class c   ψ = 1[ŷ=c] (1[y=c] − θ̂) / P(ŷ=c)
    tpr, fpr               like the recall, with 1[p_c ≥ threshold] for 1[ŷ=c], over rows of class c
                           or of all other classes
    balanced accuracy      the mean of all recalls
    macro F1               the mean over c of
                           (2·1[y=ŷ=c] − F1_c (1[y=c] + 1[ŷ=c])) / (P(y=c) + P(ŷ=c))
    AUC of class c         1[y=c] (G(p_c) − θ̂) / P(y=c)  +  1[y≠c] (1 − F(p_c) − θ̂) / P(y≠c)

with F and G the distributions of p_c over labelled rows of class c and of the others; ties count
half. A labelled row is itself part of F or G, unlike an unlabelled one. Its H is therefore computed
with F and G of the other rows; otherwise H would be lower for labelled rows on average. The
probabilities and θ̂ are those of the labelled rows, weighted if they were drawn by design.
"""

import math
import warnings
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from dessl import _checks
from dessl._checks import ArrayLike
from dessl.evaluation.debiased.groups import NarrowIntervalWarning
from dessl.evaluation.debiased.proxies import Metric
from dessl.evaluation.metrics.predictions import checked_pair

RATES = ("balanced_accuracy", "macro_f1", "auc", "recall", "precision", "tpr", "fpr")
OF_ONE_CLASS = ("recall", "precision", "tpr", "fpr")
AT_A_THRESHOLD = ("tpr", "fpr")
POSITIVE, THRESHOLD = 1, 0.5  # by default, with two classes


class UndefinedMetricError(ValueError):
    """A metric that is not defined, because no labelled row counts for it.

    Args:
        name: The metric.
        words: Which rows it needs, with a placeholder for the class.
        number: The class.
    """

    def __init__(self, name: str, words: str, number: int) -> None:
        self.words, self.number = words, number
        super().__init__(
            f"{name} needs labelled rows {words.format(number)}; got none. Label some, or use "
            "another metric."
        )


Influence: TypeAlias = Callable[[Tensor], Tensor]  # probabilities → ψ for each possible label


class Rate(NamedTuple):
    """A rate: its value over the labelled rows, a row's influence, and the number of rows used.

    ``left_out`` is added to the labelled rows' ψ for each possible label, (m, classes), to leave
    the row itself out where ψ depends on single rows. ``units`` is the number of groups of the rows
    used; infinite without groups.
    """

    value: float
    influence: Influence
    labels: float
    units: float
    left_out: Tensor | None = None


class _Labelled(NamedTuple):
    p: Tensor  # (m, classes)
    y: Tensor  # (m,)
    weights: Tensor  # (m,), summing to 1
    groups: Tensor | None  # (m,), numbers

    def groups_of(self, here: Tensor) -> float:
        """The number of groups of some rows; infinite without groups."""
        return math.inf if self.groups is None else float(len(torch.unique(self.groups[here])))


def rate_metric(
    name: str,
    probabilities: ArrayLike,
    y: ArrayLike,
    *,
    weights: Tensor | None = None,
    groups: Tensor | None = None,
    positive: int | None = None,
    threshold: float | None = None,
) -> tuple[Metric, float]:
    """A rate as a metric with L = θ̂ + ψ, and the number of labelled rows that it is based on.

    Args:
        name: One of :data:`RATES`.
        probabilities: Predicted probabilities of the labelled rows, (m, classes).
        y: Their labels, (m,).
        weights: Weights of the labelled rows, (m,); equal by default.
        groups: Numbers of the rows' groups, those of the labelled rows first, if they have groups.
        positive: The class of recall, precision, tpr, fpr and AUC. With two classes it is class 1
            by default. The AUC of more classes is by default the mean of all one-versus-rest AUCs.
        threshold: The probability of the class from which tpr and fpr count a row as positive; with
            two classes, 0.5 by default.

    >>> p = [[0.9, 0.1], [0.4, 0.6], [0.3, 0.7], [0.8, 0.2]]
    >>> metric, labels = rate_metric("recall", p, [0, 1, 1, 1])
    >>> influenced = metric.values(torch.tensor(p, dtype=torch.float64))
    >>> round(float(influenced[[0, 1, 2, 3], [0, 1, 1, 1]].mean()), 4), labels
    (0.6667, 3.0)
    """
    values, labels = (one.cpu() for one in checked_pair(probabilities, y))
    m, classes = values.shape
    equal = torch.full((m,), 1 / m, dtype=torch.float64)
    rows = _Labelled(
        values,
        labels,
        equal if weights is None else weights / weights.sum(),
        None if groups is None else groups[:m],
    )
    chosen = _class(name, positive, classes)
    cut = _threshold(name, threshold, classes)
    if name == "balanced_accuracy":
        rate = _mean_rate([_recall(rows, c, _predicts(c), name) for c in range(classes)])
    elif name == "macro_f1":
        rate = _mean_rate([_f1(rows, c) for c in range(classes)])
    elif name == "auc":
        of = range(classes) if chosen is None else (chosen,)
        rate = _mean_rate([_auc(rows, c) for c in of])
    else:
        rate = _one_class(name, rows, int(chosen or 0), cut)
    theta = rate.value
    return (
        Metric(
            lambda p: theta + rate.influence(p),
            0.0,
            1.0,
            binary=True,
            surprise=0.02,
            smooth=True,
            share=name in OF_ONE_CLASS,
            logit=name == "auc",
            left_out=rate.left_out,
            units=rate.units,
        ),
        rate.labels,
    )


def _class(name: str, positive: int | None, classes: int) -> int | None:
    if name not in (*OF_ONE_CLASS, "auc"):
        if positive is not None:
            raise ValueError(f"{name} is an average over all classes; omit positive={positive}.")
        return None
    if positive is None:
        if classes == 2:
            return POSITIVE
        if name == "auc":
            return None
        raise ValueError(
            f"{name} is for one class, and there are {classes}. Pass positive=, a class number "
            f"from 0 to {classes - 1}."
        )
    return _checks.whole_number("positive", positive, low=0, high=classes - 1)


def _threshold(name: str, threshold: float | None, classes: int) -> float:
    if name not in AT_A_THRESHOLD:
        if threshold is not None:
            raise ValueError(f"{name} has no threshold; omit threshold={threshold}, or use 'tpr'.")
        return 0.0
    if threshold is None:
        if classes > 2:
            raise ValueError(
                f"{name} needs a threshold with more than two classes. Pass threshold=, the "
                "probability of the class from which a row counts as positive."
            )
        return THRESHOLD
    return _checks.number("threshold", threshold, low=0.0, high=1.0)


def _one_class(name: str, rows: _Labelled, c: int, threshold: float) -> Rate:
    if name == "recall":
        return _recall(rows, c, _predicts(c), name)
    if name == "precision":
        return _precision(rows, c)
    inside = name == "tpr"
    return _recall(rows, c, lambda p: p[:, c] >= threshold, name, inside=inside)


def _predicts(c: int) -> Influence:
    return lambda p: p.argmax(dim=1) == c


def _recall(rows: _Labelled, c: int, event: Influence, name: str, *, inside: bool = True) -> Rate:
    """The share of rows of class c (or of all others) for which an event of x occurs."""
    here = (rows.y == c) == inside
    counted = _counted(here, "of class {}" if inside else "of classes other than {}", c, name)
    share = float(rows.weights[here].sum())
    value = float((rows.weights * event(rows.p))[here].sum()) / share

    def influence(p: Tensor) -> Tensor:
        psi = torch.zeros_like(p)
        columns = torch.arange(p.shape[1]) == c
        psi[:, columns if inside else ~columns] = ((event(p).to(p) - value) / share)[:, None]
        return psi

    return Rate(value, influence, counted, rows.groups_of(here))


def _precision(rows: _Labelled, c: int) -> Rate:
    here = rows.p.argmax(dim=1) == c
    counted = _counted(here, "predicted as class {}", c, "precision")
    share = float(rows.weights[here].sum())
    value = float(rows.weights[here & (rows.y == c)].sum()) / share

    def influence(p: Tensor) -> Tensor:
        right = torch.zeros_like(p)
        right[:, c] = 1.0
        return (p.argmax(dim=1) == c)[:, None] * (right - value) / share

    return Rate(value, influence, counted, rows.groups_of(here))


def _f1(rows: _Labelled, c: int) -> Rate:
    is_c, predicted_c = rows.y == c, rows.p.argmax(dim=1) == c
    counted = _counted(is_c, "of class {}", c, "macro_f1")
    total = float((rows.weights * (is_c.double() + predicted_c.double())).sum())
    value = 2 * float(rows.weights[is_c & predicted_c].sum()) / total
    if value == 0:
        warnings.warn(
            f"no labelled row of class {c} is predicted as class {c}, so its F1 counts as 0 "
            "without an error, and the interval of macro_f1 is too narrow. Label more rows, or "
            "use balanced_accuracy.",
            NarrowIntervalWarning,
            stacklevel=5,
        )

    def influence(p: Tensor) -> Tensor:
        predicted = (p.argmax(dim=1) == c).to(p)[:, None]
        truth = torch.zeros_like(p)
        truth[:, c] = 1.0
        return (2 * truth * predicted - value * (truth + predicted)) / total

    return Rate(value, influence, counted, rows.groups_of(is_c))


def _auc(rows: _Labelled, c: int) -> Rate:
    own, scores = rows.y == c, rows.p[:, c].contiguous()
    counted = min(
        _counted(own, "of class {}", c, "auc"),
        _counted(~own, "of classes other than {}", c, "auc"),
    )
    share = float(rows.weights[own].sum())
    among_own, among_rest = (
        _distribution(scores[some], rows.weights[some]) for some in (own, ~own)
    )
    value = float((rows.weights[own] * among_rest(scores[own])).sum()) / share

    def influence(p: Tensor) -> Tensor:
        s = p[:, c].contiguous()
        psi = ((1 - among_own(s)) - value).div(1 - share)[:, None].repeat(1, p.shape[1])
        psi[:, c] = (among_rest(s) - value) / share
        return psi

    inside = rows.weights / torch.where(own, share, 1 - share)
    rank = torch.where(own, among_own(scores), among_rest(scores))
    more = inside * (rank - 0.5) / (1 - inside).clamp(min=0.5)  # F or G of the others, minus it
    others = torch.arange(rows.p.shape[1]) != c
    left_out = torch.zeros_like(rows.p)
    left_out[:, others] = torch.where(own, -more / (1 - share), 0.0)[:, None]
    left_out[:, c] = torch.where(own, 0.0, more / share)
    units = min(rows.groups_of(own), rows.groups_of(~own))
    return Rate(value, influence, counted, units, left_out)


def _distribution(values: Tensor, weights: Tensor) -> Influence:
    """The weighted share of values below s, with ties counted half, as a function of s."""
    ordered, order = values.sort()
    mass = torch.cat([weights.new_zeros(1), (weights[order] / weights.sum()).cumsum(0)])

    def below(s: Tensor) -> Tensor:
        places, shares = ordered.to(s.device), mass.to(s.device)
        left, right = (torch.searchsorted(places, s, right=side) for side in (False, True))
        return (shares[left] + shares[right]) / 2

    return below


def _mean_rate(rates: list[Rate]) -> Rate:
    """The mean of rates; it counts the rows of the smallest class times the number of rates."""

    def influence(p: Tensor) -> Tensor:
        return torch.stack([rate.influence(p) for rate in rates]).mean(dim=0)

    value = sum(rate.value for rate in rates) / len(rates)
    changes = [rate.left_out for rate in rates if rate.left_out is not None]
    left_out = torch.stack(changes).mean(dim=0) if changes else None
    labels, units = (
        min(getattr(rate, name) for rate in rates) * len(rates) for name in ("labels", "units")
    )
    return Rate(value, influence, labels, units, left_out)


def _counted(here: Tensor, words: str, c: int, name: str) -> float:
    if not (rows := int(here.sum())):
        raise UndefinedMetricError(name, words, c)
    return float(rows)
