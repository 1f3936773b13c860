"""Labels drawn by design: with known probabilities, by strata, or by class.

The population is all rows together, labelled or not; row i was labelled with probability π_i. With
weights a_i ∝ 1/π_i that sum to one (Hájek), or that sum to each stratum's share of all rows,

    θ̂ = Σ_L a_i L_i + λ ( mean_all H − Σ_L a_i H_i )

estimates the mean of L over the population. Row i moves it by

    c_i = a_i (r_i − r̄) + λ (H_i − mean_all H)/n,    r = L − λH,

without the first term if it is unlabelled, where r̄ is the weighted mean of r over the labelled rows
of its stratum. V(θ̂) = Σ c_i² with residuals corrected for leverage, and λ minimises it: it is a
regression slope over all rows. With equal a_i and one stratum this is the estimate for labels
missing at random. If rows belong together, sums over their groups take the place of c_i
(:mod:`dessl.evaluation.debiased.groups`).
"""

import math
import warnings
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dessl import _checks
from dessl._checks import ArrayLike
from dessl.evaluation.debiased.fit import LAM_RANGE, Fit, without_rounding
from dessl.evaluation.debiased.groups import Groups, NarrowIntervalWarning, groups_of
from dessl.evaluation.debiased.proxies import Sample
from dessl.evaluation.debiased.shift import LEAST_LABELS, ShiftTest
from dessl.theory import correlation

LEAST_IN_STRATUM = 2
RULE_OF_THREE = 3.0  # errors in m rows that are likely to be missed: 95 % bound with none seen
UNSEEN = 0.08  # share of all rows that may be wrong in a stratum without a warning
LIKELY_ROWS = 2  # pseudo-rows of the mean weight, added to each predicted class


class Design(NamedTuple):
    """How rows were chosen for labelling.

    Attributes:
        weights: Weight a, the share of the population that each labelled row stands for, (m,),
            summing to one.
        strata: The stratum of each labelled row, numbered from 0, (m,).
        others: Weight a that the unlabelled rows would have if labelled, if strata give it, (n_u,).
        rows: Number of rows from which the strata's sizes are known; the whole sample if None.
        groups: Groups of all rows, if rows belong together.
    """

    weights: Tensor
    strata: Tensor
    others: Tensor | None = None
    rows: int | None = None
    groups: Groups | None = None

    @property
    def at_random(self) -> bool:
        """Whether every row was equally likely to be labelled."""
        return not bool(self.strata.any()) and bool((self.weights == self.weights[0]).all())

    @property
    def effective_labels(self) -> float:
        """Kish's number of equally weighted labels, 1/Σ a²."""
        return 1 / float(self.weights.square().sum())


def design_of(
    labelled: int,
    unlabelled: int,
    propensity: "ArrayLike | None",
    strata: "ArrayLike | None",
    strata_unlabelled: "ArrayLike | None",
    groups: "ArrayLike | None" = None,
    groups_unlabelled: "ArrayLike | None" = None,
) -> Design | None:
    """Check how rows were labelled; None for independent labels missing completely at random.

    >>> design_of(4, 6, None, ["a", "a", "b", "b"], ["a"] * 1 + ["b"] * 5).weights
    tensor([0.1500, 0.1500, 0.3500, 0.3500], dtype=torch.float64)
    >>> design_of(2, 3, [0.5, 0.25], None, None).weights
    tensor([0.3333, 0.6667], dtype=torch.float64)
    """
    design = _drawn_by(labelled, unlabelled, propensity, strata, strata_unlabelled)
    found = groups_of(labelled, unlabelled, groups, groups_unlabelled)
    if found is None:
        return design
    if design is None:
        equal = torch.full((labelled,), 1 / labelled, dtype=torch.float64)
        design = Design(equal, torch.zeros(labelled, dtype=torch.int64))
    elif strata is not None:
        names = [_names("strata", strata, labelled)]
        if strata_unlabelled is not None:
            names.append(_names("strata_unlabelled", strata_unlabelled, unlabelled))
        _check_whole(found, np.concatenate(names))
    return design._replace(groups=found)


