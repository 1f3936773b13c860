import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dessl.evaluation.debiased import estimate_metric
from dessl.evaluation.debiased.estimate import ALTERNATIVES, METHODS
from dessl.evaluation.debiased.fit import fitted
from dessl.evaluation.debiased.intervals import tail_of
from dessl.evaluation.debiased.proxies import METRICS, sampled
from dessl.evaluation.debiased.score import score_bounds


@pytest.mark.parametrize("metric", METRICS)
def test_the_estimate_is_that_of_ppi_at_the_same_beliefs(metric, predictions) -> None:
    peer = pytest.importorskip("ppi_py", reason="ppi-python is an extra for benchmarks")
    p, y = predictions()
    others, _ = predictions(n=900, seed=1)
    estimate = estimate_metric(metric, p, y, others)
    hits = (p.argmax(1) == y).double()
    loss, h, h_others = {
        "accuracy": (hits, p.amax(1), others.amax(1)),
        "error": (1 - hits, 1 - p.amax(1), 1 - others.amax(1)),
        "brier": (
            (p - torch.eye(3)[y]).square().sum(1),
            1 - p.square().sum(1),
            1 - others.square().sum(1),
        ),
        "cross_entropy": (
            -p[torch.arange(60), y].log(),
            -(p * p.log()).sum(1),
            -(others * others.log()).sum(1),
        ),
    }[metric]
    every = torch.cat([h, h_others]).numpy()
    off_line = every**2 - np.polyval(np.polyfit(every, every**2, 1), every)
    beliefs = estimate.lam * every + estimate.bend * off_line
    theirs = peer.ppi_mean_pointestimate(loss.numpy(), beliefs[:60], beliefs[60:], lam=1.0)
    assert estimate.lam > 0
    assert estimate.value == pytest.approx(theirs.item())
    assert (estimate.n_labelled, estimate.n_unlabelled) == (60, 900)
    assert estimate.correlation == pytest.approx(np.corrcoef(loss, h)[0, 1])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("metric", METRICS)
def test_confidence_and_alternative_are_heeded(metric, method, predictions) -> None:
    p, y = predictions()
    others, _ = predictions(n=900, seed=1)

    def interval(confidence: float, alternative: str) -> tuple[float, float]:
        estimate = estimate_metric(
            metric, p, y, others, confidence=confidence, alternative=alternative, method=method
        )
        assert estimate.low <= estimate.value <= estimate.high
        return estimate.low, estimate.high

    least, greatest = METRICS[metric].low, METRICS[metric].high
    narrow, wide = interval(0.8, "two-sided"), interval(0.95, "two-sided")
    assert wide[0] < narrow[0]
    assert narrow[1] < wide[1]
    # A one-sided bound at 97.5 % is the two-sided one at 95 %, and the other end is the range's.
    # Score's two bounds need not share alike: one may lie as far in as the one-sided at 95 %.
    low, high = interval(0.975, "larger"), interval(0.975, "smaller")
    assert (low[1], high[0]) == (greatest, least)
    inner = interval(0.95, "larger")[0], interval(0.95, "smaller")[1]
    assert low[0] < inner[0]
    assert inner[1] < high[1]
    if method == "score":
        assert low[0] <= wide[0] <= inner[0]
        assert inner[1] <= wide[1] <= high[1]
    else:
        assert (low[0], high[1]) == pytest.approx(wide)


@pytest.mark.parametrize("method", METHODS)
def test_error_mirrors_accuracy(method, predictions) -> None:
    p, y = predictions()
    others, _ = predictions(n=900, seed=1)
    accuracy, error = (
        estimate_metric(name, p, y, others, method=method) for name in ("accuracy", "error")
    )
    assert error.value == pytest.approx(1 - accuracy.value)
    if method != "bootstrap":  # which redraws at random
        assert (error.low, error.high) == pytest.approx((1 - accuracy.high, 1 - accuracy.low))


@pytest.fixture
def all_right() -> tuple[torch.Tensor, torch.Tensor]:
    """Fifty rows of a sure model, none of them wrong."""
    return torch.tensor([[0.99, 0.01], [0.02, 0.98]] * 25), torch.tensor([0, 1] * 25)


