import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression

from dessl import debiased_risk
from dessl.evaluation.debiased.fit import cross_fitted, fitted, steepest, with_curve
from dessl.evaluation.debiased.proxies import METRICS, Proxies, Sample, sampled
from dessl.theory import optimal_lambda


def sample_of(loss, h, h_unlabelled) -> Sample:
    def proxies(values: torch.Tensor) -> Proxies:
        return Proxies(values, torch.stack([values, values**2, values**3]))

    return Sample(loss, proxies(h), proxies(h_unlabelled))


@pytest.fixture
def sample() -> Sample:
    generator = torch.Generator().manual_seed(0)
    h = torch.rand(30, generator=generator, dtype=torch.float64)
    loss = 0.7 * h + 0.2 * torch.rand(30, generator=generator, dtype=torch.float64)
    return sample_of(loss, h, torch.rand(400, generator=generator, dtype=torch.float64))


def test_the_value_is_the_debiased_risk_at_the_theorys_lambda(sample: Sample) -> None:
    fit = fitted(sample)
    h, h_u = sample.labelled.h, sample.unlabelled.h
    assert 0 < fit.lam < 1
    assert fit.lam == optimal_lambda(sample.loss, h, h_u).lam
    assert fit.value == pytest.approx(debiased_risk(sample.loss, h, h_u, fit.lam).value.item())


def test_variances_written_out(sample: Sample) -> None:
    fit = fitted(sample)
    loss, h, h_u = (v.numpy() for v in (sample.loss, sample.labelled.h, sample.unlabelled.h))
    design = np.stack([np.ones(30), h], axis=1)
    hat = np.diag(design @ np.linalg.inv(design.T @ design) @ design.T)
    np.testing.assert_allclose(fit.leverage.numpy(), hat)
    r = loss - fit.lam * h
    r = r - r.mean()
    assert fit.row_variance == pytest.approx((r**2).sum() / 28)
    assert fit.leverage_variance == pytest.approx((r**2 / (1 - hat)).mean())
    extra = fit.lam**2 * np.concatenate([h, h_u]).var(ddof=1) / 400
    assert fit.standard_error(0.3) == pytest.approx(np.sqrt(0.3 / 30 + extra))


def test_without_lambda_it_is_the_mean_of_the_labelled_rows(sample: Sample) -> None:
    fit = fitted(sample, lam=0.0)
    assert fit.value == sample.loss.mean().item()
    assert fit.degrees == 29
    assert fit.row_variance == pytest.approx(sample.loss.var().item())
    assert fit.leverage_variance == pytest.approx(sample.loss.var().item())
    assert fit.unlabelled_variance == 0


def test_lambda_stays_between_none_and_all(sample: Sample) -> None:
    steep = sample_of(5 * sample.labelled.h, sample.labelled.h, sample.unlabelled.h)
    falling = sample_of(-sample.labelled.h, sample.labelled.h, sample.unlabelled.h)
    assert fitted(steep).lam == 1.0
    assert fitted(falling).lam == 0.0


@pytest.fixture
def timid() -> Sample:
    """Hits of a model that gives 0.6 where it is nearly always right and 0.5 where it guesses."""
    generator = torch.Generator().manual_seed(0)

    def drawn(n: int) -> torch.Tensor:
        jitter = 0.01 * torch.rand(n, generator=generator, dtype=torch.float64)
        return torch.where(torch.rand(n, generator=generator) < 0.7, 0.6, 0.5) + jitter

    h = drawn(300)
    right = torch.where(h > 0.55, 0.98, 0.4)
    hits = (torch.rand(300, generator=generator) < right).double()
    return sample_of(hits, h, drawn(2000))


def test_the_steepest_line_is_the_slopes_lower_bound_with_the_error_hc3(timid: Sample) -> None:
    loss, h = timid.loss.numpy(), timid.labelled.h.numpy()
    design = np.stack([np.ones(300), h], axis=1)
    inverse = np.linalg.inv(design.T @ design)
    slope = LinearRegression().fit(h[:, None], loss).coef_[0]
    left_out = (loss - design @ inverse @ design.T @ loss) / (
        1 - np.diag(design @ inverse @ design.T)
    )
    sandwich = inverse @ (design.T * left_out**2) @ design @ inverse
    pooled = h.var(ddof=1) / np.concatenate([h, timid.unlabelled.h.numpy()]).var(ddof=1)
    bound = 2000 / 2300 * min(1, pooled) * (slope - 1.645 * np.sqrt(sandwich[1, 1]))
    assert bound > 2
    assert steepest(timid) == pytest.approx(bound)
    assert fitted(timid, most=steepest(timid)).lam == steepest(timid)


def test_no_steep_line_leads_to_where_no_labelled_row_lies(timid: Sample) -> None:
    """One unlabelled row in fifty is of a kind that the labelled ones do not show."""
    beyond = timid.unlabelled.h.clone()
    beyond[::50] = 1.0
    assert steepest(timid) > 2
    assert steepest(sample_of(timid.loss, timid.labelled.h, beyond)) < 0.5 * steepest(timid)


