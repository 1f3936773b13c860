from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import optimize, stats

from dessl.evaluation.debiased import estimate_ece
from dessl.evaluation.metrics import ece


def binary(confidence: np.ndarray) -> np.ndarray:
    return np.stack([confidence, 1 - confidence], axis=1)


def drawn(m: int, shift: float, generator: np.random.Generator, others: int = 1000):
    """Rows that are right with probability confidence − shift, so that the ECE is the shift."""
    confidence = 0.6 + 0.4 * generator.beta(4, 1.5, m + others)
    hits = generator.random(m) < confidence[:m] - shift
    return binary(confidence[:m]), 1 - hits.astype(int), binary(confidence[m:])


def test_the_estimate_written_out() -> None:
    p, y, others = drawn(40, 0.1, np.random.default_rng(0))
    estimate = estimate_ece(p, y, others, n_bins=3)
    every = np.concatenate([p[:, 0], others[:, 0]])
    edges = estimate.edges.numpy()
    plug_in, weights, gaps, sigmas = 0.0, [], [], []
    for low, high in pairwise(edges):
        inside = (p[:, 0] > low) & (p[:, 0] <= high)
        everywhere = (every > low) & (every <= high)
        gap = (y[inside] == 0) - p[inside, 0]
        f, k = every[everywhere].mean(), inside.sum()
        sigma = np.sqrt(((gap - gap.mean()) ** 2).sum() + f * (1 - f)) / k
        weights.append(everywhere.mean())
        gaps.append(abs(gap.mean()))
        sigmas.append(sigma)
        plug_in += k / 40 * abs(gap.mean())
    assert len(edges) == 4
    w, g, sigma = (np.array(values) for values in (weights, gaps, sigmas))

    def excess(share: float) -> float:
        return float(w @ stats.foldnorm.mean(share * g / sigma, scale=sigma) - w @ g)

    share = optimize.brentq(excess, 0, 1, xtol=1e-14)
    assert 0.5 < share < 1
    assert estimate.value == pytest.approx(share * (w @ g), rel=1e-8)
    assert estimate.plug_in == pytest.approx(plug_in, rel=1e-12)
    np.testing.assert_allclose(estimate.weights, 1 / 3, atol=0.01)


def test_what_noise_alone_gives_is_the_mean_estimate_of_a_calibrated_model() -> None:
    generator = np.random.default_rng(2)
    results = [estimate_ece(*drawn(100, 0.0, generator), draws=99) for _ in range(80)]
    values = np.array([r.value for r in results])
    error = values.std() / np.sqrt(80)
    told = np.mean([r.if_calibrated for r in results])
    assert told == pytest.approx(values.mean(), abs=3 * error)
    assert told > 0.01
    assert f"has {results[0].if_calibrated:.3f} on average" in results[0].sentence


def test_the_plug_in_is_the_usual_ece() -> None:
    p, y, _ = drawn(500, 0.1, np.random.default_rng(0))
    estimate = estimate_ece(p, y, n_bins=10, spacing="equal_width")
    assert estimate.plug_in == pytest.approx(ece(p, y, bins=10))
    assert estimate.n_unlabelled == 0


@pytest.mark.parametrize(
    "shift",
    [
        pytest.param(0.0, marks=pytest.mark.slow),
        0.05,
        pytest.param(0.1, marks=pytest.mark.slow),
    ],
)
def test_debiasing_lessens_the_bias_and_the_interval_covers(shift: float) -> None:
    generator = np.random.default_rng(1)
    results = [estimate_ece(*drawn(80, shift, generator), draws=199) for _ in range(200)]
    ours = np.array([r.value for r in results]) - shift
    plug_in = np.array([r.plug_in for r in results]) - shift
    assert abs(ours.mean()) < 0.75 * abs(plug_in.mean())
    nearer = np.abs(ours).mean() < np.abs(plug_in).mean()
    assert nearer == (shift < 0.1)  # a clear error is estimated with less bias, but more spread
    covered = np.mean([r.low <= shift <= r.high for r in results])
    assert covered > 0.91  # nominal 95 %, rather too wide than too narrow