def test_all_rows_right_is_no_certainty_of_a_small_brier_score(all_right) -> None:
    p, y = all_right
    estimate = estimate_metric("brier", p, y, p.repeat(20, 1))
    # 0.071 of the rows may be wrong (Clopper and Pearson), each then losing nearly 2.
    exact = 2 * (1 - 0.025 ** (1 / 50))
    assert 0.5 * exact < estimate.high < 1.5 * exact
    assert estimate.low >= 0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("metric", ["accuracy", "error"])
def test_all_rows_right_is_no_certainty(metric, method, all_right) -> None:
    p, y = all_right
    estimate = estimate_metric(metric, p, y, p.repeat(20, 1), method=method)
    assert 0 <= estimate.low < estimate.high <= 1
    exact = stats.binomtest(50, 50).proportion_ci(0.95, method="exact")
    found = estimate.low if metric == "accuracy" else 1 - estimate.high
    assert found == pytest.approx(exact.low)


@pytest.mark.parametrize("method", METHODS)
def test_losses_that_differ_by_rounding_are_no_certainty(method) -> None:
    """Of a model that is always as sure, and so far right; its classes are summed in any order."""
    generator = np.random.default_rng(0)
    p = np.array([generator.permutation([0.61, 0.17, 0.13, 0.09]) for _ in range(540)])
    loss = ((p[:40] - np.eye(4)[p[:40].argmax(1)]) ** 2).sum(1)
    assert loss == pytest.approx(loss[0], rel=1e-14)
    found = estimate_metric("brier", p[:40], p[:40].argmax(1), p[40:], method=method)
    ordered = -np.sort(-p)
    same = estimate_metric("brier", ordered[:40], [0] * 40, ordered[40:])
    assert same.high - same.low > 0.01
    assert found[:3] == pytest.approx(same[:3], rel=1e-9)
    assert found.labelled_only == pytest.approx(same.labelled_only, rel=1e-9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("metric", METRICS)
def test_a_bound_held_rarely_is_the_other_bound_held_often(metric, method, predictions) -> None:
    p, y = predictions(n=200)
    others, _ = predictions(n=300, seed=1)
    low, high = (
        estimate_metric(metric, p, y, others, confidence=c, alternative=a, method=method)
        for c, a in ((0.3, "larger"), (0.7, "smaller"))
    )
    assert low.low == pytest.approx(high.high, abs=1e-3 if method == "bootstrap" else 1e-12)
    assert low.low > low.value


def test_without_unlabelled_rows_the_labelled_ones_speak(predictions) -> None:
    p, y = predictions()
    for nothing in (None, p[:0], np.empty((0, 3)), []):
        estimate = estimate_metric("accuracy", p, y, nothing)
        assert estimate[:3] == estimate.labelled_only
        assert (estimate.lam, estimate.n_unlabelled) == (0.0, 0)
        hits = int((p.argmax(1) == y).sum())
        wilson = stats.binomtest(hits, 60).proportion_ci(0.95, method="wilson")
        assert (estimate.low, estimate.high) == pytest.approx((wilson.low, wilson.high), abs=0.02)


def test_unlabelled_rows_shorten_the_interval(predictions) -> None:
    p, y = predictions(n=200)
    others, _ = predictions(n=5000, seed=1)
    for metric, share in (
        ("accuracy", 0.95),
        ("error", 0.95),
        ("brier", 0.95),
        ("cross_entropy", 1),
    ):
        estimate = estimate_metric(metric, p, y, others)
        alone = estimate.labelled_only
        assert estimate.high - estimate.low < share * (alone.high - alone.low)


def test_a_timid_models_losses_follow_a_curve(predictions) -> None:
    p, y = predictions(n=300, sharpness=0.3)
    others, _ = predictions(n=5000, sharpness=0.3, seed=1)
    curve = estimate_metric("brier", p, y, others)
    sample = sampled(METRICS["brier"], (p,), y, (others,))
    line = fitted(sample)
    low, high = score_bounds(line, sample, METRICS["brier"], tail_of(0.95, "two-sided"))
    assert curve.bend > 0
    assert curve.lam == line.lam
    assert curve.high - curve.low < 0.97 * (high - low)
    assert estimate_metric("brier", p, y, others, method="leverage_t").bend == 0
    assert estimate_metric("accuracy", p, y, others).bend == 0


def test_a_much_too_timid_models_hits_are_believed_more_than_it_says() -> None:
    """It says 0.6 where it is nearly always right and 0.5 where it guesses."""
    generator = torch.Generator().manual_seed(0)

    def drawn(n: int) -> tuple[torch.Tensor, torch.Tensor]:
        sure = torch.rand(n, generator=generator) < 0.7
        right = torch.rand(n, generator=generator) < torch.where(sure, 0.98, 0.4)
        top = torch.where(sure, 0.6, 0.5) + 0.01 * torch.rand(n, generator=generator)
        return torch.stack([top, 1 - top], dim=1), 1 - right.long()

    (p, y), (others, _) = drawn(500), drawn(5000)
    for metric in ("accuracy", "error"):
        estimate = estimate_metric(metric, p, y, others)
        alone = estimate.labelled_only
        assert estimate.lam > 2
        assert estimate.high - estimate.low < 0.85 * (alone.high - alone.low)
        for method in ("leverage_t", "cross_fit", "bootstrap"):
            assert estimate_metric(metric, p, y, others, method=method).lam == 1
    assert estimate_metric("brier", p, y, others).lam == 1


def test_beliefs_that_say_nothing_cost_next_to_nothing(predictions) -> None:
    p, _ = predictions(n=200)
    shuffled = torch.randint(3, (200,), generator=torch.Generator().manual_seed(2))
    estimate = estimate_metric("accuracy", p, shuffled, p.repeat(9, 1))
    alone = estimate.labelled_only
    assert estimate.high - estimate.low <= 1.01 * (alone.high - alone.low)


def test_a_slope_that_hangs_on_one_row_is_not_trusted() -> None:
    """One unsure row is wrong, and a sure one: the slope is the former's doing."""
    p = torch.tensor([[0.999, 0.001]] * 29 + [[0.55, 0.45]], dtype=torch.float64)
    y = torch.tensor([0] * 28 + [1, 1])
    others = torch.tensor([[0.999, 0.001]] * 29 + [[0.75, 0.25]], dtype=torch.float64).repeat(9, 1)
    for method in ("score", "leverage_t"):
        estimate = estimate_metric("brier", p, y, others, method=method)
        assert estimate.lam == 0
        assert estimate.value == estimate.labelled_only.value
        # All rows' probabilities enter the growth of a score bound, which need not be the same.
        tolerance = 1e-3 if method == "score" else 0.0
        assert estimate[1:3] == pytest.approx(estimate.labelled_only[1:], abs=tolerance, rel=0)
    assert estimate_metric("brier", p, y, others, method="cross_fit").lam > 0


def test_the_bootstrap_follows_its_generator(predictions) -> None:
    p, y = predictions()
    first, again, other = (
        estimate_metric(
            "brier", p, y, p, method="bootstrap", generator=torch.Generator().manual_seed(seed)
        )
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first.high != other.high


def test_a_model_that_is_surer_than_squares_can_show_is_estimated() -> None:
    generator = torch.Generator().manual_seed(0)
    odds = -500 - 10 * torch.rand(300, generator=generator, dtype=torch.float64)
    p = torch.stack([torch.zeros_like(odds), odds], dim=1).softmax(1)
    y = [1] + [0] * 199
    estimate = estimate_metric("cross_entropy", p[:200], y, p[200:])
    assert estimate.lam == 0
    assert estimate.value == pytest.approx(math.log(100) / 200)  # capped at −log 0.01


def test_row_order_does_not_matter(predictions) -> None:
    p, y = predictions()
    others, _ = predictions(n=300, seed=1)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    one = estimate_metric("brier", p, y, others)
    two = estimate_metric("brier", p[order], y[order], others.flip(0))
    assert one[:3] == pytest.approx(two[:3])


def test_a_class_without_labels_and_one_class_only(predictions) -> None:
    p, y = predictions(n=120)
    others, _ = predictions(n=300, seed=1)
    for kept in (y != 2, y == 0):
        estimate = estimate_metric("brier", p[kept], y[kept], others, check_shift=False)
        assert 0 <= estimate.low < estimate.value < estimate.high <= 2


def test_a_cross_entropy_is_capped_at_clip(predictions) -> None:
    p, y = predictions(sharpness=3.0)
    losses = -torch.log(p[torch.arange(60), y])
    for clip in (0.5, 2.0):
        estimate = estimate_metric("cross_entropy", p, y, clip=clip)
        assert estimate.value == pytest.approx(float(losses.clamp(max=clip).mean()))
        assert estimate.high <= estimate.clip == clip
    assert estimate_metric("brier", p, y).clip is None


def test_an_uncapped_cross_entropy_has_a_lower_bound_only(predictions) -> None:
    p, y = predictions(sharpness=3.0)
    with pytest.warns(UserWarning, match="no valid upper bound"):
        estimate = estimate_metric("cross_entropy", p, y, clip=math.inf)
    assert estimate.value == pytest.approx(float(-torch.log(p[torch.arange(60), y]).mean()))
    assert estimate.low == estimate_metric("cross_entropy", p, y).low
    assert estimate.high == estimate.labelled_only.high == math.inf


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"probabilities_labelled": [[2.0, -1.0]] * 4}, r"labelled rows: .*\[0, 1\]; got .*logits"),
        ({"probabilities_unlabelled": [[3.0, 9.0]]}, r"unlabelled rows: .*\[0, 1\]; .*logits"),
        (
            {"probabilities_labelled": [[0.5, 0.4]] * 4},
            r"labelled rows: .*one .*sums to 0.9",
        ),
        ({"probabilities_unlabelled": [[0.5, float("nan")]]}, r"unlabelled rows: .*finite; 1 of"),
        ({"probabilities_unlabelled": [[0.2, 0.3, 0.5]]}, r"the same classes; got 2 and 3"),
        ({"probabilities_labelled": [0.5] * 4}, r"must have shape \(n, classes\).*got \(4,\)"),
        (
            {"probabilities_labelled": [[0.7, 0.3]] * 2, "y": [0, 1]},
            r"at least 3 labelled rows; got 2",
        ),
        ({"probabilities_labelled": np.empty((0, 2))}, r"at least 3 labelled rows; got 0"),
        ({"probabilities_labelled": [], "y": []}, r"at least 3 labelled rows; got 0"),
        ({"y": []}, r"got 0 labels and 4 rows"),
        ({"y": [0, 1, 0]}, r"got 3 labels and 4 rows"),
        ({"y": [0, 1, 0, -1]}, r"y must be labelled; 1 of 4"),
        ({"y": [0, 1, 0, 2]}, r"class numbers 0 to 1; got values from 0 to 2"),
        ({"confidence": 95}, r"confidence .*got 95.*0.95"),
        ({"confidence": 0.0}, r"confidence must lie in \(0, 1\); got 0.0"),
        ({"alternative": "greater"}, r"alternative .*'two-sided', 'larger', 'small"),
        ({"method": "wald"}, r"method must be one of 'score', .*; got 'wald'"),
        ({"metric": "f1"}, r"metric must be one of .*; got 'f1'"),
        ({"draws": 10}, r"draws must be at least 99; got 10"),
        (
            {"method": "bootstrap", "confidence": 0.999},
            r"draws must be at least 1999 .*0.0005; got 999",
        ),
    ],
)
def test_errors_say_what_to_do(change, complaint) -> None:
    arguments = {
        "metric": "accuracy",
        "probabilities_labelled": [[0.7, 0.3]] * 4,
        "y": [0, 1, 0, 1],
        "probabilities_unlabelled": [[0.6, 0.4]] * 9,
        **change,
    }
    with pytest.raises(ValueError, match=complaint):
        estimate_metric(**arguments)


