import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import optimize, stats

from dessl.evaluation.debiased import intervals
from dessl.evaluation.debiased.fit import Fit, fitted, with_curve
from dessl.evaluation.debiased.intervals import (
    Bounds,
    bootstrap_bounds,
    student_bounds,
    tail_of,
    within,
)
from dessl.evaluation.debiased.proxies import (
    METRICS,
    Proxies,
    Sample,
    imagined_moments,
    sampled,
)
from dessl.evaluation.debiased.score import LOWER_SKEW, _rare_share, _Side, score_bounds

TWO_SIDED = tail_of(0.95, "two-sided")


def test_tails() -> None:
    assert tail_of(0.9, "two-sided").probability == pytest.approx(0.05)
    assert tail_of(0.9, "larger") == pytest.approx((0.1, True, False))
    assert tail_of(0.9, "smaller") == pytest.approx((0.1, False, True))


def test_bounds_are_cut_to_the_range() -> None:
    assert within(Bounds(-0.2, 1.3), TWO_SIDED, 0.0, 1.0) == (0.0, 1.0)
    assert within(Bounds(0.2, 0.7), tail_of(0.9, "larger"), 0.0, 1.0) == (0.2, 1.0)
    assert within(Bounds(0.2, 0.7), tail_of(0.9, "smaller"), 0.0, 1.0) == (0.0, 0.7)


ACCURACY = METRICS["accuracy"]


def of_hits(hits: int, m: int, confidence: float, alternative: str = "two-sided") -> Bounds:
    """Bounds of an accuracy from labels alone, cut to [0, 1]."""
    y = torch.tensor([0] * hits + [1] * (m - hits))
    sample = sampled(ACCURACY, (torch.tensor([[0.8, 0.2]] * m),), y, ())
    tail = tail_of(confidence, alternative)  # type: ignore[arg-type]
    return within(score_bounds(fitted(sample), sample, ACCURACY, tail), tail, 0.0, 1.0)


