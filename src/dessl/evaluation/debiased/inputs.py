"""Inputs of estimates and comparisons: a metric, rows, and how the rows were labelled."""

import math
import warnings
from typing import NamedTuple

import torch

from dessl import _checks
from dessl._checks import ArrayLike
from dessl.evaluation.debiased.design import Design, balance_test, design_of
from dessl.evaluation.debiased.groups import warn_of_few_groups
from dessl.evaluation.debiased.proxies import (
    CLIP,
    METRICS,
    Matrices,
    Metric,
    Sample,
    capped_cross_entropy,
    sampled,
)
from dessl.evaluation.debiased.rates import RATES, rate_metric
from dessl.evaluation.debiased.shift import ShiftTest, shift_test, warn_of_shift

ALTERNATIVES = ("two-sided", "larger", "smaller")
WINS = ("wins",)  # for two models only
PAIRWISE_WINS = Metric(
    torch.zeros_like,
    0.0,
    1.0,
    binary=False,
    surprise=0.02,
    pair=lambda a, b: (a - b).sign(),  # the model that gives the label more probability wins
)


class MetricRequest(NamedTuple):
    """A metric with its options."""

    name: str
    positive: int | None = None
    threshold: float | None = None
    clip: float = CLIP

    @property
    def uncapped(self) -> bool:
        """Whether the mean of an unbounded loss was requested."""
        return self.clip == math.inf


class HowLabelled(NamedTuple):
    """How rows were chosen for labelling, unchecked."""

    propensity: "ArrayLike | None" = None
    strata: "ArrayLike | None" = None
    strata_unlabelled: "ArrayLike | None" = None
    groups: "ArrayLike | None" = None
    groups_unlabelled: "ArrayLike | None" = None


def prepared(
    request: MetricRequest, labelled: Matrices, y: ArrayLike, unlabelled: Matrices, how: HowLabelled
) -> tuple[Sample, Metric, Design | None]:
    """L and proxies of the rows, the metric, and the design of the labels, all checked."""
    names = (*METRICS, *RATES, *(WINS if len(labelled) == 2 else ()))
    _checks.one_of("metric", request.name, names)
    rows, others = (
        int(_checks.numbers("probabilities", matrices[0]).shape[0]) if matrices else 0
        for matrices in (labelled, unlabelled)
    )
    design = design_of(rows, others, *how) if rows else None
    if design is not None and design.groups is not None:
        warn_of_few_groups(design.groups, design.weights)
    counted: float | None = None
    if request.name in RATES:
        kind, counted = _rate(request, labelled, y, design)
    else:
        _refuse_options(request)
        kind = METRICS.get(request.name, PAIRWISE_WINS)
        if request.name == "cross_entropy":
            kind = capped_cross_entropy(CLIP if request.uncapped else request.clip)
    sample = sampled(kind, labelled, y, unlabelled)
    return sample._replace(labels=counted), kind, design


def _rate(
    request: MetricRequest, labelled: Matrices, y: ArrayLike, design: Design | None
) -> tuple[Metric, float]:
    """A rate, or the difference of two models' rates, and the number of labels it is based on."""
    weights = None if design is None else design.weights
    groups = None if design is None or design.groups is None else design.groups.number
    found = [
        rate_metric(
            request.name,
            p,
            y,
            weights=weights,
            groups=groups,
            positive=request.positive,
            threshold=request.threshold,
        )
        for p in labelled
    ]
    kind, counted = found[0]
    if len(found) == 1:
        return kind, counted
    first, second = (one.values for one, _ in found)
    changes = [one.left_out for one, _ in found if one.left_out is not None]
    left_out = changes[0] - changes[1] if changes else None
    return kind._replace(pair=lambda a, b: first(a) - second(b), left_out=left_out), counted


def _refuse_options(request: MetricRequest) -> None:
    """Reject options that a mean over rows does not have."""
    for option in ("positive", "threshold"):
        if getattr(request, option) is not None:
            raise ValueError(
                f"{request.name} is a mean over all rows; omit {option}, or use one of "
                f"{', '.join(RATES)}."
            )


def checked_shift(sample: Sample, design: Design | None, check: bool) -> ShiftTest:
    """Test whether unlabelled rows look like labelled ones, and warn if not."""
    if not check or not len(sample.unlabelled.h):
        return ShiftTest(math.nan, 0.0, 0.0)
    if design is None:
        test = shift_test(sample.labelled, sample.unlabelled)
    else:
        test = balance_test(sample, design)
    warn_of_shift(test, designed=design is not None and not design.at_random, stacklevel=4)
    return test


def checked_clip(metric: str, clip: float) -> float:
    """Check the cap of the cross-entropy, and warn if it is infinite."""
    if metric != "cross_entropy":
        return CLIP
    if clip == math.inf:
        warnings.warn(
            "without a cap, the cross-entropy has no valid upper bound: few labels cannot rule out "
            "rare rows with a huge loss. The interval's upper end is infinite. Pass clip=, for "
            "example 4.6, to estimate the mean of min(loss, clip), or use 'brier'.",
            stacklevel=3,
        )
        return clip
    return _checks.number("clip", clip, low=0.0, open_low=True)


def checked_confidence(confidence: float, name: str = "confidence") -> float:
    """Check that a confidence is in (0, 1); passing 95 for 0.95 is the usual mistake."""
    if isinstance(confidence, int | float) and confidence > 1:
        raise ValueError(f"{name} must lie in (0, 1); got {confidence}. Write 0.95 for 95 %.")
    return _checks.number(name, confidence, low=0.0, high=1.0, open_low=True, open_high=True)
