"""How many labels are needed, and which rows to label next without biasing the estimates.

A mean over n_l labels, sharpened by H with correlation ρ, has variance v = σ² (1 − (n_u/n) ρ²) /
n_l. An interval of half-width w requires z² v ≤ w²; detecting a difference d with probability 0.8
requires (z + 0.84)² v ≤ d².

Rows to label next are drawn with probabilities ∝ √V(L|x), mixed with equal ones: the best design
for a mean (rows that the model is uncertain about are more informative). Each row's probability of
having a label afterwards is recorded, so that estimates and training weight labels by 1/π and stay
unbiased.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dessl import _checks
from dessl.data import DataError, SemiData
from dessl.functional import entropy
from dessl.safety.answers import fold_answers
from dessl.safety.columns import columns_of, sampled_rows
from dessl.safety.gain import correlated

PlannedMetric = Literal["accuracy", "cross_entropy"]
POWER = 0.8
EQUAL_SHARE = 0.25  # share of labels drawn with equal probabilities: weights stay below 4
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
        needed_in_total: Number of labels of which so many would be held out.
        deviation: σ of the metric, or of the difference, over rows.
        correlation: ρ(L, H) out of fold.
        sentence: The answer in words.
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

    _checks.one_of("metric", metric, ("accuracy", "cross_entropy"))
    if (width is None) == (difference is None):
        raise ValueError("pass exactly one of width and difference.")
    name, given = ("difference", difference) if width is None else ("width", width)
    goal = _checks.number(name, given, low=0, open_low=True)
    if metric == "accuracy" and goal >= 1:
        raise ValueError(
            f"{name} must be below 1, because accuracy is a share; got {goal:g}. "
            "Write 0.05 for 5 points."
        )
    _checks.number("confidence", confidence, low=0, high=1, open_low=True, open_high=True)
    _checks.number("share", share, low=0, high=1, open_low=True)
    loss, h = _losses(data, metric, seed)
    z = float(ndtri((1 + confidence) / 2))
    deviation, rho = float(loss.std()), correlated(loss, h).value
    if difference is not None:
        z += float(ndtri(POWER))
        deviation *= math.sqrt(2.0)
    alone, helped = (_needed(deviation, r, goal / z, share * len(data)) for r in (0.0, rho))
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
    )
    return replace(plan, sentence=_sentence(plan, share, len(data)))


def next_rows(data: SemiData, n: int, *, seed: int = 0) -> NextRows:
    """Draw unlabelled rows to label next, uncertain ones more often, with known probabilities.

    The draw is systematic: n rows (to within one), each with its own probability.

    Args:
        data: The data, with labels of at least two classes.
        n: Number of rows.
        seed: Seed of the draw.

    >>> g = torch.Generator().manual_seed(0)
    >>> x = torch.randn(300, 2, generator=g)
    >>> data = SemiData(x, torch.where(torch.arange(300) < 40, (x[:, 0] > 0).long(), -1))
    >>> drawn = next_rows(data, 20)
    >>> len(drawn.rows), bool((drawn.propensity > 0).all())
    (20, True)
    """
    n = _checks.whole_number("n", n, low=1, high=len(data.unlabelled_rows))
    _check_labels(data)
    unknown = data.unlabelled_rows.cpu()
    rows = torch.cat([data.labelled_rows.cpu(), unknown])
    labelled = np.arange(len(rows)) < data.n_labelled
    y = data.y.cpu()[data.labelled_rows.cpu()]
    answers = fold_answers(columns_of(data, rows).values, y, labelled, data.n_classes, seed=seed)
    best = answers.log_p.exp().amax(1)
    unsure = (best * (1 - best)).sqrt().numpy()
    known, others = unsure[: data.n_labelled], unsure[data.n_labelled :]
    chances = design(others, n)
    chosen = systematic(chances, np.random.default_rng(seed))
    drawn = torch.empty(len(data), dtype=torch.float64)
    drawn[rows] = torch.from_numpy(np.concatenate([_alike(known, others, chances, n), chances]))
    first = data.n_labelled / len(data) if data.propensity is None else data.propensity.cpu()
    propensity = first + (1 - first) * drawn
    return NextRows(unknown[torch.from_numpy(chosen)].sort().values, propensity)


def _alike(
    unsure: NDArray[np.float64], others: NDArray[np.float64], chances: NDArray[np.float64], n: int
) -> NDArray[np.float64]:
    """The probabilities that rows would have in the design of the others."""
    below, wanted = chances < 1, _wanted(others, others, n)
    scale = float(chances[below].sum() / wanted[below].sum()) if below.any() else 1.0
    bounded: NDArray[np.float64] = np.minimum(1.0, scale * _wanted(unsure, others, n))
    return bounded


def _wanted(
    unsure: NDArray[np.float64], others: NDArray[np.float64], n: int
) -> NDArray[np.float64]:
    """Probabilities before any is limited to 1: a quarter equal, the rest ∝ ``unsure``."""
    m, total = len(others), others.sum()
    if total == 0:
        return np.full(len(unsure), n / m)
    found: NDArray[np.float64] = EQUAL_SHARE * n / m + (1 - EQUAL_SHARE) * n * unsure / total
    return found


def design(unsure: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Return inclusion probabilities (m,) that sum to n: a quarter equal, the rest ∝ ``unsure``.

    >>> design(np.array([0.0, 1.0, 1.0, 2.0]), 2).round(3).tolist()
    [0.125, 0.5, 0.5, 0.875]
    """
    m = len(unsure)
    if n == m:
        return np.ones(m)
    chances = _wanted(unsure, unsure, n)
    for _ in range(m):  # the excess over 1 is distributed over the others
        above = chances >= 1
        left = n - above.sum()
        if not above.any() or left <= 0 or chances[~above].sum() == 0:
            break
        scaled = chances[~above] * left / chances[~above].sum()
        chances = np.where(above, 1.0, 0.0)
        chances[~above] = scaled
        if (scaled <= 1).all():
            break
    bounded: NDArray[np.float64] = np.clip(chances, 0, 1)
    return bounded


