"""Student's t over folds: the interval of a mean, and the paper's paired test."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dessl import _checks
from dessl._checks import ArrayLike

Alternative = Literal["two-sided", "greater", "less"]
ALTERNATIVES = ("two-sided", "greater", "less")

UNITS = 8  # units in the last place: differences of rounded numbers are no more accurate


@dataclass(frozen=True)
class MeanInterval:
    """A mean over folds and its confidence interval, mean ± half_width."""

    mean: float
    low: float
    high: float
    half_width: float
    n: int
    confidence: float


@dataclass(frozen=True)
class PairedTTest:
    """A paired t-test of a against b.

    ``difference`` is the mean of a − b and (low, high) its interval, with an infinite end for a
    one-sided alternative. ``effect_size`` is Cohen's d_z, the mean difference over its standard
    deviation; ``corrected_effect_size`` is d_z times Hedges' small-sample factor.
    """

    difference: float
    low: float
    high: float
    statistic: float
    p_value: float
    effect_size: float
    corrected_effect_size: float
    n: int
    alternative: Alternative
    confidence: float


def folds(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Check for at least two finite values, (n,), and return them as float64."""
    array: NDArray[Any] = _checks.float64(name, values, ndim=1).cpu().numpy()
    if array.shape[0] < 2:
        raise ValueError(f"{name} must have at least two values; got {array.shape[0]}.")
    return array


def paired(a: ArrayLike, b: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the differences a − b, (n,), and the size below which each is rounding, (n,)."""
    first, second = folds("a", a), folds("b", b)
    if first.shape != second.shape:
        raise ValueError(
            "a and b must be paired, one value per fold in each; "
            f"got {first.shape[0]} and {second.shape[0]} values."
        )
    scale = np.maximum(np.abs(first), np.abs(second))
    return first - second, UNITS * max(_last_place(a), _last_place(b)) * scale


def _last_place(values: ArrayLike) -> float:
    """The machine epsilon of the inputs; half precision is too coarse to compare folds."""
    single = (
        values.dtype == torch.float32
        if isinstance(values, Tensor)
        else np.asarray(values).dtype == np.float32
    )
    return float(np.finfo(np.float32 if single else np.float64).eps)


def mean_interval(values: ArrayLike, confidence: float = 0.95) -> MeanInterval:
    """Return the mean ± t·s/√n over folds, s with n − 1.

    The interval assumes independent folds; folds that share training data are not independent, and
    their interval is too short.

    Args:
        values: (n,), n ≥ 2: one value per fold.
        confidence: between 0 and 1.

    >>> interval = mean_interval([0.93, 0.95, 0.94])
    >>> round(interval.mean, 4), round(interval.half_width, 4)
    (0.94, 0.0248)
    """
    from scipy import special  # scipy.stats takes a second to import

    _checks.number("confidence", confidence, low=0, high=1, open_low=True, open_high=True)
    array = folds("values", values)
    n = array.shape[0]
    mean = float(array.mean())
    error = _deviation(array) / math.sqrt(n)
    half_width = float(special.stdtrit(n - 1, (1 + confidence) / 2)) * error
    return MeanInterval(mean, mean - half_width, mean + half_width, half_width, n, confidence)


def paired_t_test(
    a: ArrayLike,
    b: ArrayLike,
    *,
    alternative: Alternative = "two-sided",
    confidence: float = 0.95,
) -> PairedTTest:
    """Test whether the paired differences a − b have mean zero.

    Differences that are all equal up to rounding have no variance. All zero: statistic 0, effect
    sizes 0 and p = 1 for every alternative. All equal to some d ≠ 0: statistic and effect sizes ±∞,
    p = 0, or p = 1 if d contradicts a one-sided alternative. In both cases the finite ends of the
    interval are at d, and p is only a limit.

    Args:
        a: (n,), n ≥ 2.
        b: (n,), paired with a.
        alternative: "two-sided", "greater" (a above b) or "less" (a below b).
        confidence: of the interval.

    >>> test = paired_t_test([0.95, 0.96, 0.94], [0.93, 0.93, 0.93], alternative="greater")
    >>> round(test.difference, 4), round(test.p_value, 4)
    (0.02, 0.0371)
    """
    from scipy import special

    _checks.one_of("alternative", alternative, ALTERNATIVES)
    _checks.number("confidence", confidence, low=0, high=1, open_low=True, open_high=True)
    differences, each = paired(a, b)
    rounding = float(each.max())
    n = differences.shape[0]
    mean, deviation = float(differences.mean()), _deviation(differences)
    if deviation <= rounding:
        mean, deviation = (0.0 if abs(mean) <= rounding else mean), 0.0
    effect = mean / deviation if deviation else (math.copysign(math.inf, mean) if mean else 0.0)
    statistic = effect * math.sqrt(n)
    level = (1 + confidence) / 2 if alternative == "two-sided" else confidence
    reach = float(special.stdtrit(n - 1, level)) * deviation / math.sqrt(n)
    return PairedTTest(
        difference=mean,
        low=-math.inf if alternative == "less" else mean - reach,
        high=math.inf if alternative == "greater" else mean + reach,
        statistic=statistic,
        p_value=1.0 if mean == deviation == 0 else _p_value(statistic, n - 1, alternative),
        effect_size=effect,
        corrected_effect_size=effect * hedges_factor(n - 1),
        n=n,
        alternative=alternative,
        confidence=confidence,
    )


def _deviation(values: NDArray[np.float64]) -> float:
    """The sample standard deviation, without overflow or underflow of the squares."""
    _, exponent = math.frexp(float(np.abs(values).max()))
    return math.ldexp(float(np.ldexp(values, -exponent).std(ddof=1)), exponent)


def _p_value(statistic: float, degrees: int, alternative: Alternative) -> float:
    from scipy import special

    if alternative == "two-sided":
        return 2 * float(special.stdtr(degrees, -abs(statistic)))
    return float(special.stdtr(degrees, -statistic if alternative == "greater" else statistic))


def hedges_factor(degrees: int) -> float:
    """Return Γ(m/2) / (√(m/2)·Γ((m−1)/2)), the bias correction of d with m degrees of freedom.

    It is 0 at m = 1: two pairs have no unbiased effect size.

    >>> round(hedges_factor(4), 4)
    0.7979
    """
    if degrees == 1:
        return 0.0
    half = degrees / 2
    return math.exp(math.lgamma(half) - math.lgamma(half - 0.5)) / math.sqrt(half)