def _check_whole(groups: Groups, strata: "np.ndarray[tuple[int], np.dtype[np.str_]]") -> None:
    """Refuse strata that split a group, and those with a single labelled group."""
    number = groups.number[: len(strata)].numpy()
    pairs = np.unique(np.stack([number, np.unique(strata, return_inverse=True)[1]]), axis=1)
    if split := pairs.shape[1] - len(np.unique(number)):
        raise ValueError(
            f"each group must lie within one stratum, so that strata are independent; {split} "
            "groups lie in several. Omit the strata (--strata), or use strata of whole groups."
        )
    names, counts = np.unique(pairs[1][pairs[0] < groups.labelled], return_counts=True)
    if counts.min() < LEAST_IN_STRATUM:
        name = np.unique(strata)[names[counts.argmin()]]
        raise ValueError(
            f"each stratum needs labelled rows of at least {LEAST_IN_STRATUM} groups for a "
            f"variance; '{name}' has {counts.min()}. Merge it with another."
        )


def _drawn_by(
    labelled: int,
    unlabelled: int,
    propensity: "ArrayLike | None",
    strata: "ArrayLike | None",
    strata_unlabelled: "ArrayLike | None",
) -> Design | None:
    """Check propensities and strata; None if there are none."""
    if propensity is None and strata is None and strata_unlabelled is None:
        return None
    chances = None if propensity is None else _propensities(propensity, labelled)
    if strata is None:
        if strata_unlabelled is not None or chances is None:
            raise ValueError("strata_unlabelled needs strata, those of the labelled rows.")
        return Design(_shares(chances), torch.zeros(labelled, dtype=torch.int64))
    names, index = np.unique(_names("strata", strata, labelled), return_inverse=True)
    number = torch.as_tensor(index.reshape(-1)).long()
    counts = torch.bincount(number)
    if int(counts.min()) < LEAST_IN_STRATUM:
        raise ValueError(
            f"each stratum needs at least {LEAST_IN_STRATUM} labelled rows for a variance; "
            f"'{names[int(counts.argmin())]}' has {int(counts.min())}. Merge it with another."
        )
    if chances is not None:
        if strata_unlabelled is not None:
            raise ValueError(
                "pass propensity or strata_unlabelled, not both: each gives the strata's sizes."
            )
        return Design(_shares(chances), number, rows=labelled + unlabelled)
    chances, others = _drawn_shares(names, number, strata_unlabelled, unlabelled)
    likely = 1 / others / (1 / chances).sum()
    return Design(_shares(chances), number, likely, labelled + unlabelled)


def _drawn_shares(
    names: "np.ndarray[tuple[int], np.dtype[np.str_]]",
    number: Tensor,
    strata_unlabelled: "ArrayLike | None",
    unlabelled: int,
) -> tuple[Tensor, Tensor]:
    """m_s/N_s of each labelled and of each unlabelled row."""
    if strata_unlabelled is None:
        raise ValueError(
            "strata need their sizes: pass strata_unlabelled, the strata of the unlabelled rows; "
            "or propensity, if strata are classes, which unlabelled rows do not show."
        )
    others = _names("strata_unlabelled", strata_unlabelled, unlabelled)
    if len(strange := np.setdiff1d(others, names)):
        raise ValueError(
            f"every stratum needs labelled rows; '{strange[0]}' has none among "
            f"{int((others == strange[0]).sum())} unlabelled rows. Its labelling probability is 0, "
            "so it cannot be estimated: label some of its rows, or exclude them."
        )
    drawn = torch.bincount(number).double()
    place = torch.as_tensor(np.searchsorted(names, others))
    share = drawn / (drawn + torch.bincount(place, minlength=len(names)))
    return share[number], share[place]


def _propensities(propensity: "ArrayLike", labelled: int) -> Tensor:
    values = _checks.float64("propensity", propensity, ndim=(1,)).cpu()
    if len(values) != labelled:
        raise ValueError(
            f"propensity must have one probability for each labelled row; got {len(values)} for "
            f"{labelled} rows. Those of unlabelled rows are not needed."
        )
    if not bool(((values > 0) & (values <= 1)).all()):
        raise ValueError(
            f"propensity must lie in (0, 1]; got values from {float(values.min()):.3g} to "
            f"{float(values.max()):.3g}. No weight can represent rows that "
            "could not have been labelled."
        )
    return values


