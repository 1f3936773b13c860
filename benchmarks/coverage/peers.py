"""The intervals that benchmarks/coverage compares ours with."""

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray
from ppi_py import ppi_mean_ci
from scipy import stats

from dessl.evaluation.debiased.intervals import Bounds

try:  # for Python 3.12 and later
    from glide.estimators import PPIMeanEstimator
except ImportError:
    PPIMeanEstimator = None

Array = NDArray[np.float64]


def student(loss: Array, confidence: float) -> Bounds:
    """The classical interval of a mean."""
    half = _t_quantile(len(loss) - 1, confidence) * loss.std(ddof=1) / math.sqrt(len(loss))
    return Bounds(loss.mean() - half, loss.mean() + half)


def wilson(loss: Array, confidence: float) -> Bounds:
    """Wilson's interval of a proportion, by scipy."""
    return _wilson(round(loss.sum()), len(loss), confidence)


@cache
def _t_quantile(degrees: int, confidence: float) -> float:
    return float(stats.t.ppf((1 + confidence) / 2, degrees))


@cache
def _wilson(hits: int, m: int, confidence: float) -> Bounds:
    result = stats.binomtest(hits, m).proportion_ci(confidence, "wilson")
    return Bounds(result.low, result.high)


def tuned_ppi(loss: Array, h: Array, h_unlabelled: Array, confidence: float) -> Bounds:
    """The interval of ppi-python, with its own choice of λ."""
    low, high = ppi_mean_ci(loss, h, h_unlabelled, alpha=1 - confidence)
    return Bounds(low.item(), high.item())


def glide_ppi(loss: Array, h: Array, h_unlabelled: Array, confidence: float) -> Bounds:
    """The interval of glide-py, with its own choice of λ; it has none for losses all alike."""
    if loss.min() == loss.max():
        return Bounds(loss[0], loss[0])
    y = np.concatenate([loss, np.full(len(h_unlabelled), np.nan)])
    every_h = np.concatenate([h, h_unlabelled])
    found = PPIMeanEstimator().estimate(y, every_h, confidence_level=confidence)
    return Bounds(found.confidence_interval.lower_bound, found.confidence_interval.upper_bound)