def systematic(chances: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.int64]:
    """Draw rows in a random order at equal steps of their cumulative probabilities.

    >>> systematic(np.array([0.5, 0.5, 1.0]), np.random.default_rng(0)).shape
    (2,)
    """
    order = generator.permutation(len(chances))
    ends = np.cumsum(chances[order])
    marks = generator.random() + np.arange(round(float(ends[-1])) + 1)
    places = np.searchsorted(ends, marks[marks < ends[-1] - 1e-9], side="right")
    drawn: NDArray[np.int64] = order[np.unique(places)]
    return drawn


def _losses(data: SemiData, metric: PlannedMetric, seed: int) -> tuple[Tensor, Tensor]:
    """L and H of labelled rows, out of fold."""
    _check_labels(data)
    sample = sampled_rows(data, seed=seed)
    n_l = int(sample.labelled.sum())
    y = data.y.cpu()[sample.rows[:n_l]]
    values = columns_of(data, sample.rows).values
    log_p = fold_answers(values, y, sample.labelled, data.n_classes, seed=seed).log_p[:n_l]
    if metric == "accuracy":
        return (log_p.argmax(1) == y).double(), log_p.exp().amax(1)
    return -log_p.gather(1, y[:, None])[:, 0], entropy(log_p)


def _check_labels(data: SemiData) -> None:
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


def _sentence(plan: LabelPlan, share: float, rows: int) -> str:
    """How many test labels are needed, and how many labels for so many to be held out."""
    now, needed, total = plan.labelled, plan.needed_with_unlabelled, plan.needed_in_total
    text = f"About {needed:,} test labels are needed for {plan.question}"
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
            f"{total:,} labels in total are needed, {total - now:,} more than now."
        )
    if total > rows:
        text += f" The data has only {rows:,} rows: collect more."
    if share < 1:
        text += " If the test labels are in a separate file (--test-file), all of them count."
    return text
