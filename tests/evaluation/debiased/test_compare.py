import math

import numpy as np
import pytest
import torch
from scipy import stats

import dessl
from dessl.evaluation.debiased import compare_models
from dessl.evaluation.debiased.compare import held_out_comparison
from dessl.evaluation.debiased.paired_variance import PSEUDO_ROWS, RATIO_ROWS


@pytest.fixture
def models(predictions):
    """Two models' probabilities of the same rows: a good one and a blurred one."""

    def drawn(n: int, seed: int = 0):
        p, y = predictions(n=n, seed=seed)
        noise = torch.randn(n, 3, generator=torch.Generator().manual_seed(seed), dtype=p.dtype)
        return p, torch.softmax(p.log() + 2 * noise, dim=1), y

    return drawn


def test_the_interval_written_out(models) -> None:
    a, b, y = models(300)
    a_u, b_u, _ = models(900, seed=1)
    result = compare_models("accuracy", a, b, y, a_u, b_u)
    a, b = torch.cat([a, a_u]).numpy(), torch.cat([b, b_u]).numpy()
    law = (a + b) / 2
    if_label = np.eye(3)[a.argmax(1)] - np.eye(3)[b.argmax(1)]  # L_a − L_b for each label
    h = (law * if_label).sum(1)
    difference = if_label[np.arange(300), y.numpy()]
    assert result.lam > 0
    value = difference.mean() + result.lam * (h[300:].mean() - h[:300].mean())
    assert result.difference == pytest.approx(value)

    r = difference - result.lam * h[:300]
    law = 0.98 * law + 0.02 / 3
    r_if_label = if_label - result.lam * h[:, None]
    mean = (law * r_if_label).sum(1).mean()
    expected = (law * (r_if_label - mean) ** 2).sum(1)  # s of every row
    off = h[:300] - h[:300].mean()
    squares = (r - r.mean()) ** 2 / (1 - 1 / 300 - off**2 / (off**2).sum())
    few = PSEUDO_ROWS * expected.mean()
    ratio = (squares.sum() + few) / (expected[:300].sum() + few)
    variance = (1 + RATIO_ROWS / 300) * ratio * expected.mean()
    assert variance > 1 / 300
    error = np.sqrt(variance / 300 + result.lam**2 * h.var(ddof=1) / 900)
    half = stats.t.ppf(0.975, 298) * error
    assert (result.low, result.high) == pytest.approx((value - half, value + half))
    assert result.p_value == pytest.approx(2 * stats.t.sf(abs(value / error), 298))


@pytest.mark.parametrize("metric", ["accuracy", "error", "brier", "cross_entropy"])
def test_exchanging_the_models_turns_the_sign(metric, models) -> None:
    a, b, y = models(60)
    a_u, b_u, _ = models(500, seed=1)
    one = compare_models(metric, a, b, y, a_u, b_u)
    two = compare_models(metric, b, a, y, b_u, a_u)
    assert one.difference == pytest.approx(-two.difference)
    assert (one.low, one.high) == pytest.approx((-two.high, -two.low))
    assert one.p_value == pytest.approx(two.p_value)


@pytest.mark.parametrize("metric", ["accuracy", "brier"])
def test_interval_and_p_value_say_the_same(metric, models) -> None:
    a, b, y = models(60)
    a_u, b_u, _ = models(500, seed=1)
    for alternative in ("two-sided", "larger", "smaller"):
        p = compare_models(metric, a, b, y, a_u, b_u, alternative=alternative).p_value
        # At confidence 1 − p the interval just touches zero.
        result = compare_models(
            metric, a, b, y, a_u, b_u, alternative=alternative, confidence=1 - p
        )
        assert min(abs(result.low), abs(result.high)) == pytest.approx(0, abs=1e-9)


def test_one_sided_bounds_end_at_the_range(models) -> None:
    a, b, y = models(60)
    two = compare_models("accuracy", a, b, y, a, b)
    larger = compare_models("accuracy", a, b, y, a, b, alternative="larger", confidence=0.975)
    smaller = compare_models("accuracy", a, b, y, a, b, alternative="smaller", confidence=0.975)
    assert (larger.low, larger.high) == pytest.approx((two.low, 1.0))
    assert (smaller.low, smaller.high) == pytest.approx((-1.0, two.high))
    assert larger.p_value + smaller.p_value == pytest.approx(1)


def test_models_that_agree_on_the_labelled_rows_may_still_differ(models) -> None:
    a, b, y = models(400)
    agree = a.argmax(1) == b.argmax(1)
    result = compare_models("accuracy", a[agree], b[agree], y[agree], a, b, check_shift=False)
    assert result.difference == 0
    assert result.low < -0.001 < 0.001 < result.high
    assert result.p_value == pytest.approx(1)


def test_a_model_and_itself_are_equal(models) -> None:
    a, _, y = models(30)
    result = compare_models("accuracy", a, a, y, a, a)
    assert (result.difference, result.p_value) == (0, 1)
    # Another model may agree with it on 60 rows and still differ on a share d: (1 - d)^60 > 0.025.
    assert result.high == -result.low == pytest.approx(-np.log(0.025) / 60)
    result = compare_models("brier", a, a, y, a, a)
    assert (result.difference, result.low, result.high, result.p_value) == (0, 0, 0, 1)


