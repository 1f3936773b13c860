"""Labels drawn by design: weights, variances against enumeration, errors."""

import itertools
import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from dessl.evaluation import NarrowIntervalWarning, compare_models, estimate_metric
from dessl.evaluation.debiased.design import Design, design_of, designed
from dessl.evaluation.debiased.fit import fitted
from dessl.evaluation.debiased.proxies import Proxies, Sample
from dessl.evaluation.debiased.shift import ShiftWarning


def sample_of(loss: torch.Tensor, h: torch.Tensor, h_u: torch.Tensor) -> Sample:
    def proxies(values: torch.Tensor) -> Proxies:
        return Proxies(values, torch.zeros(3, len(values), dtype=torch.float64))

    return Sample(loss, proxies(h), proxies(h_u))


def test_equal_weights_are_labels_missing_at_random(predictions) -> None:
    p, y = predictions(n=100)
    others, _ = predictions(n=2000, seed=1)
    plain = estimate_metric("brier", p, y, others)
    equal = estimate_metric("brier", p, y, others, propensity=[0.05] * 100)
    assert equal.effective_labels == pytest.approx(100)
    assert equal.value == pytest.approx(plain.value, abs=0.01)
    assert equal.high - equal.low == pytest.approx(plain.high - plain.low, rel=0.1)
    assert equal.labelled_only.value == pytest.approx(plain.labelled_only.value)


def test_stratified_estimates_are_unbiased_over_all_draws() -> None:
    """Two of three rows in each of two strata: every one of the nine draws, by hand."""
    loss = torch.tensor([0.0, 1.0, 0.5, 2.0, 3.0, 1.0], dtype=torch.float64)
    h = torch.tensor([0.1, 0.8, 0.3, 1.5, 2.0, 1.2], dtype=torch.float64)
    values = []
    for one, two in itertools.product(itertools.combinations(range(3), 2), repeat=2):
        rows = [*one, *(3 + i for i in two)]
        rest = [i for i in range(6) if i not in rows]
        design = design_of(4, 2, None, ["a", "a", "b", "b"], ["a", "b"])
        fit = designed(sample_of(loss[rows], h[rows], h[rest]), design, lam=0.7)
        values.append(fit.value)
    assert np.mean(values) == pytest.approx(float(loss.mean()))


def test_the_variance_is_that_of_a_stratified_mean() -> None:
    rng = np.random.default_rng(0)
    loss = torch.as_tensor(rng.normal(size=12))
    none = torch.empty(0, dtype=torch.float64)
    design = Design(
        torch.tensor([0.8 / 5] * 5 + [0.2 / 7] * 7, dtype=torch.float64),
        torch.tensor([0] * 5 + [1] * 7),
    )
    fit = designed(sample_of(loss, torch.zeros_like(loss), none), design)
    a, b = loss[:5], loss[5:]
    expected = 0.64 * float(a.var()) / 5 + 0.04 * float(b.var()) / 7
    between = 0.8 * float(a.mean() - fit.value) ** 2 + 0.2 * float(b.mean() - fit.value) ** 2
    error = fit.standard_error(fit.leverage_variance)
    assert error**2 == pytest.approx(expected + between / 12)
    assert fit.value == pytest.approx(0.8 * float(a.mean()) + 0.2 * float(b.mean()))


def test_lambda_is_the_one_of_least_variance() -> None:
    rng = np.random.default_rng(1)
    h = torch.as_tensor(rng.normal(size=60))
    loss, h_u = (
        0.6 * h + 0.05 * torch.as_tensor(rng.normal(size=60)),
        torch.as_tensor(rng.normal(size=400)),
    )
    design = design_of(60, 400, rng.uniform(0.05, 0.5, 60), None, None)
    assert design is not None
    sample = sample_of(loss, h, h_u)

    def variance(lam: float) -> float:
        fit = designed(sample, design, lam=lam)
        own = float((fit.residuals**2).sum()) / (60 * fit.labels)
        return own + fit.unlabelled_variance

    best = designed(sample, design).lam
    assert variance(best) < min(variance(best - 0.02), variance(best + 0.02))
    assert best == pytest.approx(0.6, abs=0.05)


