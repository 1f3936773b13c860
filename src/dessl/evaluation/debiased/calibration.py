"""Calibration error from few labels: bins and their weights from all rows, gaps from labelled ones.

With w_b the share of all rows in bin b and ḡ_b the mean of 1[right] − confidence over its m_b
labelled rows, T = Σ_b w_b |ḡ_b| is biased upwards: |ḡ_b| is positive even if the true gap is zero.
The estimate is s T, with s in [0, 1] such that gaps s ḡ_b would give the observed T on average:

    Σ_b w_b E|N(s ḡ_b, σ_b²)| = T,   σ_b² = ( Σ_i (g_i − ḡ_b)² + f_b(1 − f_b) ) / m_b²

and s = 0 if a calibrated model would give a T this large on average. f_b is the bin's mean
confidence: one pseudo-row, so that a bin whose few labelled rows are all correct still has some
variance. (The noise in w_b, from all rows, is small in comparison.) For a calibrated model T is
above its mean in half of all samples, so s T remains biased upwards there, by about a third of the
bias of T. Its mean for a calibrated model is simulated and returned with it.

If rows belong to groups, two rows of one group have the correlation ρ of their g_i − ḡ_b
(:mod:`dessl.evaluation.debiased.groups`). With n_gb the labelled rows of group g in bin b, the sums
of bins have, in units of the variance of a row, the covariance

    S_bc = ρ Σ_g n_gb n_gc + (1 − ρ) m_b 1[b = c]:

σ_b² is multiplied by S_bb/m_b, the noise of bins has their correlation, and the counts of correct
rows from which the bounds are simulated are beta-binomial with this variance.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from dessl import _checks
from dessl._checks import ArrayLike
from dessl.evaluation.debiased.calibration_bounds import Gaps, counts_of, gap_bounds
from dessl.evaluation.debiased.groups import Groups, groups_of
from dessl.evaluation.debiased.inputs import ALTERNATIVES, checked_confidence
from dessl.evaluation.debiased.intervals import Alternative, tail_of, within
from dessl.evaluation.debiased.proxies import METRICS, Sample, sampled
from dessl.evaluation.metrics.calibration import (
    Spacing,
    bin_edges,
    bin_index,
    folded_normal_mean,
)


class ECEEstimate(NamedTuple):
    """An estimate of the top-label calibration error.

    Attributes:
        value: The estimate, at least 0. It is biased upwards if the model is nearly calibrated:
            compare it with ``if_calibrated``, and read the interval.
        low: Lower confidence bound.
        high: Upper confidence bound.
        plug_in: The usual plug-in estimate from the labelled rows alone, in the same bins.
        edges: Edges of the bins, (bins + 1,).
        weights: Share of all rows in each bin, (bins,).
        gaps: Mean of 1[right] − confidence over each bin's labelled rows, (bins,).
        n_labelled: Number m of labelled rows.
        n_unlabelled: Number n_u of unlabelled rows.
        confidence: Nominal coverage.
        if_calibrated: The mean that ``value`` would have if the model were calibrated: noise alone.
        n_groups: Number of groups with labelled rows; None if each row is its own.
    """

    value: float
    low: float
    high: float
    plug_in: float
    edges: Tensor
    weights: Tensor
    gaps: Tensor
    n_labelled: int
    n_unlabelled: int
    confidence: float
    if_calibrated: float
    n_groups: int | None = None

    @property
    def sentence(self) -> str:
        """The estimate with its interval, and how much of it may be noise."""
        return (
            f"Calibration error {self.value:.3f}, {self.confidence:.0%} interval {self.low:.3f} to "
            f"{self.high:.3f}. The value is biased upwards: with {self.n_labelled} labels a "
            f"calibrated model has {self.if_calibrated:.3f} on average."
        )


def estimate_ece(
    probabilities_labelled: ArrayLike,
    y: ArrayLike,
    probabilities_unlabelled: "ArrayLike | None" = None,
    *,
    n_bins: int | None = None,
    spacing: Spacing = "equal_mass",
    confidence: float = 0.95,
    alternative: Alternative = "two-sided",
    groups: "ArrayLike | None" = None,
    draws: int = 999,
    generator: torch.Generator | None = None,
) -> ECEEstimate:
    """Estimate the expected calibration error Σ_b w_b |accuracy_b − confidence_b| (l1, top label).

    The interval is valid for any shape of miscalibration. The upper bound is the largest error
    that, spread over the bins in proportion to their noise, is consistent with a Σ_b w_b |ḡ_b|
    this small; the lower bound is the smallest error that, all in one bin or spread as observed,
    is consistent with one this large. Noise adds least and (nearly) most to those shapes, so for
    most others the interval is conservative. It covers the binned error, with the bin weights
    treated as known.

    The value is biased upwards for a nearly calibrated model: no estimate of an absolute gap
    averages to zero. It is 0 if a calibrated model would give gaps as large on average.
    ``if_calibrated`` is the mean that noise alone would give; read the interval too, whose lower
    bound is 0 where the model may be calibrated.

    Args:
        probabilities_labelled: Predicted probabilities of the labelled rows, (m, classes), m ≥ 3.
        y: Their labels, (m,).
        probabilities_unlabelled: Predicted probabilities of the unlabelled rows, (n_u, classes);
            without them, bins and weights come from the labelled rows.
        n_bins: Number of bins; by default one per ten labelled rows, from 2 to 15. Bins without
            labelled rows are merged with a neighbour.
        spacing: ``"equal_mass"`` over all rows, or ``"equal_width"``.
        confidence: Nominal coverage, in (0, 1).
        alternative: ``"two-sided"``, ``"larger"`` (a lower bound) or ``"smaller"`` (an upper one).
        groups: The group of each labelled row, (m,), if rows belong together, such as those of one
            patient. The interval then allows for their correlation, and the default number of bins
            is one per ten independent rows of the same precision.
        draws: Number of Monte Carlo draws for the interval.
        generator: Source of the draws; seeded with 0 by default.

    >>> rows = [[0.9, 0.1], [0.8, 0.2]] * 20
    >>> estimate = estimate_ece(rows, [0, 1] * 20, rows * 10)
    >>> round(estimate.value, 2), round(estimate.plug_in, 2)
    (0.45, 0.45)
    >>> round(estimate.if_calibrated, 2)
    0.03
    """
    confidence = checked_confidence(confidence)
    _checks.one_of("alternative", alternative, ALTERNATIVES)
    _checks.one_of("spacing", spacing, ("equal_mass", "equal_width"))
    _checks.whole_number("draws", draws, low=99)
    unlabelled = () if probabilities_unlabelled is None else (probabilities_unlabelled,)
    sample = sampled(METRICS["accuracy"], (probabilities_labelled,), y, unlabelled)
    m = len(sample.loss)
    together = groups_of(m, 0, groups, None)
    bins = (
        min(15, max(2, int(_independent(sample, together) / 10 + 1e-9)))
        if n_bins is None
        else n_bins
    )
    gaps, mixing = _gaps(sample, _checks.whole_number("n_bins", bins, low=1), spacing, together)
    source = torch.Generator().manual_seed(0) if generator is None else generator
    noise = torch.randn(
        draws, len(gaps.means), generator=source, device=source.device, dtype=torch.float64
    )
    noise = noise.cpu() if mixing is None else noise.cpu() @ mixing
    value = float(_without_noise(gaps.means[None], gaps.variances, gaps.weights))
    tail = tail_of(confidence, alternative)
    bounds = within(gap_bounds(gaps, noise, tail), tail, 0.0, 1.0)
    return ECEEstimate(
        value,
        min(value, bounds.low),
        max(value, bounds.high),
        float((gaps.labelled * gaps.means.abs()).sum()) / m,
        gaps.edges,
        gaps.weights,
        gaps.means,
        m,
        len(sample.unlabelled.h),
        confidence,
        float(_by_chance(gaps, noise).mean()),
        None if together is None else together.labelled,
    )


def _independent(sample: Sample, groups: Groups | None) -> float:
    """The number of independent labelled rows with the same precision."""
    m, gap = len(sample.loss), sample.loss - sample.labelled.h
    if groups is None:
        return m
    weights = torch.full_like(gap, 1 / m)
    return 1 / float(weights @ groups.shared_weights(weights, gap - gap.mean()))


def _gaps(
    sample: Sample, bins: int, spacing: Spacing, groups: Groups | None
) -> tuple[Gaps, Tensor | None]:
    """Each bin's weight over all rows, its mean gap, and the variance of that mean.

    With groups, also the matrix (bins, bins) that gives independent noise the correlation of the
    bins.
    """
    confidences = sample.every_h
    edges = _occupied(bin_edges(confidences, bins, spacing), sample.labelled.h)
    everywhere = bin_index(confidences, edges)
    index = everywhere[: len(sample.loss)]
    n = len(edges) - 1
    rows = torch.bincount(everywhere, minlength=n)
    labelled = torch.bincount(index, minlength=n)
    gap = sample.loss - sample.labelled.h

    def total(where: Tensor, values: Tensor) -> Tensor:
        return values.new_zeros(n).index_add_(0, where, values)

    means = total(index, gap) / labelled
    off = gap - means[index]
    squares = total(index, off.square())
    mean_confidence = total(everywhere, confidences) / rows
    imagined = mean_confidence * (1 - mean_confidence)
    variances = (squares + imagined) / labelled.square()
    weights = rows.double() / rows.sum()
    believed = total(index, sample.labelled.h) / labelled
    alone = torch.ones_like(means)
    gaps = Gaps(edges, weights, labelled, alone, believed, means, variances, imagined / labelled)
    return (gaps, None) if groups is None else _with_groups(gaps, groups, index, off)


def _with_groups(gaps: Gaps, groups: Groups, index: Tensor, off: Tensor) -> tuple[Gaps, Tensor]:
    """The gaps with the variances of grouped rows, and the mixing of noise.

    Args:
        gaps: Those of independent rows.
        groups: The groups of the labelled rows.
        index: The bin of each labelled row, (m,).
        off: Its gap less the mean of its bin, (m,).
    """
    counts = off.new_zeros(groups.labelled, len(gaps.labelled))
    counts.index_put_((groups.number, index), torch.ones_like(off), accumulate=True)
    correlation = groups.correlation(torch.ones_like(off), off)
    shared = correlation * counts.T @ counts
    shared += (1 - correlation) * torch.diag(gaps.labelled.double())
    inflated = shared.diagonal() / gaps.labelled
    scale = shared.diagonal().sqrt()
    values, vectors = torch.linalg.eigh(shared / scale[:, None] / scale)
    mixing = (vectors * values.clamp(min=0).sqrt()).T
    widened = gaps._replace(
        inflated=inflated,
        variances=gaps.variances * inflated,
        calibrated=gaps.calibrated * inflated,
    )
    return widened, mixing


def _without_noise(means: Tensor, variances: Tensor, weights: Tensor) -> Tensor:
    """Return s T for each sample of gaps (samples, bins), such that s ḡ gives T on average."""
    observed = means.abs() @ weights
    low, high = torch.zeros_like(observed), torch.ones_like(observed)
    for _ in range(30):
        middle = (low + high) / 2
        enough = folded_normal_mean(middle[:, None] * means, variances) @ weights >= observed
        low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
    by_chance = folded_normal_mean(torch.zeros_like(means), variances) @ weights
    return torch.where(by_chance >= observed, 0.0, high) * observed


def _by_chance(gaps: Gaps, noise: Tensor) -> Tensor:
    """The estimates for samples of a calibrated model, (draws,)."""
    rows = gaps.labelled.double()
    hits = counts_of(gaps, noise)(gaps.confidences).T
    squares = gaps.inflated * hits * (rows - hits) / rows
    squares += gaps.calibrated * rows  # the pseudo-row
    return _without_noise(hits / rows - gaps.confidences, squares / rows.square(), gaps.weights)


def _occupied(edges: Tensor, labelled: Tensor) -> Tensor:
    """Drop the edges that would leave a bin without labelled rows."""
    kept = [edges[0]]
    for edge in edges[1:-1]:
        inside = (labelled > kept[-1]) & (labelled <= edge)
        if bool(inside.any()) and bool((labelled > edge).any()):
            kept.append(edge)
    return torch.stack([*kept, edges[-1]])
