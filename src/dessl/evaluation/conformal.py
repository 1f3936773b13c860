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
"""

import math
import warnings
from typing import NamedTuple

import torch
from torch import Tensor

from dessl._checks import ArrayLike
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
    """

    threshold: float
    coverage: float
    lam: float
    n_labelled: int
    n_unlabelled: int
    shift_p_value: float

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
    shift = checked_shift(sample, None, check_shift)
    p, labels = (one.cpu() for one in checked_pair(probabilities_labelled, y))
    m, unlabelled = len(p), len(sample.unlabelled.h)
    own = 1 - p[torch.arange(m), labels]
    split = _split_threshold(own, coverage)
    if given is None or not unlabelled or split == 1.0:
        return PredictionSets(split, coverage, 0.0, m, unlabelled, shift.p_value)
    p_u = checked_probabilities(given).cpu()
    threshold, lam = _debiased_threshold(own, p, p_u, coverage)
    return PredictionSets(threshold, coverage, lam, m, unlabelled, shift.p_value)


def _split_threshold(scores: Tensor, coverage: float) -> float:
    """The ⌈(m + 1) c⌉-th smallest score; 1, which includes all classes, if m is too small."""
    m = len(scores)
    rank = math.ceil((m + 1) * coverage - 1e-9)
    if rank > m:
        least = math.ceil(coverage / (1 - coverage) - 1e-9)
        warnings.warn(
            f"{m} labelled rows are too few for sets with coverage {coverage:g}: every set has all "
            f"classes. Label at least {least} rows, or lower the coverage.",
            stacklevel=3,
        )
        return 1.0
    return float(scores.sort().values[rank - 1])


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