def test_without_unlabelled_rows_equal_weights_are_the_plain_fit(predictions) -> None:
    loss = torch.as_tensor(np.random.default_rng(0).normal(size=30))
    none = torch.empty(0, dtype=torch.float64)
    sample = sample_of(loss, loss, none)
    one = designed(sample, design_of(30, 0, [0.5] * 30, None, None))
    two = fitted(sample)
    assert one.value == pytest.approx(two.value)
    assert one.leverage_variance == pytest.approx(two.leverage_variance)


def test_class_balanced_labels_of_skewed_classes_are_weighted_back() -> None:
    rng = np.random.default_rng(0)
    y = (rng.random(20_000) < 0.1).astype(int)
    logit = rng.normal(size=20_000) + np.where(y == 1, 0.2, -1.5)
    p1 = 1 / (1 + np.exp(-1.5 * logit))
    p = np.stack([1 - p1, p1], axis=1)
    truth = float((p.argmax(1) == y).mean())
    held, naive = 0, 0
    for _ in range(150):
        rows = np.concatenate([rng.choice(np.flatnonzero(y == c), 40) for c in (0, 1)])
        others = rng.integers(20_000, size=2000)
        chance = np.where(y[rows] == 1, 40 / 0.1, 40 / 0.9) / 20_000
        found = estimate_metric(
            "accuracy", p[rows], y[rows], p[others], propensity=chance, strata=y[rows],
            confidence=0.9, check_shift=False,
        )  # fmt: skip
        held += found.low <= truth <= found.high
        low, high = estimate_metric(
            "accuracy", p[rows], y[rows], p[others], confidence=0.9, check_shift=False
        )[1:3]
        naive += low <= truth <= high
    assert held / 150 > 0.82  # three standard errors are 7 points
    assert naive / 150 < 0.2


@pytest.mark.parametrize("other", [False, True])
def test_weighted_bounds_written_out(other: bool) -> None:
    """If most of its answers are wrong, losses are skewed the other way than the model expects."""
    rng = np.random.default_rng(0)
    top = rng.uniform(0.6, 1.0, 90)
    p = np.stack([top, 1 - top], axis=1)
    y = (rng.random(40) > top[:40]).astype(int)
    if other:
        y = (top[:40] < 0.85).astype(int)
    chance = rng.uniform(0.05, 0.9, 40)
    found = estimate_metric("brier", p[:40], y, p[40:], propensity=chance, check_shift=False)
    loss = ((p[:40] - np.eye(2)[y]) ** 2).sum(axis=1)
    h = 1 - (p**2).sum(axis=1)
    a = 1 / chance / (1 / chance).sum()
    lam, n = found.lam, 90
    assert 0 < lam <= 1
    residuals = loss - lam * h[:40]
    toward = -(h - h.mean()) / n
    toward[:40] += a * (h[:40] - a @ h[:40])
    moved = -lam * toward
    moved[:40] += a * (loss - a @ loss)
    c = moved[:40] / np.sqrt(1 - a - toward[:40] ** 2 / (toward @ toward))
    law = 0.98 * p[:40] + 0.01
    centre = lam * h[:40] + a @ (expected(p, law, 1) - lam * h[:40])
    squares = expected(p, law, 2, centre)
    cubes = expected(p, law, 3, centre)
    gamma = ((c**3).sum() + 0.15 * (a**3 @ cubes)) / ((c**2).sum() + 0.15 * (a**2 @ squares))
    v, extra = (c**2).sum(), (moved[40:] ** 2).sum()
    assert found.value == pytest.approx(a @ residuals + lam * h.mean())
    own = (c**3).sum() / (c**2).sum()
    assert gamma > 0
    assert (own < 0) == other
    degrees = 2 * v**2 / ((c**4).sum() - (c**3).sum() ** 2 / v)
    q = stats.t.ppf(0.975, degrees)
    below, above = (found.low, -1, 0.5, own if other else gamma), (found.high, 1, 1.0, gamma)
    for bound, sign, part, growth in (below, above):
        shift = part * v / (v + extra) * growth * (q**2 - 1) / 6
        root = bound - found.value + shift
        assert root**2 == pytest.approx(q**2 * (v + growth * root + extra), rel=1e-6)
        assert sign * root > 0


