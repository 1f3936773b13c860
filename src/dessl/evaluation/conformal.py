"""Prediction sets: the classes that a row may have, such that 90 % of the sets contain its label.

A set contains the classes with score s_k = 1 − p_k ≤ t. Split conformal prediction takes for t the
⌈(m + 1) c⌉-th smallest score s_y of m labelled rows: over draws of the labels the sets of new rows
then contain their label with probability at least c, for any model. From few labels, though, t
itself varies: a given t may cover much less or much more than c.

Unlabelled rows make t more precise. The share of labels with a score up to t is a mean of
1[s_y ≤ t], which the model expects to be H_t = Σ_k p_k 1[s_k ≤ t], so that

    F̂(t) = mean_L 1[s_y ≤ t] + λ ( mean_U H_t − mean_L H_t )

estimates it without bias, and t is the smallest s_y from which F̂(t) ≥ c (n + 1)/n, as in split
conformal prediction, with n the number of equivalent labels of F̂: m divided by the share of
variance that H_t leaves. With λ = 0 the rule is split conformal prediction's. With λ > 0 its
coverage is no longer exact in finite samples; benchmarks/coverage/more.py measures it.

If rows belong to groups, such as a patient's, the groups are exchangeable and the rows are not.
Hierarchical conformal prediction (Lee, Barber and Willett, arXiv:2306.06342) gives each of the G
groups the same weight, and t is the smallest score with

    1/(G + 1) Σ_g mean_{i ∈ g} 1[s_{y_i} ≤ t] ≥ c,

so that the set of a row drawn from a new group contains its label with probability at least c,
whatever the correlation within groups, if the labelled rows are all of their group or drawn from
it. Unlabelled rows are not used then.
"""

import math
import warnings
from typing import NamedTuple

import torch
from torch import Tensor

from dessl._checks import ArrayLike
from dessl.evaluation.debiased.groups import Groups, groups_of
from dessl.evaluation.debiased.inputs import checked_confidence, checked_shift
from dessl.evaluation.debiased.proxies import METRICS, sampled
from dessl.evaluation.metrics.predictions import checked_pair, checked_probabilities
from dessl.theory import optimal_lambda

ROUNDING = 1e-12


class PredictionSets(NamedTuple):
    """A rule that gives each row a set of classes.

    Attributes:
        threshold: t; a class is in the set if 1 − p_k ≤ t, and so is the most likely one.
        coverage: Requested coverage.
        lam: λ at the threshold; 0 for split conformal prediction.
        n_labelled: Number m of labelled rows.
        n_unlabelled: Number n_u of unlabelled rows.
        shift_p_value: p-value of the test whether unlabelled rows look like labelled ones; NaN if
            not tested.
        n_groups: Number of groups with labelled rows; None if each row is its own.
    """

    threshold: float
    coverage: float
    lam: float
    n_labelled: int
    n_unlabelled: int
    shift_p_value: float
    n_groups: int | None = None

    def sets(self, probabilities: ArrayLike) -> Tensor:
        """Which classes are in each row's set, (n, classes), boolean.

        The most likely class is always included, so that no set is empty.

        >>> rule = PredictionSets(0.6, 0.9, 0.0, 20, 0, float("nan"))
        >>> rule.sets([[0.5, 0.5], [0.9, 0.1]]).tolist()
        [[True, True], [True, False]]
        """
        p = checked_probabilities(probabilities)
        return self.above(p).scatter(1, p.argmax(dim=1, keepdim=True), True)

    def above(self, probabilities: ArrayLike) -> Tensor:
        """Which classes have a probability of at least 1 − threshold, (n, classes), boolean.

        A row may have none.

        >>> PredictionSets(0.2, 0.9, 0.0, 20, 0, float("nan")).above([[0.6, 0.4]]).tolist()
        [[False, False]]
        """
        p = checked_probabilities(probabilities)
        return 1 - p <= self.threshold + ROUNDING


