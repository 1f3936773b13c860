"""Do labelled and unlabelled rows look the same? Three tests of MCAR without a model of the label.

The first is a cross-fitted classifier of labelled against unlabelled rows: ridge regression on the
columns, ridge regression on random features of a Gaussian kernel, and whether labelled rows have
labelled neighbours. The second tests each column separately, the third a model's outputs.

All p-values are from permutations. Under MCAR every choice of :mod:`dessl.safety.choices` is as
likely as the observed one, so the share of choices with a statistic at least as large is an exact
p-value. With groups, whole groups are exchanged, cross-fitted and compared with each other.
Several statistics are put on a common scale, and the largest of each choice is compared (Westfall
and Young's maxT): the corrected p-values are exact for any dependence between them.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dessl.evaluation.statistics.signed_ranks import average_ranks
from dessl.safety.choices import PERMUTATIONS, Codes, choices, group_folds
from dessl.teachers.neighbours import ENTRIES, Index
from dessl.teachers.space import Space

Floats = NDArray[np.float64]
FOLDS = 5
FEATURES = 128  # random features of the kernel
NEIGHBOURS = 3
WAYS = ("linear", "kernel", "neighbours")
ROUNDING = 1e-5  # standard deviations
LEAST_ROWS = 10  # rows of each kind: with fewer, no test has useful power


class MaxTest(NamedTuple):
    """Joint p-values of several statistics.

    Attributes:
        p_value: p-value of the largest statistic.
        corrected: (statistics,) p-values corrected for the number of statistics.
    """

    p_value: float
    corrected: Floats


class ClassifierTest(NamedTuple):
    """Can a classifier distinguish labelled from unlabelled rows?

    Attributes:
        p_value: p-value, small if it can.
        auc: Out-of-fold AUC of the better of the two regressions: 0.5 if the rows look the same.
        by: The most significant statistic: ``"linear"``, ``"kernel"`` or ``"neighbours"``.
    """

    p_value: float
    auc: float
    by: str


@dataclass(frozen=True)
class ColumnShift:
    """How one column differs between labelled and unlabelled rows.

    Attributes:
        name: Name of the column.
        p_value: p-value, corrected for the number of columns.
        auc: Probability that a labelled row has the larger value, ties counting half.
        spread: Whether the spread differs more than the location.
    """

    name: str
    p_value: float
    auc: float
    spread: bool


def classifier_test(
    values: Tensor,
    labelled: NDArray[np.bool_],
    *,
    groups: Codes | None = None,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> ClassifierTest:
    """Test whether labelled rows can be distinguished from unlabelled ones.

    Args:
        values: (n, d) columns of the rows.
        labelled: (n,) which rows are labelled.
        groups: (n,) group of each row; None if rows are independent.
        permutations: Number of random choices of labelled rows.
        seed: Seed of folds, features and choices.

    >>> generator = torch.Generator().manual_seed(0)
    >>> x = torch.randn(200, 3, generator=generator)
    >>> labelled = np.arange(200) < 60
    >>> classifier_test(x, labelled).p_value > 0.05
    True
    >>> classifier_test(x + torch.from_numpy(labelled)[:, None] * 1.0, labelled).p_value
    0.005
    """
    z = Space.of(values)(values)
    drawn = choices(labelled, permutations=permutations, seed=seed, groups=groups)
    generator = np.random.default_rng(seed)
    units = np.arange(len(z)) if groups is None else groups
    folds = group_folds(units, FOLDS, generator)
    share = float(labelled.mean())
    least = share * (1 - share) * len(np.unique(units))
    scores = {
        "linear": _ridge_scores(_standardised(z), drawn, folds, least),
        "kernel": _ridge_scores(_random_features(z, generator), drawn, folds, least),
    }
    statistics = [_separation(found, drawn, folds) for found in scores.values()]
    statistics.append(_labelled_neighbours(z, drawn, groups))
    test = max_test(np.stack(statistics, 1))
    aucs = [auc(found[0][labelled], found[0][~labelled]) for found in scores.values()]
    return ClassifierTest(test.p_value, max(aucs), WAYS[int(test.corrected.argmin())])


def column_tests(
    values: NDArray[np.floating],
    labelled: NDArray[np.bool_],
    names: tuple[str, ...],
    *,
    strata: Codes | None = None,
    groups: Codes | None = None,
    permutations: int = 499,
    seed: int = 0,
) -> tuple[ColumnShift, ...]:
    """Test each column for a shift in location or spread, corrected for their number.

    The statistics are Wilcoxon's rank sum and the sum of the ranks' distances from their middle.

    Args:
        values: (n, d).
        labelled: (n,) which rows are labelled.
        names: Names of the columns.
        strata: (n,) stratum of each row; rows are ranked and exchanged only within a stratum.
        groups: (n,) group of each row, each within one stratum; None if rows are independent.
        permutations: Number of random choices of labelled rows.
        seed: Seed of the choices.

    >>> values = np.stack([np.arange(40.0), np.arange(40.0) % 7], 1)
    >>> [shift.p_value < 0.05 for shift in column_tests(values, np.arange(40) < 12, ("a", "b"))]
    [True, False]
    """
    drawn = choices(labelled, permutations=permutations, seed=seed, strata=strata, groups=groups)
    ranks = _centred_ranks(values, strata)
    spread = _centred_ranks(np.abs(ranks), strata)
    scores = np.concatenate([ranks, spread], 1).astype(np.float32)
    sums = np.abs((drawn @ scores).astype(np.float64))
    test = max_test(sums)
    place, width = np.split(test.corrected, 2)
    return tuple(
        ColumnShift(
            name,
            float(min(place[k], width[k])),
            auc(values[labelled, k], values[~labelled, k]),
            bool(width[k] < place[k]),
        )
        for k, name in enumerate(names)
    )


def output_tests(
    log_p: Tensor,
    labelled: NDArray[np.bool_],
    folds: Codes,
    class_names: tuple[str, ...],
    *,
    groups: Codes | None = None,
    seed: int = 0,
) -> tuple[ColumnShift, ...]:
    """Test whether a model's outputs have the same distribution on labelled and unlabelled rows.

    A model is more confident on rows whose labels it was trained on: each labelled row must be
    predicted by a model that did not see its label, and each unlabelled row by one of the same
    models.

    Args:
        log_p: Log-probabilities (n, classes) of the rows.
        labelled: (n,) which rows are labelled.
        folds: (n,) number of the model that predicted each row.
        class_names: Names of the classes.
        groups: (n,) group of each row, each within one fold; None if rows are independent.
        seed: Seed of the choices.
    """
    p = log_p.exp()
    entropy = -(p * log_p).sum(1)
    answers = torch.cat([entropy[:, None], p.amax(1, keepdim=True), p], 1)
    names = ("entropy H", "confidence", *(f"probability of {name}" for name in class_names))
    return column_tests(
        answers.double().numpy(), labelled, names,
        strata=folds, groups=groups, permutations=199, seed=seed,
    )  # fmt: skip


def max_test(statistics: Floats) -> MaxTest:
    """Compare the first row of statistics with all others.

    Args:
        statistics: (permutations + 1, statistics), large if labelled rows differ; the first row is
            that of the data.

    >>> max_test(np.array([[3.0, 0.0], [1.0, 1.0], [0.0, -1.0], [-1.0, 0.0]])).p_value
    0.25
    """
    spread = statistics.std(0)
    scale = np.where(spread > 0, spread, 1.0)
    scaled = (statistics - statistics.mean(0)) / scale
    largest = scaled.max(1)
    # A tie counts against the data; rounding in float32 must not break one.
    corrected = (largest[1:, None] >= scaled[0] - ROUNDING).sum(0) + 1
    corrected = corrected / len(statistics)
    return MaxTest(float(corrected.min()), corrected)


def auc(first: NDArray[np.floating], second: NDArray[np.floating]) -> float:
    """Return the probability that a value of the first is the larger, ties counting half.

    >>> auc(np.array([1.0, 2.0]), np.array([0.0, 2.0]))
    0.625
    """
    ranks = average_ranks(np.concatenate([first, second]))
    n, m = len(first), len(second)
    return float((ranks[:n].sum() - n * (n + 1) / 2) / (n * m))


def _standardised(z: Tensor) -> Floats:
    array = z.double().numpy()
    spread = array.std(0)
    kept = spread > 1e-9
    scaled: Floats = (array[:, kept] - array[:, kept].mean(0)) / spread[kept]
    return scaled


def _random_features(z: Tensor, generator: np.random.Generator) -> Floats:
    """Cosines whose inner products approximate a Gaussian kernel of median width."""
    some = z[torch.from_numpy(generator.permutation(len(z))[:500])]
    distances = torch.pdist(some)
    width = float(distances.median()) if bool((distances > 0).any()) else 1.0
    directions = torch.from_numpy(generator.normal(size=(z.shape[1], FEATURES))).float()
    phases = torch.from_numpy(generator.uniform(0, 2 * math.pi, FEATURES)).float()
    return _standardised(torch.cos(z @ directions / max(width, 1e-9) + phases))


def _ridge_scores(
    features: Floats, drawn: NDArray[np.float32], folds: Codes, least: float
) -> Floats:
    """Out-of-fold scores (choices, n) of least squares with a penalty, for every choice at once.

    The penalty accounts for the noise of a direction estimated from n_l n_u / n rows.
    """
    n, width = features.shape
    penalty = n * width / least * np.eye(width)
    centred = drawn.astype(np.float64) - drawn.mean(1, dtype=np.float64)[:, None]
    gram, moments = features.T @ features, centred @ features
    scores = np.empty((len(drawn), n))
    for fold in np.unique(folds):
        held = folds == fold
        own = features[held]
        slopes = np.linalg.solve(gram - own.T @ own + penalty, (moments - centred[:, held] @ own).T)
        scores[:, held] = (own @ slopes).T
    return scores


def _separation(scores: Floats, drawn: NDArray[np.float32], folds: Codes) -> Floats:
    """Covariance of scores and choices within folds, (choices,)."""
    total = np.zeros(len(scores))
    for fold in np.unique(folds):
        held = folds == fold
        own = scores[:, held] - scores[:, held].mean(1, keepdims=True)
        spread = np.sqrt((own**2).mean(1))
        total += (own * drawn[:, held]).sum(1) / np.where(spread > 0, spread, 1.0)
    return total


def _labelled_neighbours(z: Tensor, drawn: NDArray[np.float32], groups: Codes | None) -> Floats:
    """How many neighbours of labelled rows are labelled, relative to chance, (choices,)."""
    if groups is None:
        near = Index(z, exact=True).nearest_others(min(NEIGHBOURS, len(z) - 1)).numbers.numpy()
    else:
        near = _neighbours_elsewhere(z, torch.from_numpy(groups)).numpy()
    found = np.zeros(len(drawn))
    for place in range(near.shape[1]):
        found += (drawn * drawn[:, near[:, place]]).sum(1, dtype=np.float64)
    # With groups of unequal sizes, choices differ in their number of rows.
    relative: Floats = found / np.maximum(1.0, drawn.sum(1, dtype=np.float64)) ** 2
    return relative


def _neighbours_elsewhere(z: Tensor, groups: Tensor) -> Tensor:
    """The nearest rows of other groups, (n, k): those of a row's own group are labelled with it."""
    k = min(NEIGHBOURS, len(z) - int(torch.unique(groups, return_counts=True)[1].max()))
    half = z.square().sum(1) / 2
    found = []
    for rows in torch.split(torch.arange(len(z)), max(1, ENTRIES // len(z))):
        distances = torch.addmm(half, z[rows], z.T, alpha=-1)
        distances[groups[rows, None] == groups] = torch.inf
        found.append(distances.topk(k, 1, largest=False).indices)
    return torch.cat(found)


def _centred_ranks(values: NDArray[np.floating], strata: Codes | None) -> Floats:
    """Ranks (n, d) within strata, each column of mean 0 in each stratum and of variance 1."""
    groups = np.zeros(len(values), np.int64) if strata is None else strata
    ranks = np.zeros(values.shape)
    for group in np.unique(groups):
        rows = groups == group
        own = average_ranks(values[rows]) / rows.sum()
        ranks[rows] = own - own.mean(0)
    spread = ranks.std(0)
    return ranks / np.where(spread > 0, spread, 1.0)
