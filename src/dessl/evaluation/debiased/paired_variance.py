"""The variance of the paired difference of two models.

D = L_a − L_b is large on the few rows on which the models differ, so its variance over the labelled
rows is very uncertain: rows with a large D may be missing. But every row, labelled or not, shows
whether the models differ on it. With s_i = E[r_i²], the label drawn from the mean of the models'
probabilities, the variance is a ratio estimate,

    V(r) = mean_all s · Σ_L r² / Σ_L s,

with two pseudo-rows of the mean s in both sums. It is multiplied by 1 + 4/m, because the ratio is
itself uncertain and uses the same rows as λ. For accuracy and error, V(r) is at least that of one
row on which the models differ.

If rows were labelled by design, V(θ̂) is a mean of s over all rows, each times the weight â that it
would have if it were labelled: that of its stratum, or else the mean weight of the labelled rows of
its predicted class (:func:`~dessl.evaluation.debiased.design.likely_weights`). Rows with large s
may be labelled more or less often than others, so log â has a slope in log s, shrunk as λ is; and
the mean is multiplied by how much heavier the labelled rows are than likely, Σ_L a² s / Σ_L a â s.
For 0–1 losses there is no slope: the few rows on which the models differ cannot determine it. In
the ratio, row i has weight a_i^1.25, between its share of the population, which is more stable, and
its share a_i² of V(θ̂), which is correct if heavy rows have a different ratio; the factor is
1 + 2/m.
"""

import math

import torch
from torch import Tensor

from dessl.evaluation.debiased.fit import Fit
from dessl.evaluation.debiased.proxies import Metric, Sample, moments_about

PSEUDO_ROWS = 2  # of the mean s, in both sums of the ratio and in the slope
RATIO_ROWS = 4  # the ratio is uncertain and fitted to the rows of λ: V(r) grows by four rows' share
RATIO_ROWS_WEIGHTED = 2  # the same if rows have weights, whose ratio hardly depends on λ
RATIO_POWER = 1.25  # power of the weights in the ratio
LEAST_SIZE = 0.2  # fraction of the mean s, added to s before its logarithm is taken
TRUSTED_ROWS = 8  # pseudo-rows that shrink the correction of the likely weights


def paired_variance(fit: Fit, sample: Sample, metric: Metric) -> float:
    """Return V(r): the mean that the models expect over all rows, times observed to expected.

    Args:
        fit: The debiased difference.
        sample: The rows of both models.
        metric: The metric that is compared.
    """
    moments = torch.cat([sample.labelled.moments, sample.unlabelled.moments], dim=1)
    line = fit.beliefs + (moments[0] - fit.beliefs).mean()
    expected = moments_about(moments, line)[0].clamp(min=0)
    mean = float(expected.mean())
    zero_one = metric.binary and not metric.smooth
    if fit.weights is None:
        every = torch.ones_like(fit.residuals)
        ratio = _ratio(every, fit.scaled_residuals.square(), expected, PSEUDO_ROWS * mean)
        variance = (1 + RATIO_ROWS / len(fit.residuals)) * fit.inflation * ratio * mean
        # For 0–1 losses, at least one row may differ.
        return max(variance, fit.labels / fit.independent**2) if zero_one else variance
    m = len(fit.residuals)
    weights = fit.labels * fit.weights
    observed = (fit.scaled_residuals / fit.weights).square() / (m * fit.labels)
    weighted = _weighted_mean(fit, weights, expected, sloped=not metric.binary)
    weight = weighted / mean if mean else 0.0  # mean weight of the rows that matter most
    few = PSEUDO_ROWS * mean * weight ** (RATIO_POWER - 1)
    ratio = _ratio(weights**RATIO_POWER, observed, expected, few)
    variance = (1 + RATIO_ROWS_WEIGHTED / m) * fit.inflation * ratio * weighted
    least = max(weight, weight**2) * fit.labels / fit.independent**2
    return max(variance, least) if zero_one else variance


def _ratio(counted: Tensor, observed: Tensor, expected: Tensor, few: float) -> float:
    """The ratio of two sums over labelled rows, with some pseudo-rows in both."""
    total = float(counted @ expected[: len(counted)]) + few
    return (float(counted @ observed) + few) / total if total else 0.0


def _weighted_mean(fit: Fit, weights: Tensor, expected: Tensor, *, sloped: bool) -> float:
    """The mean of s over all rows, times their likely weights in units of the mean weight."""
    m = len(weights)
    heavy = float(weights.square() @ expected[:m])
    if fit.likely is None:  # no unlabelled rows
        return heavy / fit.labels
    likely = fit.labels * fit.likely
    if sloped:
        likely = likely * _slope_factors(weights, likely[:m], expected)
    mean = float((likely * expected).mean())
    trusted = TRUSTED_ROWS * mean
    even = float((weights * likely[:m]) @ expected[:m])
    return mean * (heavy + trusted) / (even + trusted) if mean else 0.0


def _slope_factors(weights: Tensor, likely: Tensor, expected: Tensor) -> Tensor:
    """How much heavier a row is than its class, by its s: exp(β log s), (n,).

    β is the slope of log(a/â) on log s over the labelled rows, standardised, with two pseudo-rows
    of slope 0, and shrunk as by James and Stein. The factors keep the mean weight.
    """
    m, few = len(weights), PSEUDO_ROWS / len(weights)
    size = torch.log(expected + LEAST_SIZE * expected.mean())
    spread = float(size.std(unbiased=False))
    if not spread > 0:  # all rows have the same s, or no row can differ
        return torch.ones_like(expected)
    size = (size - size.mean()) / spread
    share = weights / weights.sum()
    heavier = torch.log(weights / likely)
    off, heavier = size[:m] - share @ size[:m], heavier - share @ heavier
    square = float(share @ off.square()) + few
    slope = float(share @ (off * heavier)) / square
    left = float(share @ (heavier - slope * off).square())
    error = math.sqrt(left) * float((share * off).norm()) / square
    if abs(slope) <= error:
        return torch.ones_like(expected)
    factors = torch.exp(slope * (1 - (error / slope) ** 2) * size)
    known, found = float(share @ weights), float(share @ (likely * factors[:m]))
    return factors * (known + few) / (found + few)