def expected(p: np.ndarray, law: np.ndarray, power: int, centre: Any = 0.0) -> np.ndarray:
    """The mean of the Brier score of the first rows, less a centre, to a power, over labels."""
    of_label = [((p[:40] - np.eye(2)[k]) ** 2).sum(axis=1) - centre for k in (0, 1)]
    return sum(law[:, k] * of_label[k] ** power for k in (0, 1))


def test_a_stratum_that_is_all_right_still_counts() -> None:
    """18 of 20 and 30 of 30 right: the second stratum, 60 % of all rows, may have wrong ones."""
    p = torch.tensor([[0.9, 0.1]] * 50)
    y, strata = [0] * 18 + [1] * 2 + [0] * 30, ["a"] * 20 + ["b"] * 30
    found = estimate_metric(
        "accuracy", p, y, p[:1].expand(150, 2), strata=strata,
        strata_unlabelled=["a"] * 60 + ["b"] * 90, alternative="larger", check_shift=False,
    )  # fmt: skip
    assert found.value == pytest.approx(0.4 * 0.9 + 0.6)
    alone = estimate_metric("accuracy", p[:20], y[:20], alternative="larger")
    exact = 1 - 0.05 ** (1 / 30)
    assert found.value - found.low > max(0.4 * (alone.value - alone.low), 0.6 * exact)


@pytest.mark.parametrize("metric", ["accuracy", "brier"])
def test_the_variance_of_a_comparison_written_out(metric: Any) -> None:
    rng = np.random.default_rng(1)
    sure, unsure = rng.dirichlet([0.1] * 3, 300), rng.dirichlet([9.0] * 3, 300)
    first = np.arange(300)[:, None] % 3 > 0  # of these rows the first model is sure
    p, q = np.where(first, sure, unsure), np.where(first, unsure, sure)
    y = ((p + q)[:100].cumsum(1) > 2 * rng.random((100, 1))).argmax(1)
    chance = rng.uniform(0.05, 0.5, 100)
    if metric == "brier":  # rows on which the models differ are labelled more often
        chance = ((p - q)[:100] ** 2).sum(1).clip(0.05, 0.9)
    rows = (metric, p[:100], q[:100], y, p[100:], q[100:])
    found = compare_models(*rows, propensity=chance, check_shift=False)
    weight = 1 / chance / (1 / chance).sum()
    labels = 1 / (weight**2).sum()
    if_label = np.eye(3)[p.argmax(1)] - np.eye(3)[q.argmax(1)]
    h = ((p + q) / 2 * if_label).sum(1)
    if metric == "brier":
        if_label = brier_if(p) - brier_if(q)
        h = (p * brier_if(p) - q * brier_if(q)).sum(1)
    loss = if_label[np.arange(100), y]
    assert (found.lam > 0) == (metric == "accuracy")

    # How far each labelled row moves the estimate, and its leverage.
    towards = np.zeros(300)
    towards[:100] = weight * (h[:100] - weight @ h[:100])
    towards -= (h - h.mean()) / 300
    moved = weight * (loss - weight @ loss) - found.lam * towards[:100]
    leverage = weight + bool(found.lam) * towards[:100] ** 2 / (towards**2).sum()
    squares = (moved / weight) ** 2 / (1 - leverage)

    law = 0.98 * (p + q) / 2 + 0.02 / 3
    off = if_label - found.lam * h[:, None]
    expected = (law * (off - (law * off).sum(1).mean()) ** 2).sum(1)
    likely = np.empty(300)
    for k in range(3):
        own = weight[p[:100].argmax(1) == k]
        likely[p.argmax(1) == k] = ((own**2).sum() + 0.02 / labels) / (own.sum() + 0.02)
    if metric == "brier":
        likely *= heavier_by_size(weight, likely[:100], expected)
    mean = labels * (likely * expected).mean()
    heavy = labels**2 * weight**2 @ expected[:100] + 8 * mean
    even = labels**2 * (weight * likely[:100]) @ expected[:100] + 8 * mean
    mean *= heavy / even
    counted = (labels * weight) ** 1.25
    few = 2 * mean**0.25 * expected.mean() ** 0.75
    ratio = (counted @ squares + few) / (counted @ expected[:100] + few)
    variance = 1.02 * ratio * mean
    error = np.sqrt(variance / labels + found.lam**2 * (towards[100:] ** 2).sum())
    half = stats.t.ppf(0.975, 99 - bool(found.lam)) * error
    assert (found.low, found.high) == pytest.approx(
        (found.difference - half, found.difference + half), abs=1e-9
    )