@settings(max_examples=settings().max_examples // 2)
@given(
    rows=st.integers(3, 25),
    others=st.integers(0, 30),
    sharpness=st.floats(0, 30),
    seed=st.integers(0, 10_000),
    metric=st.sampled_from(["accuracy", "error", "brier"]),
    method=st.sampled_from(METHODS),
    alternative=st.sampled_from(ALTERNATIVES),
)
def test_bounds_hold_the_value_and_stay_in_range(
    rows, others, sharpness, seed, metric, method, alternative
) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = sharpness * torch.randn(rows + others, 3, generator=generator, dtype=torch.float64)
    y = torch.randint(3, (rows,), generator=generator)
    p = torch.softmax(logits, dim=1)
    if method == "cross_fit" and rows < 6:
        method = "leverage_t"
    estimate = estimate_metric(
        metric, p[:rows], y, p[rows:], method=method, alternative=alternative, draws=99
    )
    kind = METRICS[metric]
    assert kind.low <= estimate.low <= estimate.value <= estimate.high <= kind.high
    # The Brier score of a flat prediction is the same whatever the label: nothing is unknown then.
    known = metric == "brier" and bool((p == p[0, 0]).all())
    assert estimate.low < estimate.high or known


@pytest.mark.parametrize(("confidence", "least"), [(0.95, 0.92), (0.99, 0.95)])
def test_a_timid_model_does_not_draw_the_lower_bound_in(confidence: float, least: float) -> None:
    """It expects more large losses than there are, and unlabelled rows bring noise of their own."""

    def brier(top: float, right: float) -> float:
        rest = (1 - top) / 2
        hit, miss = (1 - top) ** 2 + 2 * rest**2, top**2 + (1 - rest) ** 2 + rest**2
        return right * hit + (1 - right) * miss

    truth = (brier(0.95, 0.99) + brier(0.4, 0.03)) / 2
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(300):
        sure = rng.random(1050) < 0.5
        top = np.where(sure, 0.95, 0.4)
        p = np.stack([top, (1 - top) / 2, (1 - top) / 2], axis=1)
        right = rng.random(1050) < np.where(sure, 0.99, 0.03)
        y = np.where(right, 0, 1 + rng.integers(2, size=1050))
        estimate = estimate_metric("brier", p[:50], y[:50], p[50:], confidence=confidence)
        covered += estimate.low <= truth <= estimate.high
    assert covered / 300 > least


@pytest.mark.parametrize("metric", ["accuracy", "brier"])
def test_coverage_by_simulation(metric, predictions) -> None:
    """Nine of ten intervals hold the truth of the population that the rows are drawn from."""
    p, y = predictions(n=20_000, distance=1.5)
    hits = (p.argmax(1) == y).double()
    brier = (p - torch.eye(3, dtype=torch.float64)[y]).square().sum(1)
    truth = (hits if metric == "accuracy" else brier).mean().item()
    generator = torch.Generator().manual_seed(0)
    covered, width, width_alone = 0, 0.0, 0.0
    for _ in range(400):
        rows = torch.randint(20_000, (50,), generator=generator)
        others = torch.randint(20_000, (500,), generator=generator)
        estimate = estimate_metric(
            metric, p[rows], y[rows], p[others], confidence=0.9, check_shift=False
        )
        covered += estimate.low <= truth <= estimate.high
        alone = estimate.labelled_only
        width += estimate.high - estimate.low
        width_alone += alone.high - alone.low
    assert 0.86 < covered / 400 < 0.95  # 90 % ± 1.5 points, and three Monte-Carlo errors
    assert width < 0.95 * width_alone


@pytest.mark.parametrize("method", ["score", "leverage_t", "cross_fit"])
@pytest.mark.parametrize("metric", ["accuracy", "error", "brier", "cross_entropy"])
def test_labelled_only_is_the_estimate_without_unlabelled_rows(metric, method, predictions) -> None:
    p, y = predictions(n=60)
    others, _ = predictions(n=500, sharpness=3.0, seed=1)
    whole = estimate_metric(metric, p, y, others, method=method, check_shift=False)
    alone = estimate_metric(metric, p, y, method=method)
    assert whole.labelled_only == (alone.value, alone.low, alone.high) == alone.labelled_only