def prediction_sets(
    probabilities_labelled: ArrayLike,
    y: ArrayLike,
    probabilities_unlabelled: "ArrayLike | None" = None,
    *,
    coverage: float = 0.9,
    groups: "ArrayLike | None" = None,
    check_shift: bool = True,
) -> PredictionSets:
    """Find the threshold of prediction sets from few labelled and many unlabelled rows.

    Args:
        probabilities_labelled: Predicted probabilities of labelled rows that the model was not
            trained on, (m, classes), m ≥ 3.
        y: Their labels, (m,).
        probabilities_unlabelled: Predicted probabilities of unlabelled rows, (n_u, classes).
            Without them, this is split conformal prediction.
        coverage: Share of new rows whose set should contain their label, in (0, 1).
        groups: The group of each labelled row, (m,), if rows belong together, such as those of one
            patient. The coverage then holds for rows of new groups, each group counting the same,
            however many rows it has; unlabelled rows are not used.
        check_shift: Same as in :func:`estimate_metric`.

    >>> p = [[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.3, 0.7]] * 5
    >>> rule = prediction_sets(p, [0, 1, 1, 1] * 5, coverage=0.7)
    >>> round(rule.threshold, 2), rule.sets([[0.75, 0.25]]).tolist()
    (0.3, [[True, False]])
    """
    coverage = checked_confidence(coverage, "coverage")
    given = probabilities_unlabelled
    others = () if given is None else (given,)
    sample = sampled(METRICS["error"], (probabilities_labelled,), y, others)
    p, labels = (one.cpu() for one in checked_pair(probabilities_labelled, y))
    m, unlabelled = len(p), len(sample.unlabelled.h)
    own = 1 - p[torch.arange(m), labels]
    together = groups_of(m, 0, groups, None)
    split = _split_threshold(own, coverage, together)
    if together is not None:
        return PredictionSets(split, coverage, 0.0, m, 0, math.nan, together.labelled)
    shift = checked_shift(sample, None, check_shift)
    if given is None or not unlabelled or split == 1.0:
        return PredictionSets(split, coverage, 0.0, m, unlabelled, shift.p_value)
    p_u = checked_probabilities(given).cpu()
    threshold, lam = _debiased_threshold(own, p, p_u, coverage)
    return PredictionSets(threshold, coverage, lam, m, unlabelled, shift.p_value)


def _split_threshold(scores: Tensor, coverage: float, groups: Groups | None) -> float:
    """The ⌈(m + 1) c⌉-th smallest score; 1, which includes all classes, if m is too small.

    With groups, the same quantile for as many equally weighted groups.
    """
    n, rows = len(scores), torch.ones_like(scores)
    if groups is not None:
        n, rows = groups.labelled, 1 / groups.totals(rows)[groups.number]
    if coverage > n / (n + 1) + ROUNDING:
        least = math.ceil(coverage / (1 - coverage) - 1e-9)
        what, label = ("labelled rows", "") if groups is None else ("labelled groups", "rows of ")
        unit = "rows" if groups is None else "groups"
        warnings.warn(
            f"{n} {what} are too few for sets with coverage {coverage:g}: every set has all "
            f"classes. Label {label}at least {least} {unit}, or lower the coverage.",
            stacklevel=3,
        )
        return 1.0
    ordered = scores.sort()
    below = rows[ordered.indices].cumsum(0)  # in rows, or in groups
    first = int(torch.searchsorted(below, (n + 1) * coverage - 1e-9))
    return float(ordered.values[min(first, len(scores) - 1)])


def _debiased_threshold(
    own: Tensor, p: Tensor, p_u: Tensor, coverage: float
) -> tuple[float, float]:
    """The smallest threshold above which the debiased coverage is large enough, and its λ."""
    candidates = own.sort().values  # F̂ jumps there
    expected_u = _expected_below(p_u.flatten(), candidates, len(p_u))
    best, best_lam = 1.0, 0.0
    for t, h_u in zip(candidates.flip(0).tolist(), expected_u.flip(0).tolist(), strict=True):
        inside = (own <= t).double()
        h = torch.where(1 - p <= t, p, torch.zeros_like(p)).sum(dim=1)
        share, lam, value = _estimate(inside, h, h_u, len(p_u))
        labels = len(own) / share
        if value < coverage * (labels + 1) / labels - ROUNDING:
            break
        best, best_lam = t, lam
    return best, best_lam


def _expected_below(p: Tensor, thresholds: Tensor, rows: int) -> Tensor:
    """mean_U H_t for each threshold: the mass of p over entries with 1 − p ≤ t."""
    ordered = (1 - p).sort()
    mass = torch.cat([p.new_zeros(1), p[ordered.indices].cumsum(0)]) / rows
    return mass[torch.searchsorted(ordered.values, thresholds, right=True)]


def _estimate(
    inside: Tensor, h: Tensor, mean_u: float, unlabelled: int
) -> tuple[float, float, float]:
    """The share of variance that H leaves, λ and F̂ at one threshold."""
    plain = float(inside.mean())
    variance = float(inside.var())
    if variance == 0 or float(h.var()) == 0:
        return 1.0, 0.0, plain
    stand_in = torch.full((unlabelled,), mean_u, dtype=h.dtype)  # λ needs only how many there are
    found = optimal_lambda(inside, h, stand_in, clip=(0.0, 1.0))
    value = plain + found.lam * (mean_u - float(h.mean()))
    return min(1.0, max(1e-3, found.variance_ratio)), found.lam, min(1.0, value)
