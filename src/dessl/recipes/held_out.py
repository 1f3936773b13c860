"""Labels held out in folds, the λ they suggest, and whether unlabelled rows helped.

Rows of one group, such as copies of one row, are not independent: in a mean, a group counts as many
rows as it has; in a standard error, it counts as one label.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dessl.data import LabelDraw, SemiData
from dessl.evaluation.verdict import CONFIDENCE, OVER_LABELS, Comparison
from dessl.surrogates import Rows, Surrogate, losses_and_terms
from dessl.theory import LambdaEstimate, correlation, inverse_propensity_lambda
from dessl.theory.centre import centred, precision_of, settled
from dessl.theory.lambda_estimate import SlopeFit, estimate_from_slope, least_squares
from dessl.training.watch import id_range, validation_ids

FOLDS = 5
FEWEST_LABELS = 10  # with fewer, none is held out
LARGEST_SLOPE = 1.0  # of L on H; λ is at most this times the share of unlabelled rows
METHOD = "training with unlabelled rows"
LEAST_LABELS = 3  # for a slope with a standard error


@dataclass(frozen=True)
class HeldOutCheck:
    """Cross-entropies on held-out labels, each row predicted by a network that never saw it.

    Attributes:
        n: Number of held-out labels; rows of one group count as one.
        complete_case: Mean cross-entropy of the complete case.
        with_unlabelled: Mean cross-entropy with the unlabelled rows.
        difference: Mean of the second minus the first; negative if unlabelled rows helped.
        standard_error: Standard error of the difference over the n labels.
        compared: The difference of Brier scores, for a verdict; None with fewer than three labels.
    """

    n: int
    complete_case: float
    with_unlabelled: float
    difference: float
    standard_error: float
    compared: Comparison | None = None

    @property
    def helped(self) -> bool:
        """Whether unlabelled rows lowered the cross-entropy by more than one standard error."""
        return self.difference < -self.standard_error

    @property
    def comparison(self) -> Comparison:
        """The difference with its t-interval; with one label there is no interval.

        >>> HeldOutCheck(60, 0.546, 0.539, -0.007, 0.005).comparison.outcome()
        'cannot tell yet'
        """
        return loss_comparison(METHOD, self.difference, self.standard_error, self.n)


def loss_comparison(
    method: str,
    difference: float,
    standard_error: float,
    n: int,
    confidence: float = CONFIDENCE,
) -> Comparison:
    """Return a difference of cross-entropies on n held-out labels, with Student's interval.

    Args:
        method: Name of the method that is compared with the complete case.
        difference: Mean difference.
        standard_error: Standard error of the mean.
        n: Number of labels.
        confidence: Nominal coverage of the interval.
    """
    from scipy import special

    half, p_value = math.nan, math.nan
    if n > 1 and math.isfinite(standard_error):
        half = float(special.stdtrit(n - 1, (1 + confidence) / 2)) * standard_error
        p_value = 1.0
    if standard_error > 0 and not math.isnan(half):
        p_value = 2 * float(special.stdtr(n - 1, -abs(difference) / standard_error))
    low, high = difference - half, difference + half
    return Comparison(
        "cross_entropy", method, "complete case", difference, low, high, p_value, confidence,
        OVER_LABELS, n,
    )  # fmt: skip


def held_out_check(
    complete_case: Tensor,
    with_unlabelled: Tensor,
    groups: Tensor | None = None,
    *,
    propensity: Tensor | None = None,
) -> HeldOutCheck:
    """Compare two models' losses on the same held-out rows, (m,) each.

    With w the rows of a group, d their mean difference and d̄ = Σ w d / Σ w, sums over n groups,

        standard error = √(n / (n − 1) · Σ w² (d − d̄)²) / Σ w,

    which is that of a plain mean if all groups have the same number of rows.

    Args:
        complete_case: Losses of the complete case.
        with_unlabelled: Losses with the unlabelled rows.
        groups: Group numbers (m,); by default each row is its own group.
        propensity: π of the rows, (m,): means weight each row by 1/π.

    >>> check = held_out_check(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.5, 2.0, 2.0]))
    >>> check.difference, round(check.standard_error, 4), check.helped
    (-0.5, 0.2887, True)
    """
    difference = (with_unlabelled - complete_case).double()
    if propensity is not None:
        return _weighted_check(complete_case, with_unlabelled, groups, 1 / propensity.double())
    sums, sizes = _by_group(difference, groups)
    size, n = sizes.mean(), len(sizes)
    # d̄ + w (d − d̄) / (mean of w), so that with equal weights it is d to the last digit.
    weighted = (sums - (sizes - size) * difference.mean()) / size
    error = float(weighted.std()) / math.sqrt(n) if n > 1 else math.inf
    return HeldOutCheck(
        n=n,
        complete_case=float(complete_case.double().mean()),
        with_unlabelled=float(with_unlabelled.double().mean()),
        difference=float(difference.mean()),
        standard_error=error,
    )


def _weighted_check(
    complete_case: Tensor, with_unlabelled: Tensor, groups: Tensor | None, weights: Tensor
) -> HeldOutCheck:
    """As above with a weight v for each row: d̄ = Σ v d / Σ v, and v (d − d̄) summed by group."""
    share = weights / weights.sum()
    first, second = (float(share @ part.double()) for part in (complete_case, with_unlabelled))
    rest = share * ((with_unlabelled - complete_case).double() - (second - first))
    sums, _ = _by_group(rest, groups)
    n = len(sums)
    error = math.sqrt(n / (n - 1) * float(sums @ sums)) if n > 1 else math.inf
    return HeldOutCheck(n, first, second, second - first, error)


def _by_group(values: Tensor, groups: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the sum and the number of values in each group, (n,) each."""
    if groups is not None:
        _, number, sizes = torch.unique(
            groups.to(values.device), return_inverse=True, return_counts=True
        )
        if len(sizes) < len(values):
            sums = values.new_zeros(len(sizes)).index_add(0, number, values)
            return sums, sizes.to(values.dtype)
    return values, torch.ones_like(values)


