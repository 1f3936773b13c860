"""How much unlabelled rows can help: ρ of L and H out of fold, for each cheap term and teacher.

L is a cheap model's cross-entropy on rows whose labels it did not see. At the best λ the variance
of the debiased risk is 1 − (n_u/n) ρ² times the complete case's, so n_l labels give the precision
of n_l divided by that factor. Estimating λ costs about as much as ρ² = 1/(n_l − 2) gains: a smaller
ρ gains nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dessl.functional import cross_entropy, cross_entropy_to, entropy, pseudo_label
from dessl.safety.choices import group_folds
from dessl.teachers import Linear
from dessl.teachers.crossfit import FOLDS, out_of_fold, stratified_folds
from dessl.teachers.families import family
from dessl.teachers.space import Space

TEACHERS = ("graph", "kernel", "trees")
MOST_LABELS = 2_000  # cross-fitted: more would not change ρ by more than its interval
MOST_UNLABELLED = 4_000
Z = 1.959964  # normal quantile of a 95 % interval


@dataclass(frozen=True)
class GainFacts:
    """How much one term H can help.

    Attributes:
        term: Name of the term.
        correlation: ρ(L, H) out of fold.
        low: Lower end of ρ's 95 % interval.
        high: Upper end of ρ's 95 % interval.
        variance_ratio: 1 − (n_u/n) ρ²: the remaining variance.
        equivalent_labels: n_l over the ratio: number of labels that would be as precise without H.
        worth_it: Whether ρ is above 1/√(n_l − 2), the cost of estimating λ, n_l counting groups of
            labelled rows if there are groups.
    """

    term: str
    correlation: float
    low: float
    high: float
    variance_ratio: float
    equivalent_labels: float
    worth_it: bool


class Correlated(NamedTuple):
    """A correlation and its 95 % interval."""

    value: float
    low: float
    high: float


def gains(
    x_l: Tensor,
    y: Tensor,
    x_u: Tensor,
    n_classes: int,
    *,
    n_unlabelled: int | None = None,
    n_labelled: int | None = None,
    teachers: Sequence[str] = TEACHERS,
    groups: NDArray[np.int64] | None = None,
    seed: int = 0,
) -> tuple[GainFacts, ...]:
    """Return how much each term can help, the best first.

    Args:
        x_l: (n_l, d) labelled rows.
        y: (n_l,) their classes.
        x_u: (n_u, d) unlabelled rows.
        n_classes: Number of classes.
        n_unlabelled: Number of unlabelled rows in the data, if ``x_u`` has only some of them.
        n_labelled: Number of labelled rows in the data, if ``x_l`` has only some of them.
        teachers: Names in ``dessl.teachers.KINDS``.
        groups: (n_l,) group of each labelled row; None if rows are independent. Whole groups are
            predicted out of fold, and their number decides whether estimating λ pays off.
        seed: Seed of folds and trees.

    >>> g = torch.Generator().manual_seed(0)
    >>> x = torch.randn(400, 2, generator=g)
    >>> y = (x[:, 0] + torch.randn(400, generator=g) > 0).long()
    >>> found = gains(x[:80], y[:80], x[80:], 2, teachers=("kernel",))
    >>> sorted(one.term for one in found)
    ['entropy', 'pseudo-label', 'teacher kernel']
    """
    x_l, y, x_u = x_l[:MOST_LABELS], y[:MOST_LABELS], x_u[:MOST_UNLABELLED]
    space = Space.of(x_l, x_u)
    units = None if groups is None else np.unique(groups[: len(y)], return_inverse=True)[1]
    folds = stratified_folds(y, seed=seed)
    if units is not None:
        folds = torch.from_numpy(group_folds(units, FOLDS, np.random.default_rng(seed)))
    base = out_of_fold(Linear(1.0, space=space), x_l, y, x_u, folds, n_classes)
    loss = cross_entropy(base, y)
    terms = {"entropy": entropy(base), "pseudo-label": pseudo_label(base)}
    for name in teachers:
        teacher = family(name, space, seed, len(y))[0]
        answers = out_of_fold(teacher, x_l, y, x_u, folds, n_classes)
        terms[f"teacher {name}"] = cross_entropy_to(base, answers.exp())
    n_l = n_labelled or len(x_l)
    n_u = n_unlabelled or len(x_u)
    least = least_correlation(n_l if groups is None else len(np.unique(groups)))
    found = [_gain(name, correlated(loss, h, units), n_l, n_u, least) for name, h in terms.items()]
    return tuple(sorted(found, key=lambda one: one.variance_ratio))


def correlated(loss: Tensor, h: Tensor, units: NDArray[np.int64] | None = None) -> Correlated:
    """Return ρ with an interval that does not assume normal L and H.

    It uses Fisher's scale, with the error from each row's influence u v − ρ (u² + v²)/2, u and v
    standardised: L is far from normal, and the textbook error 1/√(n − 3) assumes normality. With
    ``units``, numbers from 0 of the groups of the rows, the influences of a group are added up.

    >>> found = correlated(torch.tensor([1.0, 2.0, 3.0, 5.0]), torch.tensor([1.0, 2.0, 4.0, 4.0]))
    >>> round(found.value, 3)
    0.878
    """
    u, v = ((part - part.mean()) / part.std(correction=0).clamp(min=1e-300) for part in (loss, h))
    rho = max(-1.0, min(1.0, float((u * v).mean())))
    if not 0 < abs(rho) < 1 - 1e-12:
        return Correlated(rho, rho if rho else -1.0, rho if rho else 1.0)
    influence = u * v - rho * (u.square() + v.square()) / 2
    if units is not None:
        sums = influence.new_zeros(int(units.max()) + 1)
        influence = sums.index_add(0, torch.from_numpy(units), influence) * len(sums) / len(loss)
    error = float(influence.std()) / math.sqrt(len(influence)) / (1 - rho * rho)
    ends = (math.atanh(rho) - Z * error, math.atanh(rho) + Z * error)
    return Correlated(rho, math.tanh(ends[0]), math.tanh(ends[1]))


def least_correlation(n_labelled: int) -> float:
    """Return 1/√(n_l − 2), below which estimating λ costs more than it gains.

    >>> least_correlation(102)
    0.1
    """
    return 1 / math.sqrt(n_labelled - 2) if n_labelled > 2 else math.inf


def _gain(term: str, rho: Correlated, n_l: int, n_u: int, least: float) -> GainFacts:
    ratio = 1 - n_u / (n_l + n_u) * rho.value**2
    return GainFacts(
        term=term,
        correlation=rho.value,
        low=rho.low,
        high=rho.high,
        variance_ratio=ratio,
        equivalent_labels=n_l / max(ratio, 1e-9),
        worth_it=abs(rho.value) > least,
    )
