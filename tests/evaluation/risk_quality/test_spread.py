from itertools import combinations

import pytest
import torch

from dessl.evaluation.risk_quality import (
    gradient_variance_ratio_over_lambda,
    last_layer_variance_ratio_over_lambda,
    oracle_lambda,
    variance_ratio_over_lambda,
)

LAMS = torch.tensor([0.0, 0.4, 0.8, 1.5], dtype=torch.float64)


def enumerated_ratio(loss: torch.Tensor, h: torch.Tensor, n_labelled: int) -> torch.Tensor:
    """Trace of the variance over every split there is, (n, p) → (lams,)."""
    n = len(loss)
    estimates = []
    for rows in combinations(range(n), n_labelled):
        others = [i for i in range(n) if i not in rows]
        gap = h[others].mean(0) - h[list(rows)].mean(0)
        estimates.append(loss[list(rows)].mean(0) + LAMS[:, None] * gap)
    variance = torch.stack(estimates).var(0, correction=0).sum(-1)
    return variance / variance[0]


def test_the_theory_is_the_enumeration_and_the_splits_come_near(population) -> None:
    loss, h = population
    expected = enumerated_ratio(loss[:, None], h[:, None], 3)
    result = variance_ratio_over_lambda(loss, h, LAMS, n_labelled=3, splits=4000)
    torch.testing.assert_close(result.theory, expected)
    torch.testing.assert_close(result.empirical, expected, rtol=0.15, atol=0.02)
    oracle = oracle_lambda(loss, h, n_labelled=3)
    assert result.lam == pytest.approx(oracle.lam)
    assert result.least == pytest.approx(oracle.variance_ratio)
    assert result.least <= result.theory.min()


def test_gradients_are_summed_over_parameters() -> None:
    generator = torch.Generator().manual_seed(1)
    g_h = torch.randn(7, 5, generator=generator, dtype=torch.float64)
    g_loss = g_h + 0.5 * torch.randn(7, 5, generator=generator, dtype=torch.float64)
    expected = enumerated_ratio(g_loss, g_h, 2)
    result = gradient_variance_ratio_over_lambda(g_loss, g_h, LAMS, n_labelled=2, splits=4000)
    torch.testing.assert_close(result.theory, expected)
    torch.testing.assert_close(result.empirical, expected, rtol=0.1, atol=0.02)
    assert result.least < 1


def test_a_last_layer_needs_no_outer_products() -> None:
    generator = torch.Generator().manual_seed(2)
    features = torch.randn(12, 4, generator=generator, dtype=torch.float64)
    d_h = torch.randn(12, 3, generator=generator, dtype=torch.float64)
    d_loss = d_h + torch.randn(12, 3, generator=generator, dtype=torch.float64)

    def outer(deltas: torch.Tensor) -> torch.Tensor:
        return torch.einsum("nk,nd->nkd", deltas, features).flatten(1)

    full = gradient_variance_ratio_over_lambda(outer(d_loss), outer(d_h), LAMS, n_labelled=5)
    short = last_layer_variance_ratio_over_lambda(features, d_loss, d_h, LAMS, n_labelled=5)
    for one, other in zip(full, short, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("value", [0.1, 0.3, 0.7])
def test_a_last_layer_gradient_that_is_the_same_for_all_rows_does_not_vary(value) -> None:
    generator = torch.Generator().manual_seed(3)
    varying = torch.randn(80, 3, generator=generator, dtype=torch.float64)
    ones, same = torch.ones(80, 2), torch.full((80, 3), value, dtype=torch.float64)
    result = last_layer_variance_ratio_over_lambda(ones, varying, same, LAMS, n_labelled=10)
    assert (result.lam, result.least) == (0.0, 1.0)
    assert result.theory.tolist() == [1.0] * 4
    with pytest.raises(ValueError, match="must vary over the rows; it is the same for all"):
        last_layer_variance_ratio_over_lambda(ones, same, varying, LAMS, n_labelled=10)


def test_errors_say_what_to_do(population) -> None:
    loss, h = population
    with pytest.raises(ValueError, match="must vary over the rows; it is the same for all"):
        variance_ratio_over_lambda(torch.ones(8), h, LAMS, n_labelled=3)
    with pytest.raises(ValueError, match=r"shape; got \(8, 1\) and \(8, 2\)"):
        gradient_variance_ratio_over_lambda(loss[:, None], torch.ones(8, 2), LAMS, n_labelled=3)
    with pytest.raises(ValueError, match=r"features and logit_gradients_loss .*rows"):
        last_layer_variance_ratio_over_lambda(
            torch.ones(7, 2), torch.ones(8, 2), torch.ones(8, 2), LAMS, n_labelled=3
        )