def losses_and_h(
    models: Sequence[nn.Module], surrogate: Surrogate, parts: Sequence[SemiData]
) -> tuple[Tensor, Tensor]:
    """Return L and H of every held-out row, (n,) each, from the model that never saw its label.

    Args:
        models: Models in evaluation mode, one for each part.
        surrogate: The surrogate as after the model's training, or untrained.
        parts: The data of each model, with its held-out rows.
    """
    found = []
    for model, data in zip(models, parts, strict=True):
        if data.validation is None:
            raise ValueError("every part must have held-out rows.")
        own = copy.deepcopy(surrogate)
        own.prepare(model, id_range(data), data.n_classes)
        own.to(data.device)
        x, y = data.validation
        found.append(losses_and_terms(model.eval(), own, Rows(x, validation_ids(data)), y))
    return torch.cat([part.loss for part in found]), torch.cat([part.h for part in found])


def held_out_lambda(
    loss: Tensor, h: Tensor, data: SemiData, bound: float, groups: Tensor | None = None
) -> LambdaEstimate | None:
    """Return the estimated λ of least variance, in [0, 1] and within a bound.

    None if there are too few labels. The error, the variance ratio and the range are those of the
    risk over the training rows.

    Args:
        loss: L of held-out rows, (m,).
        h: H of the same rows, (m,).
        data: The training data.
        bound: The largest λ for which the risk is bounded below.
        groups: Group numbers (m,); by default each row is its own group.
    """
    if len(_by_group(h.double(), groups)[1]) < LEAST_LABELS or not data.n_unlabelled:
        return None
    loss, h = (settled(values.double(), precision_of(values)) for values in (loss, h))
    # The slope is from held-out rows; the row counts are those of training.
    share = data.n_unlabelled / (data.n_labelled + data.n_unlabelled)
    return estimate_from_slope(
        _slope(loss, h, groups),
        correlation(loss, h),
        data.n_labelled,
        data.n_unlabelled,
        shrink="james_stein",
        on="unlabelled",
        clip=(0.0, share * min(LARGEST_SLOPE, bound)),
    )


def weighted_lambda(
    loss: Tensor, h: Tensor, propensity: Tensor, bound: float
) -> LambdaEstimate | None:
    """Return the λ of least variance for labels weighted by 1/π, in [0, 1] and within a bound.

    Shrunk like the slope of :func:`held_out_lambda`; None if labels are too few.

    Args:
        loss: L of held-out rows, (m,).
        h: H of the same rows, (m,).
        propensity: π of the same rows, (m,).
        bound: The largest λ for which the risk is bounded below.
    """
    if len(loss) < LEAST_LABELS:
        return None
    found = inverse_propensity_lambda(loss.double(), h.double(), propensity.double())
    kept = max(0.0, 1 - (found.standard_error / found.lam) ** 2) if found.lam else 0.0
    lam = max(0.0, min(found.lam * kept, LARGEST_SLOPE, bound))
    return LambdaEstimate(
        lam=lam,
        standard_error=found.standard_error,
        correlation=correlation(loss, h),
        variance_ratio=found.variance_ratio,
        range=(0.0, max(0.0, 2 * found.lam)),
    )


def _slope(loss: Tensor, h: Tensor, groups: Tensor | None) -> SlopeFit:
    """Regress L on H, with a standard error that treats each group as one label.

    With h centred, e the residuals of m rows in n groups and s the sum of h in a group, the error
    is √(Σ e² n / (m (n − 2)) · Σ s²) / Σ h²; with one row per group, this is the usual
    least-squares error.
    """
    fit = least_squares(loss, h)
    h = centred(h)
    sums, _ = _by_group(h, groups)
    squares, m, n = float(h @ h), len(h), len(sums)
    if squares == 0:
        return fit
    factor = (m - 2) * n / (m * (n - 2)) * (float(sums @ sums) / squares)
    return fit._replace(standard_error=fit.standard_error * math.sqrt(factor))


