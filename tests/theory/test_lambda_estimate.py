"""Estimates of λ_opt: exact values, scipy's regression, behaviour with few labels, edge cases."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import stats

from dessl.functional import entropy
from dessl.risk import debiased_risk
from dessl.theory import optimal_lambda, optimal_lambdas, risk_variance

LOSS = [1.0, 2.0, 4.0, 3.0]
H_L = [0.5, 1.5, 2.5, 2.0]
H_U = [1.0, 2.0, 3.0, 1.0, 2.0, 2.5, 0.5, 1.5]


@pytest.mark.parametrize(
    ("settings", "value"),
    [
        ({"slope": "pooled", "shrink": None, "on": "all"}, 117 / 86),
        ({"slope": "pooled", "shrink": None}, 39 / 43),
        ({"slope": "least_squares", "shrink": None}, 104 / 105),
        ({"slope": "least_squares", "shrink": None, "on": "all"}, 52 / 35),
        ({"slope": "least_squares", "shrink": "james_stein"}, 1328 / 1365),
        ({}, 1328 / 1365),
    ],
)
def test_exact_values(settings: dict[str, str], value: float) -> None:
    assert optimal_lambda(LOSS, H_L, H_U, **settings).lam == pytest.approx(
        value, abs=4e-16, rel=4e-16
    )


def test_the_risk_at_the_estimate() -> None:
    lam = optimal_lambda(LOSS, H_L, H_U, shrink=None).lam
    risk = debiased_risk(
        *(torch.tensor(part, dtype=torch.float64) for part in (LOSS, H_L, H_U)), lam
    )
    assert float(risk.value) == pytest.approx(269 / 105, abs=1e-15)


def test_least_squares_is_scipys_regression() -> None:
    rng = np.random.default_rng(0)
    h = rng.exponential(size=30)
    loss = 1.3 * h + rng.normal(size=30)
    line = stats.linregress(h, loss)
    estimate = optimal_lambda(loss, h, rng.exponential(size=70), shrink=None)
    assert estimate.lam == pytest.approx(0.7 * line.slope)
    assert estimate.standard_error == pytest.approx(0.7 * line.stderr)
    assert estimate.correlation == pytest.approx(line.rvalue)
    assert estimate.variance_ratio == pytest.approx(1 - 0.7 * line.rvalue**2)
    assert estimate.range == pytest.approx((0.0, 1.4 * line.slope))
    lower = optimal_lambda(loss, h, h, shrink="lower_bound", on="all").lam
    assert lower == pytest.approx(line.slope - 1.645 * line.stderr)
    f_statistic = line.rvalue**2 / (1 - line.rvalue**2) * 28
    stein = optimal_lambda(loss, h, h, shrink="james_stein", on="all").lam
    assert stein == pytest.approx(line.slope * (1 - 1 / f_statistic))


def test_the_variance_ratio_is_that_of_the_lambda_returned() -> None:
    rng = np.random.default_rng(1)
    h = rng.exponential(size=40)
    loss = h + 0.3 * rng.normal(size=40)
    covariance = np.cov(loss, h)
    for settings in ({"shrink": "lower_bound"}, {"clip": (0.0, 0.2)}, {"on": "all"}):
        estimate = optimal_lambda(loss, h, rng.exponential(size=60), **settings)
        moments = covariance[0, 0], covariance[1, 1], covariance[0, 1]
        form = {"on": settings["on"]} if "on" in settings else {}
        ours = risk_variance(*moments, 40, 60, estimate.lam, **form)
        assert estimate.variance_ratio == pytest.approx(ours / risk_variance(*moments, 40, 60, 0.0))


def test_a_negative_correlation_turns_the_range_round() -> None:
    rng = np.random.default_rng(2)
    h = rng.normal(size=200)
    estimate = optimal_lambda(-h + 0.1 * rng.normal(size=200), h, rng.normal(size=200))
    assert estimate.lam < -0.4
    assert estimate.range == (2 * estimate.lam, 0.0)
    assert optimal_lambda(-h, h, h, shrink="lower_bound").lam == 0.0


def test_without_correlation_shrinking_falls_back_on_the_complete_case() -> None:
    rng = np.random.default_rng(3)
    falls_back = {"james_stein": 0, "lower_bound": 0}
    for _ in range(400):
        loss, h = rng.normal(size=(2, 20))
        for shrink in falls_back:
            falls_back[shrink] += (
                optimal_lambda(loss, h, rng.normal(size=80), shrink=shrink).lam == 0
            )
    # F(1, 18) is below 1 with probability .67; a one-sided 95 % bound is below 0 in about 94 %.
    assert falls_back["james_stein"] / 400 == pytest.approx(stats.f.cdf(1, 1, 18), abs=0.08)
    assert falls_back["lower_bound"] / 400 == pytest.approx(stats.t.cdf(1.645, 18), abs=0.05)


@pytest.mark.slow
def test_with_few_labels_least_squares_beats_the_pooled_slope() -> None:
    """The comparison of the errata: skewed, ρ = .93, n_l = 10; mean squared error of the risk."""
    rng = np.random.default_rng(4)
    errors: dict[str, list[float]] = {
        "complete": [],
        "pooled": [],
        "least_squares": [],
        "stein": [],
    }
    for _ in range(3000):
        h = rng.lognormal(size=510)
        loss = h + 0.85 * rng.normal(size=510)  # V(H) = 4.67, so ρ = √(4.67/(4.67 + .72)) = .93
        labelled, unlabelled = h[:10], h[10:]
        truth = np.exp(0.5)
        lams = {
            "complete": 0.0,
            "pooled": optimal_lambda(
                loss[:10], labelled, unlabelled, slope="pooled", shrink=None
            ).lam,
            "least_squares": optimal_lambda(loss[:10], labelled, unlabelled, shrink=None).lam,
            "stein": optimal_lambda(loss[:10], labelled, unlabelled).lam,
        }
        for name, lam in lams.items():
            risk = loss[:10].mean() + lam * (unlabelled.mean() - labelled.mean())
            errors[name].append((risk - truth) ** 2)
    relative = {name: np.mean(e) / np.mean(errors["complete"]) for name, e in errors.items()}
    assert relative["least_squares"] < 0.35
    assert relative["stein"] < 0.35
    assert relative["pooled"] > 2 * relative["least_squares"]


@pytest.mark.parametrize("slope", ["least_squares", "pooled"])
def test_the_standard_error_is_the_spread_over_data_sets(slope: str) -> None:
    rng = np.random.default_rng(5)
    estimates = []
    for _ in range(800):
        h = rng.normal(size=600)
        loss = 0.7 * h + rng.normal(size=600)
        estimates.append(optimal_lambda(loss[:200], h[:200], h[200:], slope=slope, shrink=None))
    spread = np.std([estimate.lam for estimate in estimates])
    claimed = np.mean([estimate.standard_error for estimate in estimates])
    assert claimed == pytest.approx(spread, rel=0.1)
    assert np.mean([e.lam for e in estimates]) == pytest.approx(0.7 * 2 / 3, abs=0.02)


def test_arrays_and_tensors_give_the_same() -> None:
    rng = np.random.default_rng(6)
    loss, h, h_u = rng.normal(size=20), rng.normal(size=20), rng.normal(size=50)
    as_tensors = optimal_lambda(*(torch.tensor(v, requires_grad=True) for v in (loss, h, h_u)))
    assert as_tensors == optimal_lambda(loss, h, h_u)
    assert all(isinstance(value, float) for value in as_tensors[:4])


@pytest.mark.parametrize("slope", ["least_squares", "pooled"])
def test_a_constant_h_says_nothing(slope: str) -> None:
    estimate = optimal_lambda(LOSS, [1.0] * 4, [1.0] * 5, slope=slope)
    assert estimate == (0.0, np.inf, 0.0, 1.0, (0.0, 0.0))
    loss = np.random.default_rng(0).normal(size=40)
    for n in range(3, 41):  # whose mean of equal numbers is rounded for some n
        estimate = optimal_lambda(loss[:n], [0.1] * n, [0.1] * 7, slope=slope, shrink=None)
        assert estimate == (0.0, np.inf, 0.0, 1.0, (0.0, 0.0))


def test_perfect_correlation_is_not_shrunk() -> None:
    estimate = optimal_lambda([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [1.0, 5.0, 2.0])
    assert estimate.lam == 0.5
    assert estimate.standard_error == 0.0
    assert estimate.variance_ratio == pytest.approx(0.5)


def test_clip() -> None:
    assert optimal_lambda(LOSS, H_L, H_U, clip=(0.0, 0.5)).lam == 0.5
    assert optimal_lambda(LOSS, H_L, H_U, clip=(2.0, 3.0)).lam == 2.0
    assert isinstance(optimal_lambda(LOSS, H_L, H_U, clip=(2, 3)).lam, float)
    both = [
        optimal_lambda(LOSS, H_L, H_U, clip=clip) for clip in ((0.0, 0.1), np.array([0.0, 0.1]))
    ]
    assert both[0].lam == both[1].lam == 0.1


@pytest.mark.parametrize("slope", ["least_squares", "pooled"])
def test_of_a_constant_loss_every_lambda_but_zero_makes_all_the_variance(slope: str) -> None:
    loss, h = [0.1] * 6, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert optimal_lambda(loss, h, H_U, slope=slope)[2:] == (0.0, 1.0, (0.0, 0.0))
    assert optimal_lambda(loss, h, H_U, slope=slope, clip=(0.5, 1.0)).variance_ratio == np.inf
    constant = optimal_lambda(loss, [0.1] * 6, [0.1] * 3, slope=slope, clip=(0.5, 1.0))
    assert constant.variance_ratio == 1.0  # nor does λH vary


def test_one_unlabelled_row_is_enough_to_pool() -> None:
    h = np.array([*H_L, 5.0])
    slope = np.mean((LOSS - np.mean(LOSS)) * (H_L - h.mean())) / h.var()
    estimate = optimal_lambda(LOSS, H_L, [5.0], slope="pooled", shrink=None)
    assert estimate.lam == pytest.approx(slope / 5)
    # The one row's part in the error of V(H) is left out: a spread of one value is not known.
    products = (LOSS - np.mean(LOSS)) * (H_L - h.mean())
    residuals = products - slope * (H_L - h.mean()) ** 2 * 4 / 5
    error = np.sqrt(residuals.var(ddof=1) / 4) / h.var()
    assert estimate.standard_error == pytest.approx(error / 5)


def test_no_variance_is_estimated_to_be_negative() -> None:
    """Labelled rows that vary more than all rows do: the pooled moments contradict each other."""
    estimate = optimal_lambda([0.0, 1.0, 2.0], [0.0, 1.0, 2.0], [1.0] * 100, slope="pooled")
    assert estimate.variance_ratio == 0.0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: optimal_lambda(LOSS[:2], H_L[:2], H_U),
            ValueError,
            "at least 3 labelled rows; got 2",
        ),
        (lambda: optimal_lambda(LOSS, H_L[:3], H_U), ValueError, "rows; got 4 and 3"),
        (lambda: optimal_lambda(LOSS, H_L, []), ValueError, "h_unlabelled must not be empty"),
        (lambda: optimal_lambda([LOSS], H_L, H_U), ValueError, r"loss must have 1 dimension"),
        (lambda: optimal_lambda(["a"], H_L, H_U), TypeError, "loss must be an array or a tensor"),
        (lambda: optimal_lambda([np.nan, *LOSS[1:]], H_L, H_U), ValueError, "1 of its 4 entries"),
        (lambda: optimal_lambda(LOSS, H_L, H_U, slope="ridge"), ValueError, "slope must be one of"),
        (
            lambda: optimal_lambda(LOSS, H_L, H_U, shrink="lasso"),
            ValueError,
            "shrink must be one of",
        ),
        (lambda: optimal_lambda(LOSS, H_L, H_U, on="none"), ValueError, "on must be one of"),
        (
            lambda: optimal_lambda(LOSS, H_L, H_U, clip=(1, 0)),
            ValueError,
            r"clip must be \(low, high\)",
        ),
        (lambda: optimal_lambda(LOSS, H_L, H_U, clip=1), ValueError, r"clip must be \(low, high\)"),
        (
            lambda: optimal_lambda(LOSS, H_L, H_U, clip=(None, 1)),
            TypeError,
            r"clip\[0\] must be a number; got NoneType",
        ),
    ],
)
def test_bad_input_is_refused_with_a_remedy(
    call: Callable[[], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()


def test_read_only_arrays_are_read() -> None:
    frozen = np.array(LOSS)
    frozen.flags.writeable = False
    assert optimal_lambda(frozen, H_L, H_U) == optimal_lambda(LOSS, H_L, H_U)


@pytest.mark.parametrize("slope", ["least_squares", "pooled"])
def test_an_h_that_is_constant_up_to_rounding_says_nothing(slope: str) -> None:
    """One prediction with its classes in another order: λ in the millions before."""
    logits = torch.tensor([1.3, 0.2, -0.7, 0.5, 2.1])
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        turned = [logits[torch.randperm(5, generator=generator)] for _ in range(40)]
        h = entropy(torch.stack(turned))
        assert len(h.unique()) > 1
        loss = torch.rand(10, generator=generator)
        estimate = optimal_lambda(loss, h[:10], h[10:], slope=slope, shrink=None)
        assert (estimate.lam, estimate.correlation, estimate.variance_ratio) == (0, 0, 1)
        several = optimal_lambdas(loss, h[:10, None], h[10:, None], shrink=None, signed=True)
        assert several.lam.tolist() == [0]