def brier_if(p: np.ndarray) -> np.ndarray:
    """The Brier score of each row for each possible label."""
    return np.stack([((p - np.eye(3)[k]) ** 2).sum(1) for k in range(3)], axis=1)


def heavier_by_size(weight: np.ndarray, likely: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """A weighted regression of log weights on log sizes, by numpy's least squares."""
    size = np.log(expected + 0.2 * expected.mean())
    size = (size - size.mean()) / size.std()
    own, heavier = size[:100], np.log(weight / likely)
    x, y = own - weight @ own, heavier - weight @ heavier
    rows = np.append(np.sqrt(weight) * x, np.sqrt(0.02))
    (slope,) = np.linalg.lstsq(rows[:, None], np.append(np.sqrt(weight) * y, 0.0))[0]
    spread = weight @ (y - slope * x) ** 2
    error = np.sqrt(spread * ((weight * x) ** 2).sum()) / (rows @ rows)
    assert abs(slope) > 2 * error
    factors = np.exp((slope - error**2 / slope) * size)
    labels = 1 / (weight @ weight)
    return factors * 1.02 / (labels * weight @ (likely * factors[:100]) + 0.02)


def test_the_sizes_of_strata_are_known_without_their_unlabelled_rows_too() -> None:
    """Labels alone give the same estimate and variance as λ = 0 with all rows."""
    generator = torch.Generator().manual_seed(0)
    loss, h, others = (torch.rand(n, generator=generator).double() for n in (60, 60, 940))
    sample = sample_of(loss, h, others)
    design = design_of(60, 940, None, ["a", "b"] * 30, ["a"] * 900 + ["b"] * 40)
    alone, both = designed(sample.alone, design), designed(sample, design, lam=0.0)
    assert alone.value == both.value
    error = alone.standard_error(alone.leverage_variance)
    assert error == pytest.approx(both.standard_error(both.leverage_variance))


def test_strata_tell_the_weights_of_unlabelled_rows() -> None:
    design = design_of(5, 7, None, list("aabbb"), list("aabbbbb"))
    assert design.others.tolist() == pytest.approx([2 / 12] * 2 + [8 / 3 / 12] * 5)
    assert design.weights.tolist() == pytest.approx([2 / 12] * 2 + [8 / 3 / 12] * 3)


def test_comparisons_hold_the_truth_where_large_differences_are_rarely_labelled() -> None:
    """Of one class a row in thirty is labelled, and on it the models differ most."""
    rng = np.random.default_rng(0)
    n, covered = 1500, 0
    for _ in range(200):
        y = rng.integers(0, 3, n)
        p = rng.dirichlet([1.0, 1.0, 1.0], n)
        p = 0.2 * p + 0.8 * np.eye(3)[y]
        differ = rng.random(n) < np.where(y == 0, 0.1, 0.01)
        q = np.where(differ[:, None], np.roll(p, 1, axis=1), p)
        chance = np.where(y == 0, 0.03, 0.2)
        known = rng.random(n) < chance
        found = compare_models(
            "accuracy", p[known], q[known], y[known], p[~known], q[~known],
            propensity=chance[known], check_shift=False, confidence=0.9,
        )  # fmt: skip
        covered += found.low <= (0.1 + 0.01 + 0.01) / 3 <= found.high
    assert 0.84 < covered / 200 < 0.96


def test_wrong_propensities_are_noticed(predictions) -> None:
    p, y = predictions(n=2000)
    rng = np.random.default_rng(0)
    sure = p.amax(1).numpy()
    labelled = rng.random(2000) < np.where(sure > 0.9, 0.05, 0.3)
    right = np.where(sure > 0.9, 0.05, 0.3)[labelled]
    known = torch.as_tensor(labelled)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimate_metric("accuracy", p[known], y[known], p[~known], propensity=right)
    with pytest.warns(ShiftWarning, match="with these propensities"):
        estimate_metric("accuracy", p[known], y[known], p[~known], propensity=0.35 - right)


def test_two_models_are_compared_by_design(predictions) -> None:
    (a, y), (b, _) = predictions(n=120), predictions(n=120, seed=3)
    found = compare_models("brier", a, b, y, propensity=[0.1, 0.2] * 60)
    weights = torch.tensor([2.0, 1.0] * 60, dtype=torch.float64)
    truth = torch.eye(3, dtype=torch.float64)[y]
    losses = [(p - truth).square().sum(1) for p in (a, b)]
    expected = float((weights * (losses[0] - losses[1])).sum() / weights.sum())
    assert found.difference == pytest.approx(expected)
    assert found.effective_labels == pytest.approx(180**2 / (60 * 5))
    assert math.isnan(found.shift_p_value)


@pytest.mark.parametrize(
    ("how", "complaint"),
    [
        ({"propensity": [0.5] * 59}, "got 59 for 60 rows"),
        ({"propensity": [0.0] + [0.5] * 59}, r"must lie in \(0, 1\]"),
        ({"strata": ["a"] * 60}, "need their sizes.*strata_unlabelled"),
        ({"strata": ["a"] * 59, "strata_unlabelled": ["a"] * 30}, "each of the 60 rows"),
        ({"strata": ["a"] * 59 + ["b"], "strata_unlabelled": ["a"] * 30}, "'b' has 1"),
        ({"strata": ["a"] * 60, "strata_unlabelled": ["a"] * 29 + ["c"]}, "'c' has none"),
        ({"strata_unlabelled": ["a"] * 30}, "strata_unlabelled needs strata"),
        (
            {"strata": ["a"] * 60, "strata_unlabelled": ["a"] * 30, "propensity": [0.5] * 60},
            "not both",
        ),
        ({"propensity": [0.5] * 60, "method": "cross_fit"}, "takes no propensity"),
    ],
)
def test_errors_say_what_to_do(how, complaint, predictions) -> None:
    p, y = predictions()
    with pytest.raises(ValueError, match=complaint):
        estimate_metric("accuracy", p, y, p[:30], **how)


@pytest.mark.slow
@pytest.mark.parametrize("active", [True, False])
def test_comparisons_cover_if_rows_that_differ_most_are_labelled_more_or_less_often(active) -> None:
    """The weight of a row depends on the models' distance, not on its predicted class."""
    rng = np.random.default_rng(1)
    p, q = (rng.dirichlet([0.6] * 3, 20_000) for _ in range(2))
    p, q = 0.7 * p + 0.3 * q, 0.7 * q + 0.3 * p
    y = ((p + q).cumsum(1) > 2 * rng.random((20_000, 1))).argmax(1)
    far = ((p - q) ** 2).sum(1)
    far /= far.max()
    chance = 0.25 + far if active else 0.1 + (1 - far) ** 2
    chance *= 0.08 / chance.mean()
    rows = np.arange(20_000)
    losses = [((one - np.eye(3)[y]) ** 2).sum(1) for one in (p, q)]
    truth, inside = (losses[0] - losses[1]).mean(), 0
    for _ in range(400):
        pool = rng.choice(rows, 1000)
        drawn = rng.random(1000) < chance[pool]
        known, others = pool[drawn], pool[~drawn]
        found = compare_models(
            "brier", p[known], q[known], y[known], p[others], q[others],
            propensity=chance[known], check_shift=False, confidence=0.9,
        )  # fmt: skip
        inside += found.low <= truth <= found.high
    assert 0.86 <= inside / 400 <= 0.94


def test_a_large_stratum_without_an_error_is_warned_of() -> None:
    p, strata = np.tile([0.9, 0.1], (40, 1)), np.repeat(["big", "small"], 20)
    y = np.r_[np.zeros(20), np.tile([0, 1], 10)].astype(int)
    how = {
        "strata": strata,
        "strata_unlabelled": np.r_[["big"] * 700, ["small"] * 300],
        "check_shift": False,
    }
    others = np.tile([0.9, 0.1], (1000, 1))
    with pytest.warns(NarrowIntervalWarning, match="all 20 labelled rows of a stratum with 69% of"):
        estimate_metric("brier", p, y, others, **how)
    y[0] = 1  # errors have been seen
    with warnings.catch_warnings():
        warnings.simplefilter("error", NarrowIntervalWarning)
        estimate_metric("brier", p, y, others, **how)