def test_no_line_is_steeper_than_one_before_enough_rows_were_seen_off_it(timid: Sample) -> None:
    def among(hits: list[float]) -> Sample:
        sure = [0.6] * (40 - len(hits))
        h = torch.tensor([0.5] * len(hits) + sure, dtype=torch.float64)
        loss = torch.tensor(hits + [1.0] * len(sure), dtype=torch.float64)
        return sample_of(loss, h, timid.unlabelled.h)

    assert steepest(among([0.0, 0.0])) == 1.0  # both misses are on the line
    assert steepest(among([0.0] * 12 + [1.0] * 3)) == 1.0  # Σr² = 12·3/15
    assert steepest(among([0.0] * 12 + [1.0] * 5)) > 1.0  # Σr² = 12·5/17


def test_a_model_that_is_not_too_timid_has_no_steeper_line(timid: Sample) -> None:
    h, loss = timid.labelled.h, timid.loss
    flat = torch.full_like(h, 0.6)
    calibrated = torch.where(h > 0.55, 0.98, 0.4).double()
    for beliefs in (flat, calibrated, 1 - h):
        assert steepest(sample_of(loss, beliefs, timid.unlabelled.h)) == 1.0
    assert steepest(sample_of(loss, h, h[:0])) == 1.0  # nothing to correct by


def test_a_constant_proxy_helps_nobody(sample: Sample) -> None:
    flat = sample_of(sample.loss, torch.ones_like(sample.loss), sample.unlabelled.h)
    fit = fitted(flat)
    assert (fit.lam, fit.value) == (0.0, sample.loss.mean().item())


@pytest.fixture
def curved(sample: Sample) -> Sample:
    """Losses that grow ever faster with H."""
    h = sample.labelled.h
    return sample_of(sample.loss + 0.8 * h**2 - 0.7 * h, h, sample.unlabelled.h)


def test_a_bend_written_out(curved: Sample) -> None:
    loss, h, h_u = (v.numpy() for v in (curved.loss, curved.labelled.h, curved.unlabelled.h))
    straight = fitted(curved)
    every = np.concatenate([h, h_u])
    line = np.polynomial.Polynomial.fit(every, every**2, 1)
    g, g_u = h**2 - line(h), h_u**2 - line(h_u)
    rest = loss - straight.lam * h
    mu, constant = np.polyfit(g, rest, 1)
    error = ((rest - constant - mu * g) ** 2).sum() / 28 / ((g - g.mean()) ** 2).sum()
    mu *= max(0, 1 - error / mu**2) * 400 / 430
    beliefs = straight.lam * every + mu * np.concatenate([g, g_u])
    r = loss - beliefs[:30]
    fit = with_curve(curved, straight)
    assert mu > 0
    assert (fit.lam, fit.bend) == pytest.approx((straight.lam, mu))
    assert fit.value == pytest.approx(r.mean() + beliefs[30:].mean())
    assert fit.row_variance == pytest.approx(((r - r.mean()) ** 2).sum() / 27)
    assert fit.unlabelled_variance == pytest.approx(beliefs.var(ddof=1) / 400)
    design = np.stack([np.ones(30), h, h**2], axis=1)
    hat = np.diag(design @ np.linalg.inv(design.T @ design) @ design.T)
    np.testing.assert_allclose(fit.leverage.numpy(), hat)


def test_left_out_variance_is_that_of_rows_left_out(curved: Sample) -> None:
    loss, h = curved.loss.numpy(), curved.labelled.h.numpy()
    left_out = np.empty(30)
    for i in range(30):
        others = np.arange(30) != i
        left_out[i] = loss[i] - np.polyval(np.polyfit(h[others], loss[others], 2), h[i])
    least_squares = torch.from_numpy(loss - np.polyval(np.polyfit(h, loss, 2), h))
    fit = with_curve(curved, fitted(curved))._replace(residuals=least_squares)
    assert fit.left_out_variance == pytest.approx((left_out**2).mean())


def test_nothing_to_bend_by(sample: Sample) -> None:
    unhelpful = fitted(sample, lam=0.0)
    assert with_curve(sample, unhelpful) is unhelpful
    two = (sample.labelled.h > 0.5).double(), (sample.unlabelled.h > 0.5).double()
    steps = sample_of(sample.loss, *(0.3 + 0.1 * h for h in two))
    straight = fitted(steps)
    assert straight.lam > 0
    assert with_curve(steps, straight) is straight
    few = sample_of(sample.loss[:3], sample.labelled.h[:3], sample.unlabelled.h)
    straight = fitted(few)
    assert straight.lam > 0
    assert with_curve(few, straight) is straight


def test_cross_fitting_written_out(sample: Sample) -> None:
    loss, h, h_u = (v.numpy() for v in (sample.loss, sample.labelled.h, sample.unlabelled.h))
    rows = np.empty(30)
    for i in range(30):
        others = [j for j in range(30) if j % 5 != i % 5]
        line = LinearRegression().fit(h[others][:, None], loss[others])
        rest = loss[others] - line.predict(h[others][:, None])
        spread = ((h[others] - h[others].mean()) ** 2).sum()
        b, error = line.coef_[0], (rest**2).sum() / 22 / spread
        lam = b * max(0, 1 - error / b**2) * 400 / 424
        rows[i] = loss[i] + min(1, max(0, lam)) * (h_u.mean() - h[i])
    fit = cross_fitted(sample)
    assert fit.value == pytest.approx(rows.mean())
    assert fit.row_variance == pytest.approx(rows.var(ddof=1))


def test_cross_fitting_needs_rows(predictions) -> None:
    p, y = predictions(n=5)
    sample = sampled(METRICS["brier"], (p,), y, (p,))
    with pytest.raises(ValueError, match=r"6 labelled rows; got 5.*method='score'"):
        cross_fitted(sample)
