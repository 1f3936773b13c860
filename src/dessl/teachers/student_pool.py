"""Pool students, imitations, trees and other models with the gold-only networks; gold rows decide.

    w = argmin_{w ≥ 0}  CE(softmax Σ_m w_m log p_m) + 3/n (Σw − 1)² + 0.5/n Σ_{m>0} w_m²

The weights for a gold row, and the settings of the other models, are fitted without its fold. The
pool with answers is kept if a member that uses them has a weight, and if its cross-entropy is below
that of the pool without them by one standard error; one that takes answers as input must also be
better than what is kept without it, by half of one. The pool without answers is kept unless the
gold-only networks alone are better by one.

n gold rows cannot show that answers mislead less often than about once in n: answers as input are
doubted, (1 − ε) p + ε p_alone with ε = 1/(n + 2), Laplace's estimate for no error in n rows.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from dessl.data.labels import MISSING
from dessl.evaluation import estimate_metric
from dessl.teachers.answers import answered_by_any
from dessl.teachers.choice import Choice, Interval, passes
from dessl.teachers.crossfit import FOLDS
from dessl.teachers.pool import (
    LEAST_WEIGHT,
    exponent,
    least_cross_entropy,
    losses,
    mixed,
    weight_penalty,
)
from dessl.teachers.school import Parts, School
from dessl.teachers.taught import Evaluated

TOTAL, OTHERS = 3.0, 0.5  # penalties on Σw − 1, and on all weights but the gold-only networks'
NEEDED = 1.0  # standard errors by which the pool must be better
OVER_ALONE = 0.5  # the same over what predicts without answers, for answers as input
UNKNOWN = Interval(math.nan, math.nan, math.nan)  # until it is decided what is kept
WITHOUT = (0, 1)  # networks of the pool that use no teacher: gold-only ones, self-taught student


def evaluated(
    school: School, parts: Parts, alone: Tensor | None = None
) -> tuple[Choice, Evaluated]:
    """Pool the members with and without the answers; return what gold rows decide, and why.

    Args:
        school: The rows, the gold-only networks and the other models.
        parts: The other networks of the pool, and the trees that learnt from the answers.
        alone: Log-probabilities of what is kept without a teacher at prediction time, (gold and
            other rows, classes), for a pool that takes answers as input: it predicts rows without
            an answer, and the pool must be better than it.
    """
    gold, networks = school.networks.gold, school.out_of_fold(parts)
    names, others = school.others_out_of_fold()
    logs = torch.cat([networks, others])
    n, answered = len(gold.y), _answered(school)
    if alone is None:
        answered = torch.ones_like(answered)
    heard = answered[:n]
    predicted = _predicted(school, parts, networks, heard)
    doubt = 0.0 if alone is None else 1 / (int(heard.sum()) + 2)
    if alone is not None:
        doubted = mixed(predicted[2], alone, doubt)
        predicted[2] = torch.where(answered[:, None], doubted, alone)
    found = [losses(log_p[:n], gold.y) for log_p in predicted]
    raised = found[1] - found[0]
    base = 0 if passes(float(raised.mean()), _standard_error(raised), NEEDED) else 1
    falls = [found[base] - found[2]]
    if alone is not None:
        falls.append(losses(alone[:n], gold.y) - found[2])
    errors = [_standard_error(fall) for fall in falls]
    members, first = _pools(len(networks), len(names)), len(networks) - bool(parts.trees)
    weights = _weights(logs[:, heard], gold.y[heard], members[2], first)
    choice = Choice(
        members=("gold only", *parts.names, *names),
        weights=tuple(weights.tolist()),
        weights_without=tuple(_weights(logs, gold.y, members[base], first).tolist()),
        gold_only_loss=float(found[0].mean()),
        without_loss=float(found[base].mean()),
        pooled_loss=float(found[2].mean()),
        standard_error=errors[0],
        n=n,
        needed=NEEDED,
        accuracy=UNKNOWN,
        accuracy_gold_rows=UNKNOWN,
        alone_loss=None if alone is None else float(losses(alone[:n], gold.y).mean()),
        alone_error=None if alone is None else errors[1],
        answers_weight=float(weights[list(set(members[2]) - set(members[1]))].sum()),
        doubt=doubt,
        needed_over_alone=None if alone is None else OVER_ALONE,
    )
    instead = predicted[base] if alone is None else alone
    p = (predicted[2] if choice.kept else instead).exp()
    accuracy = estimate_metric("accuracy", p[:n], gold.y, p[n:], check_shift=False)
    choice = replace(
        choice,
        accuracy=Interval(accuracy.value, accuracy.low, accuracy.high),
        accuracy_gold_rows=Interval(*accuracy.labelled_only),
    )
    y = torch.cat([gold.y, gold.y.new_full((len(p) - n,), MISSING)])
    return choice, Evaluated(y, predicted[base], predicted[2])


def _standard_error(differences: Tensor) -> float:
    return float(differences.std()) / math.sqrt(len(differences))


def _answered(school: School) -> Tensor:
    """Which gold rows, then which rows kept out of training, a teacher answered."""
    rows = torch.cat([school.gold_rows, school.evaluation_rows])
    return answered_by_any(school.answers)[rows]


def _pools(networks: int, others: int) -> tuple[Sequence[int], ...]:
    """Members of three pools: the gold-only networks, all without answers, and all."""
    every = range(networks + others)
    return (0,), (*WITHOUT, *every[networks:]), every


def _predicted(school: School, parts: Parts, networks: Tensor, heard: Tensor) -> list[Tensor]:
    """Log-probabilities of gold rows, then of rows kept out of training, by the three pools.

    The weights, and the settings of the other models, are fitted without a row's fold; those of
    the pool with answers on gold rows in ``heard``.
    """
    gold, (drawn, folds) = school.networks.gold, school.drawn(parts)
    drawn = torch.cat([drawn, school.others_drawn])
    at = torch.cat([gold.folds, folds])
    pools = _pools(len(networks), len(school.others_drawn))
    every, first = torch.ones_like(heard), len(networks) - bool(parts.trees)
    found = [networks.new_zeros(len(at), gold.n_classes) for _ in pools]
    for fold in range(FOLDS):
        outside = gold.outside(fold)
        _, others = school.others_out_of_fold(fold)
        logs = torch.cat([networks, others])
        rows = torch.cat([logs[:, gold.inside(fold)], drawn[:, folds == fold]], dim=1)
        for log_p, members, fitted_on in zip(found, pools, (every, every, heard), strict=True):
            own = outside[fitted_on[outside]]
            w = _weights(logs[:, own], gold.y[own], members, first)
            log_p[at == fold] = pooled_log_p(w, rows)
    return found


def _weights(logs: Tensor, y: Tensor, members: Sequence[int], first: int) -> Tensor:
    """The weights of a pool of some members, of which those from ``first`` on are no networks.

    All others are 0. Without rows to fit them on, the first member alone has a weight, of 1.
    """
    found = torch.zeros(len(logs), dtype=torch.float64)
    found[0] = 1.0
    if len(members) > 1 and len(y):
        others = sum(member >= first for member in members)
        found[list(members)] = pool_weights(logs[list(members)], y, others)
    return found


def pooled_log_p(weights: Tensor, logs: Tensor) -> Tensor:
    """Return log softmax Σ_m w_m log p_m, (n, classes).

    Args:
        weights: (members,), or (n, members) for separate weights per row.
        logs: (members, n, classes).
    """
    own = weights.expand(logs.shape[1], -1)
    return torch.einsum("nm,mnc->nc", own, logs).log_softmax(-1)


def pool_weights(logs: Tensor, y: Tensor, others: int = 0) -> Tensor:
    """Return the pool's weights, (members,), float64; the first member is the complete case.

    w ≥ 0 minimises  mean CE(softmax Σ w_m log p_m) + 3/n (Σ w − 1)² + 0.5/n Σ_{m>0} w_m².
    Trees and other models are calibrated, T log p_m, and penalised as in
    :mod:`dessl.teachers.pool`; their weight is w T.

    Args:
        logs: Out-of-fold log-probabilities, (members, n, classes).
        y: Gold labels, (n,).
        others: Number of members that are no networks, which are the last ones.
    """
    n, start = len(y), np.eye(len(logs))[0]
    first = len(logs) - others
    powers = np.array([1.0] * first + [exponent(one, y, n) for one in logs[first:]])
    ridge = OTHERS / n * (1 - start)
    ridge[first:] = weight_penalty(n)
    stack = logs.double().numpy() * powers[:, None, None]
    found = least_cross_entropy(stack, y.numpy(), TOTAL / n, ridge, start)
    found[first:][found[first:] < LEAST_WEIGHT] = 0.0
    return torch.from_numpy(found * powers)