def _names(
    name: str, strata: "ArrayLike", rows: int
) -> "np.ndarray[tuple[int], np.dtype[np.str_]]":
    array = strata.cpu().numpy() if isinstance(strata, Tensor) else np.asarray(strata)
    if array.ndim != 1 or len(array) != rows:
        raise ValueError(
            f"{name} must have one entry for each of the {rows} rows; got shape {array.shape}."
        )
    return array.astype(str)


def _shares(chances: Tensor) -> Tensor:
    weights = 1 / chances
    return weights / weights.sum()


def warn_of_unseen_errors(design: Design, right: Tensor) -> None:
    """Warn if a large stratum has few labels, all of them predicted correctly.

    Its errors are then unknown, not absent. By the rule of three, up to 3/m of its rows may be
    wrong if none of m is.

    Args:
        design: How rows were chosen.
        right: Whether each labelled row is predicted correctly, (m,).
    """
    rows = torch.bincount(design.strata).double()
    counts = rows
    if design.groups is not None:  # rows of one group may all be wrong together
        counts = torch.bincount(_unit_strata(design)).double()
    shares = torch.zeros_like(counts).index_add_(0, design.strata, design.weights)
    wrong = torch.zeros_like(counts).index_add_(0, design.strata, (~right).double())
    unseen = torch.where(wrong == 0, shares * RULE_OF_THREE / counts, 0.0)
    if len(counts) < 2 or float(unseen.max()) <= UNSEEN:
        return
    worst = int(unseen.argmax())
    warnings.warn(
        f"all {int(rows[worst])} labelled rows of a stratum with {float(shares[worst]):.0%} of "
        f"the rows are predicted correctly. Up to {RULE_OF_THREE / float(counts[worst]):.0%} of "
        "its rows may still be wrong, which the interval shows only in part. Label more of them.",
        NarrowIntervalWarning,
        stacklevel=3,
    )


def designed(sample: Sample, design: Design, *, lam: float | None = None) -> Fit:
    """The estimate for labels drawn by design; ``lam=0`` uses the labelled rows only."""
    a, m = design.weights, len(sample.loss)
    h, n = sample.labelled.h, m + len(sample.unlabelled.h)
    every = sample.every_h - sample.every_h.mean()
    if not len(sample.unlabelled.h):
        lam = 0.0
    loss_off, h_off = (_off_stratum(values, design) for values in (sample.loss, h))
    towards = torch.cat([a * h_off, a.new_zeros(n - m)]) - every / n  # c_i = a_i L_i − λ towards_i
    moved = torch.cat([a * loss_off, a.new_zeros(n - m)])
    units, share, strata, known = m, a, design.strata, float(design.rows or n)
    labels = certain = design.effective_labels
    shared: Tensor | None = None
    if (groups := _groups_in(design, n)) is not None:
        towards, moved, share = (groups.totals(one) for one in (towards, moved, a))
        units, strata = groups.labelled, _unit_strata(design)
        shared = groups.shared_weights(a, loss_off)
        labels, certain = 1 / float(a @ shared), groups.effective(a)
        known *= groups.effective(a.new_ones(n)) / n
    if lam is None:
        lam = _least_variance(moved, towards)
    effect = moved - lam * towards
    inside = a.new_zeros(int(strata.max()) + 1).index_add_(0, strata, share)
    leverage = share / inside[strata]
    if lam:
        leverage = leverage + towards[:units].square() / towards.square().sum()
    plain = float(a @ sample.loss)
    apart = float(a @ (sample.loss - loss_off - plain).square())
    between = apart / known  # the strata's sizes are estimates themselves
    return Fit(
        value=plain + lam * float(sample.every_h.mean() - a @ h),
        lam=lam,
        bend=0.0,
        correlation=correlation(sample.loss, h),
        beliefs=lam * sample.every_h,
        residuals=effect[:units] * math.sqrt(units * labels),
        leverage=leverage.clamp(max=1 - 1 / units),
        unlabelled_variance=float(effect[units:].square().sum()) + between,
        degrees=max(1.0, certain - len(inside) - bool(lam)),
        labels=labels,
        plain=plain,
        loss_variance=without_rounding(float(a @ (sample.loss - plain).square())),
        seen_variance=float(a @ (h - a @ h).square()),
        weights=a,
        shared=shared,
    )


