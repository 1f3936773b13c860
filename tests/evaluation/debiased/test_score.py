"""Rows of which a model is sure, one in fifty: few or none of them are among the labelled ones."""

import numpy as np
import pytest
import torch

from dessl.evaluation import estimate_metric
from dessl.evaluation.debiased.fit import fitted
from dessl.evaluation.debiased.intervals import tail_of
from dessl.evaluation.debiased.proxies import METRICS, Proxies, Sample, sampled
from dessl.evaluation.debiased.score import score_bounds

TOPS, RIGHT, SHARES = (0.51, 0.53, 0.99), (0.5, 0.95, 0.95), (0.49, 0.49, 0.02)
BRIER = METRICS["brier"]


def rows(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    kind = rng.choice(3, n, p=SHARES)
    top = np.array(TOPS)[kind]
    wrong = rng.random(n) >= np.array(RIGHT)[kind]
    return np.stack([top, 1 - top], axis=1), wrong.astype(int)


@pytest.mark.parametrize(("labels", "replications"), [(50, 400), (100, 400), (500, 300)])
def test_intervals_of_their_brier_score_hold(labels: int, replications: int) -> None:
    """Without thought of them a nominal 90 % is 81 to 86 %; three standard errors are 5 points."""
    truth = sum(
        share * (right * 2 * (1 - top) ** 2 + (1 - right) * 2 * top**2)
        for top, right, share in zip(TOPS, RIGHT, SHARES, strict=True)
    )
    rng, held = np.random.default_rng(0), 0
    for _ in range(replications):
        (p, y), (others, _) = rows(rng, labels), rows(rng, 2000)
        estimate = estimate_metric("brier", p, y, others, confidence=0.9, check_shift=False)
        held += estimate.low <= truth <= estimate.high
    assert held / replications == pytest.approx(0.9, abs=0.04)


def bounds_with(others: list[list[float]]) -> tuple[float, float]:
    p, y = [[0.6, 0.4]] * 30 + [[0.55, 0.45]] * 30, [0, 1, 0] * 20
    sample = sampled(BRIER, (p,), y, (others,))
    fit = fitted(sample, lam=0.0)
    return score_bounds(fit, sample, BRIER, tail_of(0.95, "two-sided"))


def test_rows_unlike_the_labelled_ones_widen_the_interval() -> None:
    alike = [[0.6, 0.4], [0.55, 0.45]] * 500
    near, far = bounds_with(alike), bounds_with(alike[:980] + [[1.0, 0.0]] * 20)
    assert far[0] < near[0]
    assert near[1] < far[1]


def test_rows_more_alike_than_the_labelled_ones_do_not_narrow_it() -> None:
    alike, one_kind = [[0.6, 0.4], [0.55, 0.45]] * 500, [[0.575, 0.425]] * 1000
    wide, narrow = bounds_with(alike), bounds_with(one_kind)
    assert narrow == pytest.approx(wide, abs=2e-3)


def test_without_unlabelled_rows_nothing_is_unseen() -> None:
    p, y = torch.tensor([[0.6, 0.4], [0.55, 0.45]] * 30), [0, 1, 0] * 20
    alone = estimate_metric("brier", p, y)
    assert (alone.low, alone.high) == (alone.labelled_only.low, alone.labelled_only.high)


@pytest.mark.slow
def test_the_shortfall_is_what_a_fitted_slope_takes_off_on_average() -> None:
    """Against a regression estimate written out here, over samples of a curved population."""
    rng = np.random.default_rng(0)
    h = rng.beta(1, 3, 20_000)
    losses = h**3 * rng.uniform(0.5, 1.5, 20_000)
    none, everyone = torch.empty(3, 0, dtype=torch.float64), torch.as_tensor(h)
    values, found = [], []
    for _ in range(4000):
        rows = rng.integers(20_000, size=150)
        x, y = h[rows], losses[rows]
        slope = np.cov(x, y)[0, 1] / x.var(ddof=1)
        values.append(y.mean() + slope * (h.mean() - x.mean()))
        labelled = Proxies(torch.as_tensor(x), none)
        sample = Sample(torch.as_tensor(y), labelled, Proxies(everyone, none))
        found.append(fitted(sample, lam=slope).shortfall)
    lacking, error = losses.mean() - np.mean(values), np.std(values) / np.sqrt(4000)
    assert lacking > 5 * error
    assert np.mean(found) == pytest.approx(lacking, abs=3 * error)


def test_the_labelled_rows_alone_lack_nothing(predictions) -> None:
    p, y = predictions(n=60)
    sample = sampled(BRIER, (p,), y, (p,))
    assert fitted(sample, lam=0.0).shortfall == pytest.approx(0.0, abs=1e-16)


@pytest.mark.slow
def test_intervals_of_a_rarely_wrong_model_miss_as_often_as_they_say() -> None:
    """About the estimate itself they miss by 7 %, where one row in fifty is wrong."""
    rng = np.random.default_rng(0)
    y = rng.integers(5, size=40_000)
    logits = 3.55 * (rng.normal(size=(40_000, 5)) + 3.55 * np.eye(5)[y])
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    assert (p.argmax(1) != y).mean() == pytest.approx(0.02, abs=0.002)
    truth, missed = ((p - np.eye(5)[y]) ** 2).sum(1).mean(), 0
    for _ in range(600):
        rows, others = rng.integers(40_000, size=50), rng.integers(40_000, size=2000)
        estimate = estimate_metric(
            "brier", p[rows], y[rows], p[others], confidence=0.9, check_shift=False
        )
        missed += not estimate.low <= truth <= estimate.high
    assert missed / 600 == pytest.approx(0.1, abs=0.03)


def weighted_brier(confidence: float, alternative: str = "two-sided") -> tuple[float, float]:
    """Two heavy rows of 120 are wrong: samples without any such row are common."""
    p = np.tile([0.9, 0.1], (120, 1))
    y = (np.arange(120) < 2).astype(int)
    chances = np.where(np.arange(120) < 12, 0.03, 0.3)
    found = estimate_metric(
        "brier", p, y, np.tile([0.9, 0.1], (880, 1)), propensity=chances,
        confidence=confidence, alternative=alternative, check_shift=False,
    )  # fmt: skip
    return found.low, found.high


def test_a_weighted_bound_gets_the_tail_of_one_that_cannot_miss_from_95_percent_up() -> None:
    for confidence, shared in ((0.9, False), (0.95, True), (0.99, True)):
        low, high = weighted_brier(confidence)
        one_sided = weighted_brier((1 + confidence) / 2, "larger")[0]
        assert (low > one_sided) == shared
        assert high == pytest.approx(weighted_brier((1 + confidence) / 2, "smaller")[1])
    assert weighted_brier(0.95)[0] <= weighted_brier(0.9)[0]  # nested