def test_confidence_and_alternative_are_heeded() -> None:
    p, y, others = drawn(200, 0.2, np.random.default_rng(0))
    wide, narrow = (estimate_ece(p, y, others, confidence=c) for c in (0.95, 0.8))
    assert 0 < wide.low < narrow.low < narrow.high < wide.high
    larger = estimate_ece(p, y, others, confidence=0.975, alternative="larger")
    smaller = estimate_ece(p, y, others, confidence=0.975, alternative="smaller")
    assert (larger.low, larger.high) == (wide.low, 1.0)
    assert (smaller.low, smaller.high) == (0.0, wide.high)


def test_bins_without_labels_are_joined() -> None:
    p = binary(np.array([0.55] * 5 + [0.95] * 5))
    others = binary(np.linspace(0.51, 0.99, 200))
    estimate = estimate_ece(p, [0] * 10, others, n_bins=15)
    assert len(estimate.weights) == 2
    assert estimate.weights.sum().item() == pytest.approx(1)
    assert torch.isfinite(estimate.gaps).all()


def test_confidence_that_rounding_puts_above_one_is_one() -> None:
    p = np.array([[1.0, 0.0]] * 40, dtype=np.float32)
    exact = estimate_ece(p, [0] * 40)
    assert exact.high < 0.1
    assert estimate_ece(np.nextafter(p, 2, dtype=np.float32), [0] * 40)[:4] == exact[:4]


def test_draws_follow_their_generator() -> None:
    p, y, others = drawn(60, 0.1, np.random.default_rng(0))
    first, again, other = (
        estimate_ece(p, y, others, generator=torch.Generator().manual_seed(s)).high
        for s in (1, 1, 2)
    )
    assert first == again != other


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"n_bins": 0}, "n_bins must be at least 1; got 0"),
        ({"spacing": "even"}, "spacing must be one of 'equal_mass', 'equal_width'; got 'even'"),
        ({"y": [0, 1]}, "got 2 labels and 4 rows"),
        ({"confidence": 90}, "Write 0.95 for 95 %"),
        ({"alternative": "above"}, "alternative must be one of"),
        ({"draws": 3}, "draws must be at least 99; got 3"),
        ({"confidence": 0.99, "draws": 198}, "draws must be at least 199"),
    ],
)
def test_errors_say_what_to_do(change, complaint) -> None:
    arguments = {"probabilities_labelled": [[0.7, 0.3]] * 4, "y": [0, 1, 0, 1], **change}
    with pytest.raises(ValueError, match=complaint):
        estimate_ece(**arguments)


def grouped(rng: np.random.Generator, groups: int, size: int) -> tuple[np.ndarray, ...]:
    """Rows of a calibrated model of two classes, each several times."""
    top = rng.uniform(0.55, 0.95, groups)
    y = (rng.random(groups) > top).astype(int)
    p = np.stack([top, 1 - top], axis=1)
    number = np.repeat(np.arange(groups), size)
    return p[number], y[number], number


def test_copies_of_rows_count_as_much_as_one_of_each() -> None:
    p, y, group = grouped(np.random.default_rng(0), 60, 5)
    once = estimate_ece(p[::5], y[::5])
    found = estimate_ece(p, y, groups=[f"patient {g}" for g in group])
    assert estimate_ece(p[::5], y[::5], groups=group[::5])[:4] == once[:4]
    assert (found.n_labelled, found.n_groups, len(found.weights)) == (300, 60, len(once.weights))
    assert found.value == pytest.approx(once.value, abs=0.02)
    assert found.high == pytest.approx(once.high, abs=0.05)
    assert found.if_calibrated == pytest.approx(once.if_calibrated, rel=0.4)
    untold = estimate_ece(p, y, n_bins=len(found.weights))
    assert untold.high - untold.low < 0.75 * (found.high - found.low)


def test_intervals_of_grouped_rows_hold() -> None:
    """A calibrated model: the true error is 0, so that only the lower bound can miss."""
    rng, misses = np.random.default_rng(1), np.zeros(2)
    for _ in range(60):
        p, y, group = grouped(rng, 30, 6)
        for k, told in enumerate((group, None)):
            misses[k] += estimate_ece(p, y, groups=told, draws=199).low > 0
    assert misses[0] <= 4
    assert misses[1] > 15
