"""The variance of the debiased risk: exact values, enumeration, simulation."""

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, permutations, product

import numpy as np
import pytest
import torch
from torch import Tensor

from dessl.risk import debiased_risk, subset_debiased_risk
from dessl.theory import (
    correlation,
    optimal_lambda_from_moments,
    risk_variance,
    variance_ratio,
)

MOMENTS = (2.0, 3.0, 1.5)  # V(L), V(H), Cov
N_L, N_U = 4, 12


@pytest.mark.parametrize(("lam", "value"), [(0.0, 1 / 2), (3 / 8, 23 / 64), (1.0, 3 / 4)])
def test_exact_values(lam: float, value: float) -> None:
    assert risk_variance(*MOMENTS, N_L, N_U, lam) == pytest.approx(value, abs=1e-15)
    assert optimal_lambda_from_moments(3.0, 1.5, N_L, N_U) == 3 / 8


def test_exact_values_of_the_subset_form() -> None:
    assert risk_variance(*MOMENTS, N_L, N_U, 0.5, subset=(2, 6)) == pytest.approx(
        15 / 32, abs=1e-15
    )
    assert optimal_lambda_from_moments(3.0, 1.5, N_L, N_U, subset=(2, 6)) == pytest.approx(3 / 8)
    at_best = risk_variance(*MOMENTS, N_L, N_U, 3 / 8, subset=(2, 6))
    closed = 2 / N_L - N_U / N_L**2 * 2**2 / ((N_U - 6 + 2) * (2 + 6)) * 1.5**2 / 3
    assert at_best == pytest.approx(closed, abs=1e-15)


def test_the_all_data_form_is_the_main_form_at_a_smaller_lambda() -> None:
    for population in ("infinite", "finite"):
        on_all = risk_variance(*MOMENTS, N_L, N_U, 0.9, on="all", population=population)
        main = risk_variance(*MOMENTS, N_L, N_U, 0.9 * N_U / 16, population=population)
        assert on_all == pytest.approx(main, abs=1e-15)
    assert optimal_lambda_from_moments(3.0, 1.5, N_L, N_U, on="all") == 0.5


def test_labelled_rows_or_all_rows_are_the_best_subsets() -> None:
    def least(subset: tuple[int, int]) -> float:
        lam = optimal_lambda_from_moments(3.0, 1.5, N_L, N_U, subset=subset)
        return risk_variance(*MOMENTS, N_L, N_U, lam, subset=subset)

    options = {(a, b): least((a, b)) for a in range(N_L + 1) for b in range(N_U + 1) if a + b}
    assert options[N_L, 0] == pytest.approx(risk_variance(*MOMENTS, N_L, N_U, 3 / 8))
    best = min(options.values())
    assert {key for key, value in options.items() if value < best + 1e-12} == {(N_L, 0), (N_L, N_U)}


@pytest.mark.parametrize("population", ["infinite", "finite"])
@pytest.mark.parametrize("covariance", [1.5, -1.5])
def test_the_reduction_range_ends_at_twice_the_optimum(population: str, covariance: float) -> None:
    moments = (2.0, 3.0, covariance)
    best = optimal_lambda_from_moments(3.0, covariance, N_L, N_U)
    complete = risk_variance(*moments, N_L, N_U, 0.0, population=population)
    assert risk_variance(*moments, N_L, N_U, 2 * best, population=population) == pytest.approx(
        complete
    )
    assert risk_variance(*moments, N_L, N_U, 1.9 * best, population=population) < complete
    assert risk_variance(*moments, N_L, N_U, 2.1 * best, population=population) > complete
    rho = covariance / 6**0.5
    at_best = risk_variance(*moments, N_L, N_U, best, population=population)
    ratio = variance_ratio(rho, N_L, N_U, population=population)
    assert at_best / complete == pytest.approx(ratio)
    assert ratio == pytest.approx(1 - (1 if population == "finite" else N_U / 16) * rho**2)