@pytest.mark.parametrize(("m", "n_unlabelled", "differ"), [(24, 0, 0.05), (50, 500, 0.01)])
def test_models_that_hardly_differ_are_not_taken_for_equal(
    m: int, n_unlabelled: int, differ: float
) -> None:
    """Where they differ a is right nine times in ten; often no labelled row tells them apart."""
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(300):
        n = m + n_unlabelled
        apart = rng.random(n) < differ
        sure = rng.uniform(0.6, 0.99, n)
        a = np.stack([sure, 1 - sure], axis=1)
        b = np.where(apart[:, None], a[:, ::-1], a)
        y = (rng.random(n) > 0.9).astype(int)
        result = compare_models("accuracy", a[:m], b[:m], y[:m], a[m:], b[m:], check_shift=False)
        covered += result.low <= 0.8 * differ <= result.high
        assert result.high - result.low <= 2 * (apart.sum() + 25) / n
    assert covered / 300 > 0.95


def test_unlabelled_rows_shorten_the_interval(models) -> None:
    a, b, y = models(300)
    a_u, b_u, _ = models(5000, seed=1)
    result = compare_models("accuracy", a, b, y, a_u, b_u)
    alone = result.labelled_only
    assert result.high - result.low < 0.97 * (alone.high - alone.low)
    assert result.p_value < 0.01
    without = compare_models("accuracy", a, b, y)
    assert without.lam == 0
    assert without.difference == alone.value


def test_coverage_by_simulation(models) -> None:
    a, b, y = models(20_000)
    truth = ((a.argmax(1) == y).double() - (b.argmax(1) == y).double()).mean().item()
    generator = torch.Generator().manual_seed(0)
    covered = 0
    for _ in range(400):
        rows = torch.randint(20_000, (100,), generator=generator)
        u = torch.randint(20_000, (500,), generator=generator)
        result = compare_models(
            "accuracy", a[rows], b[rows], y[rows], a[u], b[u], confidence=0.9, check_shift=False
        )
        covered += result.low <= truth <= result.high
    assert 0.86 < covered / 400 < 0.95


def test_errors_say_what_to_do(models) -> None:
    a, b, y = models(10)
    with pytest.raises(ValueError, match="probabilities of both models; got one model's"):
        compare_models("accuracy", a, b, y, a)
    with pytest.raises(ValueError, match=r"got \(10, 3\) and \(9, 3\)"):
        compare_models("accuracy", a, b[:9], y)
    with pytest.raises(ValueError, match=r"at least 3 labelled rows; got 2"):
        compare_models("accuracy", a[:2], b[:2], y[:2])
    with pytest.raises(ValueError, match=r"alternative must be one of"):
        compare_models("accuracy", a, b, y, alternative="less")
    with pytest.raises(ValueError, match="clip must be finite"):
        compare_models("cross_entropy", a, b, y, clip=math.inf)


@pytest.mark.parametrize("metric", ["accuracy", "brier"])
def test_labelled_only_is_the_comparison_without_unlabelled_rows(metric, predictions) -> None:
    a, y = predictions(n=60)
    b = a.flip(0)
    others, _ = predictions(n=500, sharpness=3.0, seed=1)
    whole = compare_models(metric, a, b, y, others, others.flip(0), check_shift=False)
    alone = compare_models(metric, a, b, y)
    assert whole.labelled_only == (alone.difference, alone.low, alone.high) == alone.labelled_only


def test_wins_are_those_of_the_model_that_gives_the_label_more_probability(models) -> None:
    a, b, y = models(80)
    rows = torch.arange(80)
    signs = torch.sign(a[rows, y] - b[rows, y])
    result = compare_models("wins", a, b, y)
    assert result.difference == pytest.approx(float(signs.mean()))
    assert -1 <= result.low < result.difference < result.high <= 1


@pytest.mark.parametrize("metric", ["balanced_accuracy", "macro_f1", "auc"])
def test_the_difference_of_two_rates(metric: str, models) -> None:
    a, b, y = models(90)
    first, second = (dessl.metrics_from_probabilities(p, y) for p in (a, b))
    result = compare_models(metric, a, b, y)
    expected = getattr(first, metric) - getattr(second, metric)
    assert result.difference == pytest.approx(expected)
    assert compare_models(metric, b, a, y).low == pytest.approx(-result.high)


def test_labels_held_out_in_training_give_a_shifted_and_wider_interval() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet([2, 1, 1], (2, 80))
    y = np.array([rng.choice(3, p=row) for row in p[0]])
    brier = ((p - np.eye(3)[y]) ** 2).sum(2).mean(1)
    plain = compare_models("brier", p[0], p[1], y)
    found = {n: held_out_comparison("a", p[0], p[1], y, gain=0.1, splits=n) for n in (1, 5)}
    for n, one in found.items():
        assert one.difference == pytest.approx(brier[0] - brier[1] + 0.1)
        wider = (1 + n / 4) ** 0.5  # Nadeau and Bengio: a fold is a quarter of the others
        assert one.high - one.low == pytest.approx(wider * (plain.high - plain.low))
        assert (one.low + one.high) / 2 == pytest.approx(one.difference)
    t = found[5].difference / ((found[5].high - found[5].low) / 2 / stats.t.ppf(0.975, 79))
    assert found[5].p_value == pytest.approx(2 * stats.t.sf(abs(t), 79))
    weighted = held_out_comparison("a", p[0], p[1], y, propensity=np.where(y == 0, 0.5, 0.1))
    assert weighted.difference != pytest.approx(brier[0] - brier[1], abs=1e-6)
