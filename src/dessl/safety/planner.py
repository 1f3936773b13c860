"""How many labels are needed, and which rows to label next without biasing the estimates.

A mean over n_l labels, sharpened by H with correlation ρ, has variance v = σ² (1 − (n_u/n) ρ²) /
n_l. An interval of half-width w requires z² v ≤ w²; detecting a difference d with probability 0.8
requires (z + 0.84)² v ≤ d². With groups of rows that belong together, v is multiplied by the
design effect 1 + (k − 1) r: r is the correlation of L within groups, and k the mean number of
labels in the group of a label. New labels are then those of new groups of the same size.

Rows to label next are drawn with probabilities ∝ √V(L|x), mixed with equal ones: the best design
for a mean (rows that the model is uncertain about are more informative). Each row's probability of
having a label afterwards is recorded, so that estimates and training weight labels by 1/π and stay
unbiased. Whole groups are drawn in the same way, by the mean of their rows.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dessl import _checks
from dessl.data import DataError, SemiData
from dessl.evaluation.debiased.groups import FEWEST_GROUPS, groups_of
from dessl.evaluation.verdict import of_groups, too_few_rows
from dessl.functional import entropy
from dessl.safety.answers import fold_answers
from dessl.safety.columns import columns_of, groups_of_rows, sampled_rows
from dessl.safety.gain import correlated
from dessl.safety.unequal_draw import alike, design, systematic

PlannedMetric = Literal["accuracy", "cross_entropy"]
POWER = 0.8
LEAST_LABELS = 20


@dataclass(frozen=True)
class LabelPlan:
    """How many labels a question needs.

    Attributes:
        question: The question, in words.
        labelled: Number of labels so far.
        held_out: How many of them would be held out for evaluation.
        needed: Number of test labels needed without unlabelled rows. No model is trained on a test
            label.
        needed_with_unlabelled: Number of test labels needed if unlabelled rows sharpen the
            estimate.
        needed_in_total: Number of labels needed to hold out that many of them.
        deviation: σ of the metric, or of the difference, over rows.
        correlation: ρ(L, H) out of fold.
        sentence: The answer in words.
        labelled_groups: Number of groups with a label so far; None if rows have no groups, as
            for the next two.
        needed_groups: Of how many groups the ``needed_with_unlabelled`` test labels must be.
        needed_groups_in_total: Of how many groups the ``needed_in_total`` labels must be.
        design_effect: By how much groups multiply the variance; 1 without groups.
    """

    question: str
    labelled: int
    held_out: int
    needed: int
    needed_with_unlabelled: int
    needed_in_total: int
    deviation: float
    correlation: float
    sentence: str
    labelled_groups: int | None = None
    needed_groups: int | None = None
    needed_groups_in_total: int | None = None
    design_effect: float = 1.0


class NextRows(NamedTuple):
    """Rows to label next.

    Attributes:
        rows: (m,) positions in the data, drawn.
        propensity: (n,) for every row of the data, the probability of having a label afterwards:
            e + (1 − e) π, with e the probability of a first label and π that of being drawn now.
            With these, means over all n rows are unbiased if the first labels were drawn with
            probabilities e: the data's propensities, or all equal.
    """

    rows: Tensor
    propensity: Tensor


def plan_labels(
    data: SemiData,
    *,
    metric: PlannedMetric = "accuracy",
    width: float | None = None,
    difference: float | None = None,
    groups: "Tensor | NDArray[Any] | None" = None,
    share: float = 1.0,
    confidence: float = 0.95,
    seed: int = 0,
) -> LabelPlan:
    """Return how many labels a question needs, estimated from the labels so far.

    Args:
        data: The data, with at least 20 labels.
        metric: ``"accuracy"`` or ``"cross_entropy"``, of a model like logistic regression.
        width: Half-width of the wanted interval.
        difference: Difference between two models, to be detected with probability 0.8. Its spread
            is that of two independent models of this quality, which is larger than that of two
            similar ones.
        groups: (n,) numbers or text, the same for rows that belong together, such as a patient's;
            by default ``data.groups``.
        share: Share of the labelled and of the unlabelled rows held out for evaluation, 0.2 in
            ``dessl fit``; with 1, no model is trained on them.
        confidence: Confidence level of the interval or the test.
        seed: Seed of samples and folds.

    Raises:
        ValueError: Neither or both of ``width`` and ``difference`` are given.

    >>> g = torch.Generator().manual_seed(0)
    >>> x = torch.randn(500, 2, generator=g)
    >>> y = torch.where(torch.arange(500) < 50, (x[:, 0] > 0).long(), -1)
    >>> plan = plan_labels(SemiData(x, y), width=0.02)
    >>> plan.needed >= plan.needed_with_unlabelled > 0
    True
    """
    from scipy.special import ndtri

    goal = _goal(metric, width, difference)
    _checks.number("confidence", confidence, low=0, high=1, open_low=True, open_high=True)
    _checks.number("share", share, low=0, high=1, open_low=True)
    of_rows = groups_of_rows(data, groups)
    loss, h, units = _losses(data, metric, of_rows, seed)
    z = float(ndtri((1 + confidence) / 2))
    deviation, rho = float(loss.std()), correlated(loss, h).value
    if difference is not None:
        z += float(ndtri(POWER))
        deviation *= math.sqrt(2.0)
    effect = design_effect(loss, units)
    spread = deviation * math.sqrt(effect)
    alone, helped = (_needed(spread, r, goal / z, share * len(data)) for r in (0.0, rho))
    question = (
        f"{metric} within ± {goal:g} ({100 * confidence:g} % interval)"
        if width is not None
        else f"a difference of {goal:g} in {metric}, detected with probability {POWER:g}"
    )
    plan = LabelPlan(
        question=question,
        labelled=data.n_labelled,
        held_out=round(share * data.n_labelled),
        needed=alone,
        needed_with_unlabelled=helped,
        needed_in_total=math.ceil(helped / share - 1e-9),
        deviation=deviation,
        correlation=rho,
        sentence="",
        design_effect=effect,
    )
    if of_rows is not None:
        plan = _in_groups(plan, len(torch.unique(of_rows[data.labelled_rows.cpu()])))
    n_groups = None if of_rows is None else len(torch.unique(of_rows))
    return replace(plan, sentence=_sentence(plan, share, len(data), n_groups))


def _goal(metric: PlannedMetric, width: float | None, difference: float | None) -> float:
    """The half-width or the difference that is asked for, checked."""
    _checks.one_of("metric", metric, ("accuracy", "cross_entropy"))
    if (width is None) == (difference is None):
        raise ValueError(
            f"exactly one of width and difference must be given; got width={width}, "
            f"difference={difference}. Pass width= for the interval of one metric, difference= to "
            "tell two models apart."
        )
    name, given = ("difference", difference) if width is None else ("width", width)
    goal = _checks.number(name, given, low=0, open_low=True)
    if metric == "accuracy" and goal >= 1:
        raise ValueError(
            f"{name} must be below 1, because accuracy is a share; got {goal:g}. "
            "Write 0.05 for 5 points."
        )
    return goal


def _in_groups(plan: LabelPlan, labelled_groups: int) -> LabelPlan:
    """The plan in groups with as many labels each as those so far; at least three of them."""
    each = plan.labelled / labelled_groups
    needed, total = (
        max(FEWEST_GROUPS, math.ceil(labels / each - 1e-9))
        for labels in (plan.needed_with_unlabelled, plan.needed_in_total)
    )
    return replace(
        plan,
        labelled_groups=labelled_groups,
        needed_groups=needed,
        needed_groups_in_total=total,
    )


def design_effect(loss: Tensor, units: NDArray[np.int64] | None) -> float:
    """Return by how much groups multiply the variance of a mean loss: 1 + (k − 1) r.

    Args:
        loss: (m,) losses of labelled rows.
        units: (m,) their groups; None if rows are independent.

    >>> loss = torch.tensor([0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    >>> design_effect(loss, np.array([0, 0, 1, 1, 2, 2, 3, 3])), design_effect(loss, None)
    (2.0, 1.0)
    """
    found = None if units is None else groups_of(len(loss), 0, units, None)
    if found is None:
        return 1.0
    weights = torch.full_like(loss.double(), 1 / len(loss))
    sizes = found.totals(torch.ones_like(weights))
    k = float(sizes.square().sum() / sizes.sum())
    return 1 + (k - 1) * found.correlation(weights, loss.double() - loss.double().mean())


def next_rows(
    data: SemiData,
    n: int,
    *,
    groups: "Tensor | NDArray[Any] | None" = None,
    seed: int = 0,
) -> NextRows:
    """Draw unlabelled rows to label next, uncertain ones more often, with known probabilities.

    The draw is systematic: n rows (to within one), each with its own probability. With groups, all
    unlabelled rows of a group are drawn or none, about n rows in total.

    Args:
        data: The data, with labels of at least two classes.
        n: Number of rows.
        groups: (n,) numbers or text, the same for rows that belong together, such as a patient's;
            by default ``data.groups``.
        seed: Seed of the draw.

    >>> g = torch.Generator().manual_seed(0)
    >>> x = torch.randn(300, 2, generator=g)
    >>> data = SemiData(x, torch.where(torch.arange(300) < 40, (x[:, 0] > 0).long(), -1))
    >>> drawn = next_rows(data, 20)
    >>> len(drawn.rows), bool((drawn.propensity > 0).all())
    (20, True)
    """
    n = _checks.whole_number("n", n, low=1, high=len(data.unlabelled_rows))
    of_rows = groups_of_rows(data, groups)
    _check_labels(data, of_rows)
    rows = torch.cat([data.labelled_rows.cpu(), data.unlabelled_rows.cpu()])
    labelled = np.arange(len(rows)) < data.n_labelled
    units = np.arange(len(rows))
    if of_rows is not None:
        units = np.unique(of_rows[rows].numpy(), return_inverse=True)[1]
    y = data.y.cpu()[data.labelled_rows.cpu()]
    values = columns_of(data, rows).values
    answers = fold_answers(values, y, labelled, data.n_classes, groups=units, seed=seed)
    best = answers.log_p.exp().amax(1)
    unsure = np.bincount(units, (best * (1 - best)).sqrt().numpy()) / np.bincount(units)
    asked = np.bincount(units, ~labelled) > 0  # rows, or groups with rows, that have no label
    many = max(1, round(n * asked.sum() / (~labelled).sum()))
    chances = np.empty(len(unsure))
    chances[asked] = design(unsure[asked], many)
    chances[~asked] = alike(unsure[~asked], unsure[asked], chances[asked], many)
    chosen = np.flatnonzero(asked)[systematic(chances[asked], np.random.default_rng(seed))]
    drawn = torch.empty(len(data), dtype=torch.float64)
    drawn[rows] = torch.from_numpy(chances[units])
    first = data.n_labelled / len(data) if data.propensity is None else data.propensity.cpu()
    propensity = first + (1 - first) * drawn
    picked = torch.from_numpy(np.isin(units, chosen) & ~labelled)
    return NextRows(rows[picked].sort().values, propensity)


def _losses(
    data: SemiData, metric: PlannedMetric, groups: Tensor | None, seed: int
) -> tuple[Tensor, Tensor, NDArray[np.int64] | None]:
    """L and H of labelled rows, out of fold, and their groups."""
    _check_labels(data, groups)
    sample = sampled_rows(data, groups=groups, seed=seed)
    n_l = int(sample.labelled.sum())
    y = data.y.cpu()[sample.rows[:n_l]]
    values = columns_of(data, sample.rows).values
    units = None if sample.groups is None else sample.groups[:n_l]
    log_p = fold_answers(
        values, y, sample.labelled, data.n_classes, groups=sample.groups, seed=seed
    ).log_p[:n_l]
    if metric == "accuracy":
        return (log_p.argmax(1) == y).double(), log_p.exp().amax(1), units
    return -log_p.gather(1, y[:, None])[:, 0], entropy(log_p), units


def _check_labels(data: SemiData, groups: Tensor | None) -> None:
    n_groups = None if groups is None else len(torch.unique(groups[data.labelled_rows.cpu()]))
    if n_groups is not None and n_groups < FEWEST_GROUPS:
        raise DataError.of(
            data.name or "the data",
            expected=f"labels of at least {FEWEST_GROUPS} groups, to plan with",
            got=f"those of {n_groups}",
            do="Label rows of more groups first, drawn at random.",
        )
    n_classes = len(torch.unique(data.y[data.labelled_rows]))
    if data.n_labelled < LEAST_LABELS or n_classes < 2:
        raise DataError.of(
            data.name or "the data",
            expected=f"at least {LEAST_LABELS} labels of two classes, to plan with",
            got=f"{data.n_labelled} labels of {n_classes}",
            do="Label some rows first, drawn at random.",
        )


def _needed(deviation: float, rho: float, error: float, n: float) -> int:
    """Labels needed for a standard error: σ²(1 − (1 − n_l/n) ρ²) / n_l = error²."""
    plain = deviation**2 / error**2
    # Multiplied by n_l: n_l = plain (1 − ρ²) + plain ρ² n_l / n.
    share = plain * rho**2 / n
    if share >= 1:
        return math.ceil(plain)
    return max(3, math.ceil(min(plain, plain * (1 - rho**2) / (1 - share))))


def _sentence(plan: LabelPlan, share: float, rows: int, n_groups: int | None) -> str:
    """How many test labels are needed, and how many labels in total to hold that many out."""
    now, needed, total = plan.labelled, plan.needed_with_unlabelled, plan.needed_in_total
    of = of_groups(plan.needed_groups)
    text = f"About {needed:,} test labels{of} are needed for {plan.question}"
    if needed < plan.needed:
        text += f" ({plan.needed:,} without the unlabelled rows)"
    if plan.held_out >= needed and share == 1:
        return f"{text}. The {now:,} labels are enough if no model is trained on them."
    fitting = f"dessl fit holds out {100 * share:g} % of"
    if plan.held_out >= needed:
        held = f"{fitting} them, {plan.held_out:,}, for evaluation"
        return f"{text}. The {now:,} labels are enough: {held}."
    if share == 1:
        text += f", {total - now:,} more than now."
    else:
        text += (
            f". {fitting} the labels for evaluation, {plan.held_out:,} of {now:,} now, so "
            f"{total:,} labels{of_groups(plan.needed_groups_in_total)} in total are needed, "
            f"{total - now:,} more than now."
        )
    if n_groups is not None:
        text += " They must be of new groups: more labels of the same groups add little."
    if (plan.needed_groups_in_total or 0) > (n_groups or 0):
        text += f" The data has only {n_groups:,} groups: collect more."
    else:
        text += too_few_rows(total, rows)
    if share < 1:
        text += " If the test labels are in a separate file (--test-file), all of them count."
    return text