def test_many_lambdas_at_once() -> None:
    lams = [0.0, 0.3, 2.0]
    single = [risk_variance(*MOMENTS, N_L, N_U, lam) for lam in lams]
    np.testing.assert_allclose(risk_variance(*MOMENTS, N_L, N_U, np.array(lams)), single)
    tensor = risk_variance(*MOMENTS, N_L, N_U, torch.tensor(lams, dtype=torch.float64))
    torch.testing.assert_close(tensor, torch.tensor(single, dtype=torch.float64))


# --- a finite population, by enumeration ----------------------------------------------------------


def moments_of(loss: Tensor, h: Tensor) -> tuple[float, float, float]:
    """S²(L), S²(H) and their covariance, with divisor n − 1."""
    matrix = np.cov(np.stack([loss.numpy(), h.numpy()]))
    return float(matrix[0, 0]), float(matrix[1, 1]), float(matrix[0, 1])


@pytest.mark.parametrize("on", ["unlabelled", "all"])
@pytest.mark.parametrize("lam", [-2.0, 0.0, 0.3, 1.0, 10.0])
def test_over_all_labellings_of_a_population(on: str, lam: float) -> None:
    loss, h = torch.rand(2, 8, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    risks = []
    for chosen in combinations(range(8), 3):
        labelled = torch.zeros(8, dtype=torch.bool)
        labelled[list(chosen)] = True
        risks.append(debiased_risk(loss[labelled], h[labelled], h[~labelled], lam, on=on).value)
    enumerated = torch.stack(risks).var(correction=0)
    ours = risk_variance(*moments_of(loss, h), 3, 5, lam, on=on, population="finite")
    assert ours == pytest.approx(float(enumerated), rel=1e-11)
    scale = lam * 8 / 5 if on == "unlabelled" else lam
    closed = (1 - 3 / 8) * (loss - scale * h).var() / 3
    assert ours == pytest.approx(float(closed), rel=1e-11)


def test_over_all_labellings_and_subsets_of_a_population() -> None:
    loss, h = torch.rand(2, 6, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    in_l, in_u = torch.tensor([True, False, False]), torch.tensor([True, True, False])
    risks = [
        subset_debiased_risk(
            loss[list(order[:3])],
            h[list(order[:3])],
            h[list(order[3:])],
            0.7,
            in_labelled=in_l,
            in_unlabelled=in_u,
        ).value
        for order in permutations(range(6))
    ]
    enumerated = float(torch.stack(risks).var(correction=0))
    ours = risk_variance(*moments_of(loss, h), 3, 3, 0.7, subset=(1, 2), population="finite")
    assert ours == pytest.approx(enumerated, rel=1e-10)


def test_perfectly_correlated_h_leaves_no_variance_in_a_finite_population() -> None:
    loss = torch.rand(9, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    h = 2 * loss + 1
    moments = moments_of(loss, h)
    best = optimal_lambda_from_moments(moments[1], moments[2], 4, 5)
    assert risk_variance(*moments, 4, 5, best, population="finite") == pytest.approx(0, abs=1e-16)
    risks = [
        debiased_risk(loss[list(c)], h[list(c)], h[[i for i in range(9) if i not in c]], best).value
        for c in combinations(range(9), 4)
    ]
    assert float(torch.stack(risks).std()) < 1e-14


# --- i.i.d. draws, by simulation ------------------------------------------------------------------

DRAWS = 100_000


def simulated_risks(estimate: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Tensor:
    """100,000 independent data sets of 5 labelled and 15 unlabelled rows, L and H correlated."""
    generator = torch.Generator().manual_seed(6)
    h = torch.empty(DRAWS, 20, dtype=torch.float64).exponential_(generator=generator)  # V(H) = 1
    noise = torch.randn(DRAWS, 5, generator=generator, dtype=torch.float64)
    loss = 0.8 * h[:, :5] + 0.5 * noise + 3
    return torch.func.vmap(estimate)(loss, h[:, :5], h[:, 5:])


SIMULATED = (0.8**2 + 0.5**2, 1.0, 0.8)  # V(L), V(H), Cov of that law


@pytest.mark.parametrize("on", ["unlabelled", "all"])
@pytest.mark.parametrize("lam", [0.0, 0.6, 1.5])
def test_the_variance_agrees_with_simulation(on: str, lam: float) -> None:
    risks = simulated_risks(lambda a, b, c: debiased_risk(a, b, c, lam, on=on).value)
    theory = risk_variance(*SIMULATED, 5, 15, lam, on=on)
    # The relative error of a variance over 10⁵ draws is √((κ − 1)/10⁵), below 1 % here: 4 of them.
    assert float(risks.var()) == pytest.approx(theory, rel=0.03)
    assert float(risks.mean()) == pytest.approx(3.8, abs=5 * (theory / DRAWS) ** 0.5)


def test_the_least_variance_is_the_one_that_the_theorem_gives() -> None:
    best = optimal_lambda_from_moments(1.0, 0.8, 5, 15)
    assert best == pytest.approx(0.75 * 0.8)
    at_best = simulated_risks(lambda a, b, c: debiased_risk(a, b, c, best).value).var()
    complete = simulated_risks(lambda a, b, c: debiased_risk(a, b, c, 0.0).value).var()
    rho = 0.8 / SIMULATED[0] ** 0.5
    assert float(at_best / complete) == pytest.approx(1 - 0.75 * rho**2, rel=0.03)
    assert variance_ratio(rho, 5, 15) == pytest.approx(1 - 0.75 * rho**2)


def test_the_subset_form_agrees_with_simulation() -> None:
    in_l, in_u = torch.arange(5) < 2, torch.arange(15) < 4
    risks = simulated_risks(
        lambda a, b, c: (
            subset_debiased_risk(a, b, c, 1.2, in_labelled=in_l, in_unlabelled=in_u).value
        )
    )
    theory = risk_variance(*SIMULATED, 5, 15, 1.2, subset=(2, 4))
    assert float(risks.var()) == pytest.approx(theory, rel=0.03)


def test_for_a_calibrated_model_the_entropys_slope_is_one() -> None:
    # Cov(−log p(y|x), entropy) = V(entropy) exactly, summed over a discrete law of x and y.
    p = torch.tensor([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]], dtype=torch.float64)
    weight = torch.tensor([0.5, 0.2, 0.3], dtype=torch.float64)
    h = -(p * p.log()).sum(1)
    mean_h = weight @ h
    variance = weight @ (h - mean_h) ** 2
    mean_loss = weight @ (p * -p.log()).sum(1)
    covariance = weight @ (p * (-p.log() - mean_loss) * (h - mean_h).unsqueeze(1)).sum(1)
    assert float(covariance) == pytest.approx(float(variance), abs=1e-15)
    best = optimal_lambda_from_moments(float(variance), float(covariance), 10, 90)
    assert best == pytest.approx(0.9)


def test_a_subset_of_all_unlabelled_rows_takes_h_back_whole() -> None:
    """mean_U H − mean_U H: no λ changes anything, and the answer is 0."""
    for lam in (0.0, 5.0):
        assert risk_variance(*MOMENTS, 4, 12, lam, subset=(0, 12)) == MOMENTS[0] / 4
    assert optimal_lambda_from_moments(*MOMENTS[1:], 4, 12, subset=(0, 12)) == 0.0


def test_rounding_makes_no_variance_negative() -> None:
    for n_l, n_u in product(range(1, 30), repeat=2):
        best = optimal_lambda_from_moments(1.0, 1.0, n_l, n_u)
        lams = torch.tensor([best], dtype=torch.float64)
        for lam in (best, lams, lams.numpy()):
            left = risk_variance(1.0, 1.0, 1.0, n_l, n_u, lam, population="finite")
            assert 0 <= left < 1e-15
        assert 0 <= variance_ratio(-1.0, n_l, n_u, population="finite") < 1e-14


def test_one_unlabelled_row_among_many_leaves_a_known_variance() -> None:
    """1/n_l − 1/n of a finite population, where the difference would lose half its digits."""
    n_l = 10**8
    exact = float(Fraction(1, n_l) - Fraction(1, n_l + 1))
    ours = risk_variance(1.0, 1.0, 0.0, n_l, 1, 0.0, population="finite")
    assert ours == pytest.approx(exact, rel=1e-14, abs=0)


# --- correlation and bad input --------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e-300, 1e-200, 1e160])
def test_correlation_of_numbers_whose_squares_are_no_floats(size: float) -> None:
    """A very sure model's entropies are such, in float64."""
    loss, h = np.random.default_rng(0).random((2, 50))
    assert correlation(loss, size * h) == pytest.approx(np.corrcoef(loss, h)[0, 1])


def test_correlation_is_numpys_for_arrays_and_tensors() -> None:
    loss, h = np.random.default_rng(0).normal(size=(2, 50))
    expected = np.corrcoef(loss, h)[0, 1]
    assert correlation(loss, h) == pytest.approx(expected)
    assert correlation(torch.tensor(loss), torch.tensor(h)) == pytest.approx(expected)
    assert correlation(loss, np.ones(50)) == 0.0
    rounded = np.array([0.7 + 0.2 + 0.1, 0.1 + 0.2 + 0.7] * 25)  # two orders of one sum
    assert rounded.std() > 0
    assert correlation(loss, rounded) == 0.0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: risk_variance(-1.0, 1.0, 0.0, 2, 2, 1.0),
            ValueError,
            r"variance_loss must lie in",
        ),
        (
            lambda: risk_variance(1.0, 1.0, 2.0, 2, 2, 1.0),
            ValueError,
            r"\|covariance\| must be at most .* = 1; got 2",
        ),
        (
            lambda: risk_variance(1.0, 1.0, float("nan"), 2, 2, 1.0),
            ValueError,
            "covariance must lie in .*; got nan",
        ),
        (
            lambda: optimal_lambda_from_moments(1.0, float("nan"), 2, 2),
            ValueError,
            "covariance must lie in .*; got nan",
        ),
        (
            lambda: risk_variance(*MOMENTS, 0, 2, 1.0),
            ValueError,
            "n_labelled must be at least 1; got 0",
        ),
        (
            lambda: risk_variance(*MOMENTS, 2, 2.5, 1.0),
            TypeError,
            "n_unlabelled must be a whole number",
        ),
        (lambda: risk_variance(*MOMENTS, 2, 2, 1.0, on="some"), ValueError, "on must be one of"),
        (
            lambda: risk_variance(*MOMENTS, 2, 2, 1.0, subset=(3, 0)),
            ValueError,
            "between 0 and 2; got 3",
        ),
        (
            lambda: risk_variance(*MOMENTS, 2, 2, 1.0, subset=(0, 0)),
            ValueError,
            "at least 1; got 0",
        ),
        (
            lambda: risk_variance(*MOMENTS, 2, 2, 1.0, subset=(1, 0), on="all"),
            ValueError,
            "on='unlabelled'; got on='all'",
        ),
        *(
            (
                lambda subset=subset: risk_variance(*MOMENTS, 2, 2, 1.0, subset=subset),
                TypeError,
                r"subset must be a pair \(l, u\), .*; got .* pass \(l, 0\)",
            )
            for subset in (3, (1,), (1, 0, 0), "10")
        ),
        (
            lambda: risk_variance(*MOMENTS, 2, 2, 1.0, population="whole"),
            ValueError,
            "'infinite', 'fin",
        ),
        (
            lambda: variance_ratio(1.5, 2, 2),
            ValueError,
            r"correlation must lie in \[-1, 1\]; got 1.5",
        ),
        (lambda: correlation([1.0, 2.0], [1.0]), ValueError, "rows; got 2 and 1"),
        (lambda: risk_variance(*MOMENTS, N_L, N_U, [0, 1]), TypeError, "lam must be .*; got list"),
    ],
)
def test_bad_input_is_refused_with_a_remedy(
    call: Callable[[], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()