class HeldOutParts(NamedTuple):
    """The data of each network, and the group of each held-out row.

    Attributes:
        data: The data of each network, with its held-out rows.
        groups: Group numbers (n,) in order of the parts; rows of one group count as one label.
        folds: (n_labelled,) the part that holds out each label, or −1.
        all_groups: Group numbers (n_labelled,) of all labels.
    """

    data: tuple[SemiData, ...]
    groups: Tensor
    folds: Tensor
    all_groups: Tensor


def fold_numbers(y: Tensor, groups: Tensor, seed: int) -> Tensor:
    """Return the fold 0, ..., 4 of each label, (n,), or all -1 if labels are too few.

    Classes are spread evenly over the folds, a group with several classes as the rarest of them. A
    class with only one group of rows is in no fold
    (-1): a network that never saw a class cannot be evaluated on it. If the other classes would
    leave a fold empty, there are too few labels.

    Args:
        y: (n,) class numbers.
        groups: Group numbers (n,); rows of one group, such as copies of one row, share a fold.
        seed: Seed of the order within a class.

    >>> y = torch.tensor([0, 1] * 10 + [2])
    >>> folds = fold_numbers(y, torch.arange(21), seed=0)
    >>> folds[y < 2].bincount().tolist(), int(folds[-1])
    ([4, 4, 4, 4, 4], -1)
    """
    folds = torch.full_like(y, -1)
    generator = torch.Generator().manual_seed(seed)
    _, number = torch.unique(groups, return_inverse=True)
    n_groups = int(number.max()) + 1
    if n_groups < FEWEST_LABELS:
        return folds
    first = _rarest_classes(y.cpu(), number.cpu(), n_groups)
    order = torch.randperm(n_groups, generator=generator)
    order = order[first[order].argsort(stable=True)]
    order = order[first.bincount()[first[order]] > 1]
    if len(order) < FOLDS:
        return folds
    turn = torch.full((n_groups,), -1)
    turn[order] = torch.arange(len(order)) % FOLDS
    return turn.to(y.device)[number]


def _rarest_classes(y: Tensor, number: Tensor, n_groups: int) -> Tensor:
    """The class of each group, (n_groups,): the rarest one of its labels, if they differ."""
    by_count = y.bincount().argsort(stable=True)
    rank = by_count.argsort()[y]
    lowest = torch.full((n_groups,), len(by_count)).scatter_reduce(0, number, rank, "amin")
    return by_count[lowest]


def held_out_parts(
    data: SemiData, groups: Tensor | None, *, members: int, seed: int
) -> HeldOutParts:
    """Return the data of each network, with one fold or the data's own validation part held out.

    Args:
        data: The data with its labels.
        groups: Group numbers (n_labelled,), see :func:`fold_numbers`; by default each row is its
            own.
        members: Number of folds to hold out, 1 to 5.
        seed: Seed of the folds.
    """
    y = data.y[data.labelled_rows].cpu()
    none = torch.full_like(y, -1)
    numbers = torch.arange(len(y)) if groups is None else groups.cpu()
    if data.validation is not None:
        own = torch.arange(len(data.validation.y))
        return HeldOutParts((data,), own, none, numbers)
    if numbers.shape != y.shape:
        raise ValueError(
            f"groups must have one number for each of the {len(y)} labelled rows, shape "
            f"({len(y)},); got {tuple(numbers.shape)}. Omit the unlabelled rows."
        )
    folds = fold_numbers(y, numbers, seed)
    if not bool((folds >= 0).any()):
        return HeldOutParts((data,), numbers[:0], none, numbers)
    folds = torch.where(folds < members, folds, -1)
    held_out = torch.cat([numbers[folds == fold] for fold in range(members)])
    parts = tuple(fold_data(data, folds.to(data.device), fold) for fold in range(members))
    return HeldOutParts(parts, held_out, folds, numbers)


def fold_data(data: SemiData, folds: Tensor, fold: int) -> SemiData:
    """Return the data with one fold's labels held out for validation.

    If rows have propensities, the same share of the unlabelled rows is left out, so that the rest
    is a random part of all rows, each labelled with its original probability.
    """
    rows, held_out = data.labelled_rows, folds == fold
    unlabelled = data.unlabelled_rows
    if data.propensity is not None:
        unlabelled = unlabelled[torch.arange(len(unlabelled), device=data.device) % FOLDS != fold]
    return data.with_labels(LabelDraw(rows[~held_out], rows[held_out], unlabelled))


def held_out_propensity(parts: Sequence[SemiData]) -> Tensor | None:
    """Return π of every held-out row, (n,), in order of the parts; None if unknown."""
    if any(part.propensity is None or not len(part.validation_rows) for part in parts):
        return None
    return torch.cat([p.propensity[p.validation_rows] for p in parts if p.propensity is not None])
