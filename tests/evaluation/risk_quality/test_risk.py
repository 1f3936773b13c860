import math

import numpy as np
import pytest
import torch

from dessl.evaluation.risk_quality import oracle_lambda, risk_over_lambda
from dessl.risk import debiased_risk, ssl_risk

LAMS = [0.0, 0.5, 1.0, 2.0]


def test_each_split_is_the_librarys_own_risk(population) -> None:
    loss, h = population
    result = risk_over_lambda(loss, h, LAMS, n_labelled=3, splits=10)
    generator = torch.Generator().manual_seed(0)
    for split in range(10):
        order = torch.randperm(8, generator=generator)
        rows, others = order[:3], order[3:]
        for i, lam in enumerate(LAMS):
            ssl = ssl_risk(loss[rows], h[others], lam).value
            debiased = debiased_risk(loss[rows], h[rows], h[others], lam).value
            torch.testing.assert_close(result.ssl[split, i], ssl)
            torch.testing.assert_close(result.debiased[split, i], debiased)
    np.testing.assert_allclose(result.debiased_mean, result.debiased.mean(0))
    low, high = np.quantile(result.ssl.numpy(), [0.025, 0.975], axis=0)
    np.testing.assert_allclose(result.ssl_low, low)
    np.testing.assert_allclose(result.ssl_high, high)


def test_the_debiased_estimate_is_unbiased_and_the_other_is_not(population) -> None:
    loss, h = population
    result = risk_over_lambda(loss, h, LAMS, n_labelled=3, splits=20_000)
    error = result.debiased.std(0) / math.sqrt(20_000)
    assert ((result.debiased_mean - result.oracle).abs() < 4 * error).all()
    bias = result.ssl_mean - result.oracle
    torch.testing.assert_close(bias, torch.tensor(LAMS).double() * h.mean(), rtol=0, atol=0.01)


def test_oracle_lambda_is_the_least_of_a_fine_grid(population) -> None:
    loss, h = population
    result = oracle_lambda(loss, h, n_labelled=3)
    covariance = np.cov(loss.numpy(), h.numpy())
    assert result.lam == pytest.approx(5 / 8 * covariance[0, 1] / covariance[1, 1])
    assert result.correlation == pytest.approx(np.corrcoef(loss, h)[0, 1])
    assert result.variance_ratio == pytest.approx(1 - result.correlation**2)


def test_oracle_lambda_of_a_training_has_its_own_counts(population) -> None:
    loss, h = population
    result = oracle_lambda(loss, h, n_labelled=4000, n_unlabelled=46_000)
    covariance = np.cov(loss.numpy(), h.numpy())
    assert result.lam == pytest.approx(0.92 * covariance[0, 1] / covariance[1, 1])
    assert result.variance_ratio == pytest.approx(1 - 0.92 * result.correlation**2)


def test_oracle_lambda_s_error_is_that_of_repeated_samples() -> None:
    generator = torch.Generator().manual_seed(0)
    h = torch.rand(400, 500, generator=generator, dtype=torch.float64)
    noise = torch.randn(400, 500, generator=generator, dtype=torch.float64)
    loss = 2 * h + h.square() * noise  # of a variance that grows with H
    found = [oracle_lambda(*sample, n_labelled=40) for sample in zip(loss, h, strict=True)]
    spread = np.std([result.lam for result in found])
    assert np.mean([result.standard_error for result in found]) == pytest.approx(spread, rel=0.15)


def test_oracle_lambda_of_a_constant_term_is_zero_without_error() -> None:
    result = oracle_lambda([0.1, 0.5, 0.9], [0.2, 0.2, 0.2], n_labelled=1)
    assert result == (0.0, 0.0, 1.0, 0.0)


def test_the_interval_holds_its_share(population) -> None:
    loss, h = population
    result = risk_over_lambda(loss, h, [1.0], n_labelled=3, splits=500, share=0.5)
    inside = (result.debiased >= result.debiased_low) & (result.debiased <= result.debiased_high)
    assert inside.double().mean().item() == pytest.approx(0.5, abs=0.05)


def test_errors_say_what_to_do(population) -> None:
    loss, h = population
    with pytest.raises(ValueError, match=r"loss and h .*rows; got 8 and 7"):
        risk_over_lambda(loss, h[:7], LAMS, n_labelled=3)
    with pytest.raises(ValueError, match=r"share must lie in \(0, 1\); got 1.5"):
        risk_over_lambda(loss, h, LAMS, n_labelled=3, share=1.5)
    with pytest.raises(ValueError, match="n_labelled must be between 1 and 7; got 40"):
        oracle_lambda(loss, h)