def _groups_in(design: Design, rows: int) -> Groups | None:
    """The groups of the first rows: all, or the labelled ones alone."""
    groups = design.groups
    if groups is None or rows == len(groups.number):
        return groups
    return Groups(groups.number[:rows], groups.labelled, groups.labelled)


def _unit_strata(design: Design) -> Tensor:
    """The stratum of each labelled group, (labelled groups,)."""
    if design.groups is None:
        return design.strata
    found = design.strata.new_zeros(design.groups.labelled)
    return found.index_copy_(0, design.groups.number[: len(design.strata)], design.strata)


def best_design(sample: Sample, design: Design) -> Fit:
    """The fit with or without unlabelled rows, whichever has the smaller standard error."""
    both = (designed(sample, design), designed(sample, design, lam=0.0))
    return min(both, key=lambda fit: fit.standard_error(fit.leverage_variance))


def likely_weights(sample: Sample, design: Design) -> Tensor:
    """The weight â that each row would have if labelled, for two models, (m + n_u,).

    Strata determine it. Otherwise it is that of the labelled rows of the same predicted class:
    among rows labelled with probability π the mean of 1/π over the population is Σ a²/Σ a, with two
    pseudo-rows of the mean over all classes.
    """
    a = design.weights
    if design.others is not None:
        return torch.cat([a, design.others])
    labelled, others = sample.labelled.predicted, sample.unlabelled.predicted
    if labelled is None or others is None:
        return a.square().sum().expand(len(sample.every_h))
    classes = torch.cat([labelled, others]).div(2, rounding_mode="floor")
    total, squares = (
        a.new_zeros(int(classes.max()) + 1).index_add_(0, classes[: len(a)], values)
        for values in (a, a.square())
    )
    some = LIKELY_ROWS / len(a)
    return ((squares + some * a.square().sum()) / (total + some))[classes]


def _off_stratum(values: Tensor, design: Design) -> Tensor:
    """Values minus the weighted mean of their stratum."""
    size = int(design.strata.max()) + 1
    total = values.new_zeros(size).index_add_(0, design.strata, design.weights * values)
    share = values.new_zeros(size).index_add_(0, design.strata, design.weights)
    return values - (total / share)[design.strata]


def _least_variance(moved: Tensor, towards: Tensor) -> float:
    """The regression slope of one on the other, shrunk as by James and Stein, in [0, 1]."""
    square = float(towards @ towards)
    if square == 0:
        return 0.0
    slope = float(moved @ towards) / square
    error = float((towards * (moved - slope * towards)).norm()) / square
    if abs(slope) <= error:
        return 0.0
    return min(LAM_RANGE[1], max(LAM_RANGE[0], slope * (1 - (error / slope) ** 2)))


def balance_test(sample: Sample, design: Design) -> ShiftTest:
    """Test whether the weighted labelled rows have the same mean H as all rows."""
    m, n = len(sample.loss), len(sample.every_h)
    if min(m, n - m) < LEAST_LABELS:
        return ShiftTest(math.nan, 0.0, 0.0)
    gap = float(design.weights @ sample.labelled.h - sample.every_h.mean())
    own = design.weights * _off_stratum(sample.labelled.h, design)
    every = (sample.every_h - sample.every_h.mean()) / n
    terms = torch.cat([own, own.new_zeros(n - m)]) - every
    labels = design.effective_labels
    if design.groups is not None:
        terms, labels = design.groups.totals(terms), design.groups.effective(design.weights)
    error = float(terms.norm())
    if error == 0:
        return ShiftTest(1.0, 0.0, 0.0)
    from scipy import special

    z = gap / error
    degrees = max(1.0, labels - 1 - int(design.strata.max()))
    return ShiftTest(2 * float(special.stdtr(degrees, -abs(z))), z, z * z)