@pytest.mark.parametrize("confidence", [0.8, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("hits", [1, 3, 25, 40, 49])
def test_one_bound_without_lambda_is_wilsons_moved_by_the_skewness(
    hits: int, confidence: float
) -> None:
    wilson = stats.binomtest(hits, 50).proportion_ci(2 * confidence - 1, method="wilson")
    law = stats.binom(50, hits / 50)
    z = stats.norm.ppf(confidence)
    # Cornish and Fisher's first term, with SciPy's skewness of a count
    move = float(law.stats("s")) * law.std() / 50 * (z**2 - 1) / 6
    low, high = (of_hits(hits, 50, confidence, side) for side in ("larger", "smaller"))
    assert low == pytest.approx((max(0.0, wilson.low - move), 1.0), abs=1e-12)
    assert high == pytest.approx((0.0, min(1.0, wilson.high - move)), abs=1e-12)


@pytest.mark.parametrize("confidence", [0.6, 0.9, 0.99])
@pytest.mark.parametrize("m", [3, 50, 400])
def test_one_bound_of_a_sample_of_one_kind_is_exact(m: int, confidence: float) -> None:
    exact = stats.binomtest(m, m).proportion_ci(2 * confidence - 1, method="exact")
    assert of_hits(m, m, confidence, "larger") == pytest.approx((exact.low, 1.0), abs=1e-12)
    assert of_hits(0, m, confidence, "smaller") == pytest.approx((0.0, 1 - exact.low), abs=1e-12)
    assert of_hits(m, m, confidence, "smaller") == (0.0, 1.0)


@pytest.mark.parametrize(
    ("confidence", "least", "near"), [(0.8, 0.72, 0.01), (0.9, 0.83, 0.005), (0.95, 0.92, 0.005)]
)
def test_exact_coverage_is_nominal_in_the_mean(
    confidence: float, least: float, near: float
) -> None:
    """All counts of 50 labels, for a thousand accuracies; Wilson's is 0.896 for one, of 0.95."""
    accuracies = np.linspace(0.5, 0.998, 1000)[:, None]
    chances = stats.binom.pmf(np.arange(51), 50, accuracies)
    low, high = np.array([of_hits(hits, 50, confidence) for hits in range(51)]).T
    coverage = (chances * ((low <= accuracies) & (accuracies <= high))).sum(1)
    assert coverage.mean() == pytest.approx(confidence, abs=near)
    assert coverage.min() > least


def test_a_bound_has_both_tails_where_the_other_cannot_miss() -> None:
    """Where three of fifty are wrong no count was too small; where half are, any may be."""
    for hits, upper in ((47, True), (25, False), (3, False)):
        both = of_hits(hits, 50, 0.95)
        half = of_hits(hits, 50, 0.975, "larger").low, of_hits(hits, 50, 0.975, "smaller").high
        whole = of_hits(hits, 50, 0.95, "larger").low, of_hits(hits, 50, 0.95, "smaller").high
        assert both == pytest.approx(
            (whole[0] if hits == 3 else half[0], whole[1] if upper else half[1])
        )
    # Between them a bound lies where the other begins to miss: the lower one of fifty right rows.
    assert of_hits(43, 50, 0.95).high == pytest.approx(of_hits(50, 50, 0.95).low)


@pytest.mark.parametrize("m", [3, 5, 20, 60])
def test_an_interval_holds_those_that_miss_twice_as_often(m: int) -> None:
    for hits in range(m + 1):
        for alternative in ("two-sided", "larger", "smaller"):
            intervals = [
                of_hits(hits, m, confidence, alternative)
                for confidence in (0.5, 0.8, 0.9, 0.95, 0.99, 0.999, 0.999999)
            ]
            for inner, outer in pairwise(intervals):
                assert outer.low <= inner.low + 1e-9
                assert outer.high >= inner.high - 1e-9


def moved(fit: Fit, v: float, gamma: float, root: float, z: float) -> float:
    """A root and Cornish and Fisher's first term, from the third cumulant of the mean."""
    third = gamma * v / len(fit.residuals) ** 2
    variance = v / len(fit.residuals) + fit.unlabelled_variance
    return root - third / variance * (z**2 - 1) / 6


ONE_SIDED = tail_of(0.975, "larger"), tail_of(0.975, "smaller")


def test_score_bounds_of_a_hit_rate_solve_their_equation(predictions) -> None:
    p, y = predictions(n=80)
    others, _ = predictions(n=500, seed=1)
    sample = sampled(ACCURACY, (p,), y, (others,))
    fit = fitted(sample)
    share = fit.row_variance / sample.loss.var().item()
    assert fit.lam > 0
    assert share < 1
    z = stats.norm.ppf(0.975)

    def excess(theta: float) -> float:
        variance = share * theta * (1 - theta) / 80 + fit.unlabelled_variance
        return (theta - fit.value) ** 2 - z**2 * variance

    v, gamma = share * fit.value * (1 - fit.value), share * (1 - 2 * fit.value)
    low, high = (score_bounds(fit, sample, ACCURACY, tail) for tail in ONE_SIDED)
    expected = optimize.brentq(excess, 0, fit.value), optimize.brentq(excess, fit.value, 1)
    assert low.low == pytest.approx(moved(fit, v, gamma, expected[0], z))
    assert high.high == pytest.approx(moved(fit, v, gamma, expected[1], z))


def test_ordinary_noise_does_not_pass_its_tail_on() -> None:
    """Fifty losses of size 4 among 5,000 rows have variance 0.16; noise adds half as much."""
    generator = torch.Generator().manual_seed(0)
    jumps = 4.0 * (torch.arange(5000) % 100 == 0).double()
    noise = math.sqrt(0.08) * torch.randn(5000, generator=generator, dtype=torch.float64)
    none = Proxies(torch.zeros(5000).double(), torch.zeros(3, 5000).double())

    def share(loss: torch.Tensor) -> float:
        return _rare_share(fitted(Sample(loss, none, none)).scaled_residuals)

    assert share(jumps) == pytest.approx(1, abs=0.03)
    assert share(jumps + noise) == pytest.approx(2 / 3, abs=0.05)
    assert share(noise) < 0.01


@pytest.mark.parametrize(("n", "imagined"), [(80, 16), (30, 10)])
@pytest.mark.parametrize("shape", [fitted, lambda sample: with_curve(sample, fitted(sample))])
@pytest.mark.parametrize("metric", ["brier", "cross_entropy"])
def test_score_bounds_of_a_skewed_loss_solve_their_equation(
    metric, shape, n, imagined, predictions
) -> None:
    p, y = predictions(n=n)
    others, _ = predictions(n=500, seed=1)
    sample = sampled(METRICS[metric], (p,), y, (others,))
    fit = shape(sample)
    scaled = (fit.residuals / (1 - fit.leverage).sqrt()).numpy()
    second, third = imagined_moments(sample, fit.beliefs)
    squares, cubes = (scaled**2).sum(), (scaled**3).sum()
    gamma = (cubes + imagined * third) / (squares + imagined * second)
    own = min(gamma, cubes / squares)
    h, h_u = sample.labelled.h.numpy(), sample.unlabelled.h.numpy()
    unseen = max(0.0, np.concatenate([h, h_u]).var(ddof=1) - h.var(ddof=1))
    z, t = stats.norm.ppf(0.975), stats.t.ppf(0.975, n - 2)
    v = fit.leverage_variance + (1 - fit.lam) ** 2 / 4 * unseen
    centre = fit.value + max(0.0, (fit.leverage * fit.residuals).mean().item())
    if metric == "cross_entropy":  # only the labelled rows' part of a deviation changes V(θ)
        own *= v / (v + n * fit.unlabelled_variance)

    def excess(theta: float, gamma: float, q: float) -> float:
        variance = (v + gamma * (theta - centre)) / n
        return (theta - centre) ** 2 - q**2 * (variance + fit.unlabelled_variance)

    low, high = (score_bounds(fit, sample, METRICS[metric], tail) for tail in ONE_SIDED)
    roots = (
        optimize.brentq(excess, -1, centre, (own, z)),
        optimize.brentq(excess, centre, 9, (gamma, t)),
    )
    whole = moved(fit, v, own, roots[0], z)
    assert low.low == pytest.approx(roots[0] + LOWER_SKEW * (whole - roots[0]))
    assert high.high == pytest.approx(moved(fit, v, gamma, roots[1], t))
    assert high.high - fit.value > fit.value - low.low  # large losses are rare


def test_losses_of_one_size_share_tails_as_hits_and_misses_do() -> None:
    """The Brier score of a model that is always as sure is a line in the number of its misses."""
    p = torch.tensor([[0.9, 0.1]] * 200)
    y = torch.tensor([0] * 195 + [1] * 5)
    sample = sampled(METRICS["brier"], (p,), y, ())
    fit = fitted(sample)
    both, half, whole = (
        score_bounds(fit, sample, METRICS["brier"], tail)
        for tail in (TWO_SIDED, tail_of(0.975, "larger"), tail_of(0.95, "larger"))
    )
    assert half.low < both.low <= whole.low
    assert both.high == pytest.approx(
        score_bounds(fit, sample, METRICS["brier"], tail_of(0.975, "smaller")).high
    )


@pytest.mark.parametrize(("a", "b"), [(1, 1), (0.5, 1)], ids=["even sizes", "many small ones"])
@pytest.mark.parametrize("tail", [0.05, 0.1])
def test_a_lower_bound_is_missed_about_as_often_as_it_may_be(
    tail: float, a: float, b: float
) -> None:
    """Few losses, their number Poisson and their sizes random, among many rows without one."""
    rng, m, draws, quantile = np.random.default_rng(0), 10_000, 5_000, stats.norm.isf(tail)
    missed = []
    for expected in (1.0, 2.0, 4.0, 8.0):
        counts = rng.poisson(expected, draws)
        sizes = rng.beta(a, b, (draws, counts.max())) * (np.arange(counts.max()) < counts[:, None])
        first, second, third = (np.sum(sizes**k, axis=1) for k in (1, 2, 3))
        gamma = np.divide(third, second, out=np.zeros(draws), where=second > 0)
        truth = expected * a / (a + b) / m
        for mean, variance, growth in zip(first / m, second / m, gamma, strict=True):
            side = _Side(-1, m, 0.0, variance, growth, 0.0, LOWER_SKEW)
            missed.append(mean + side.bound(quantile) > truth)
    assert np.mean(missed) == pytest.approx(tail, abs=0.007)  # with errors of 0.0015 and 0.0021


def test_imagined_moments_are_those_of_drawn_labels(predictions) -> None:
    p, y = predictions(n=6)
    sample = sampled(METRICS["brier"], (p,), y, ())
    law = 0.98 * p.numpy() + 0.02 / 3
    losses = np.array(
        [[((p[i].numpy() - np.eye(3)[k]) ** 2).sum() for k in range(3)] for i in range(6)]
    )
    r = losses - 0.4 * sample.labelled.h.numpy()[:, None]
    r = r - (law * r).sum() / 6
    expected = (law * r**2).sum() / 6, (law * r**3).sum() / 6
    assert imagined_moments(sample, 0.4 * sample.labelled.h) == pytest.approx(expected)


def test_student_bounds_without_lambda_are_the_classical_ones(predictions) -> None:
    p, y = predictions()
    sample = sampled(METRICS["brier"], (p,), y, ())
    fit = fitted(sample)
    loss = sample.loss.numpy()
    expected = stats.t.interval(0.95, 59, loss.mean(), stats.sem(loss))
    assert student_bounds(fit, fit.leverage_variance, TWO_SIDED) == pytest.approx(expected)


def test_bootstrap_bounds_redraw_what_numpy_redraws(predictions, monkeypatch) -> None:
    p, y = predictions()
    sample = sampled(METRICS["brier"], (p,), y, ())
    fit = fitted(sample)
    index = torch.randint(60, (999, 60), generator=torch.Generator().manual_seed(3)).numpy()
    r = sample.loss.numpy() - sample.loss.numpy().mean()
    redrawn = r[index]
    t = np.sort(redrawn.mean(1) / (redrawn.std(1, ddof=1) / math.sqrt(60)))
    error = stats.sem(sample.loss.numpy())
    expected = fit.value - t[999 - 25] * error, fit.value - t[24] * error
    for at_once in (intervals.AT_ONCE, 500):
        monkeypatch.setattr(intervals, "AT_ONCE", at_once)
        found = bootstrap_bounds(fit, TWO_SIDED, 999, torch.Generator().manual_seed(3))
        assert found == pytest.approx(expected)


def test_bootstrap_samples_without_variance_open_the_interval() -> None:
    p = torch.tensor([[0.9, 0.1]] * 30)
    y = torch.tensor([0] * 29 + [1])  # a third of the redrawn samples miss the only wrong row
    sample = sampled(METRICS["accuracy"], (p,), y, ())
    bounds = bootstrap_bounds(fitted(sample), TWO_SIDED, 999, torch.Generator().manual_seed(0))
    assert bounds.low == -math.inf  # cut to 0 by ``within``
    assert bounds.high < 1.1


@pytest.mark.parametrize("rows", [12, 2000])
def test_an_estimate_brought_to_the_end_of_the_range_is_no_surer_than_rows_all_right(rows) -> None:
    """Wrong rows were seen, and θ̂ is 1 only because the unlabelled rows look better."""
    p, y = [[0.9, 0.1]] * 18 + [[0.5, 0.5]] * 2, [0] * 18 + [1] * 2
    sample = sampled(ACCURACY, (p,), y, ([[1.0, 0.0], [0.98, 0.02]] * (rows // 2),))
    fit = fitted(sample)
    assert fit.value > 1
    assert score_bounds(fit, sample, ACCURACY, tail_of(0.9, "larger")).low <= 0.1 ** (1 / 20)
