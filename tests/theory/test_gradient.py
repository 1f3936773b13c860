"""λ_opt of the gradient: per-sample gradients, the last-layer closed form, simulation."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from dessl.functional import cross_entropy, entropy, pseudo_label
from dessl.theory import (
    logit_gradients,
    optimal_lambda,
    optimal_lambda_gradient,
    optimal_lambda_last_layer,
)


def labelled_rows(n: int, seed: int = 0) -> tuple[nn.Linear, Tensor, Tensor]:
    torch.manual_seed(seed)
    layer = nn.Linear(5, 3).double()
    features = torch.randn(n, 5, dtype=torch.float64)
    y = (3 * features[:, 0] * features[:, 1]).sigmoid().mul(3).long()  # no linear layer's law
    return layer, features, y


def per_sample_gradients(layer: nn.Linear, features: Tensor, term: Callable[..., Tensor]) -> Tensor:
    """∇ of each row's term by one backward pass a row: the slow, independent way."""
    rows = []
    for index in range(len(features)):
        value = term(layer(features[index : index + 1]), index).sum()
        rows.append(
            torch.cat([g.flatten() for g in torch.autograd.grad(value, layer.parameters())])
        )
    return torch.stack(rows)


def test_the_last_layer_needs_no_per_sample_pass() -> None:
    layer, features, y = labelled_rows(40)
    g_loss = per_sample_gradients(layer, features, lambda z, i: cross_entropy(z, y[i : i + 1]))
    g_h = per_sample_gradients(layer, features, lambda z, _: entropy(z))
    logits = layer(features)
    d_loss = logit_gradients(lambda z: cross_entropy(z, y), logits)
    d_h = logit_gradients(entropy, logits)
    for settings in ({}, {"shrink": None}, {"on": "all"}, {"shrink": "lower_bound"}):
        slow = optimal_lambda_gradient(g_loss, g_h, 160, **settings)
        fast = optimal_lambda_last_layer(features, d_loss, d_h, 160, **settings)
        assert fast[:4] == pytest.approx(slow[:4], rel=1e-9)
        assert fast.range == pytest.approx(slow.range, rel=1e-9)
    no_bias = g_loss[:, :15], g_h[:, :15]
    slow = optimal_lambda_gradient(*no_bias, 160)
    fast = optimal_lambda_last_layer(features, d_loss, d_h, 160, bias=False)
    assert fast.lam == pytest.approx(slow.lam, rel=1e-9)


def test_one_parameter_is_the_scalar_case() -> None:
    loss, h = torch.randn(2, 30, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    loss = loss + h
    vector = optimal_lambda_gradient(loss[:, None], h[:, None], 50, shrink=None)
    scalar = optimal_lambda(loss, h, torch.zeros(50), shrink=None)
    assert vector.lam == pytest.approx(scalar.lam)
    assert vector.correlation == pytest.approx(scalar.correlation)
    assert vector.variance_ratio == pytest.approx(scalar.variance_ratio)


def test_the_estimate_minimises_the_simulated_gradient_variance() -> None:
    layer, features, y = labelled_rows(4000, seed=2)
    logits = layer(features)
    d_loss, d_h = (
        logit_gradients(lambda z: cross_entropy(z, y), logits),
        logit_gradients(entropy, logits),
    )
    g_loss = torch.einsum("nk,nd->nkd", d_loss, features).flatten(1)
    g_h = torch.einsum("nk,nd->nkd", d_h, features).flatten(1)
    estimate = optimal_lambda_gradient(g_loss, g_h, 60 * 4000 // 20, shrink=None)
    generator = torch.Generator().manual_seed(3)

    def trace(lam: float) -> float:
        generator.manual_seed(3)
        draws = []
        for _ in range(2000):
            rows = torch.randperm(4000, generator=generator)[:80]
            labelled, unlabelled = rows[:20], rows[20:]
            draws.append(
                g_loss[labelled].mean(0) + lam * (g_h[unlabelled].mean(0) - g_h[labelled].mean(0))
            )
        return float(torch.stack(draws).var(0).sum())

    # n_u/n is .75 both in the estimate and in the draws.
    assert trace(estimate.lam) < min(trace(estimate.lam - 0.5), trace(estimate.lam + 0.5))
    ratio = trace(estimate.lam) / trace(0.0)
    assert ratio == pytest.approx(estimate.variance_ratio, rel=0.06)
    assert trace(2 * estimate.lam) == pytest.approx(trace(0.0), rel=0.06)


def test_the_standard_error_is_the_spread_over_data_sets() -> None:
    generator = torch.Generator().manual_seed(4)
    estimates = []
    for _ in range(600):
        g_h = torch.randn(100, 6, generator=generator, dtype=torch.float64)
        g_loss = 0.6 * g_h + torch.randn(100, 6, generator=generator, dtype=torch.float64)
        estimates.append(optimal_lambda_gradient(g_loss, g_h, 300, shrink=None))
    spread = torch.tensor([estimate.lam for estimate in estimates]).std()
    claimed = torch.tensor([estimate.standard_error for estimate in estimates]).mean()
    assert float(claimed) == pytest.approx(float(spread), rel=0.1)


def test_logit_gradients_are_those_of_autograd_row_by_row() -> None:
    logits = torch.randn(4, 3, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    ours = logit_gradients(entropy, logits)
    for row, gradient in zip(logits, ours, strict=True):
        leaf = row.clone().requires_grad_()
        entropy(leaf.unsqueeze(0)).sum().backward()
        torch.testing.assert_close(gradient, leaf.grad)
    assert not logits.requires_grad


def test_logits_of_inference_mode_have_gradients_too() -> None:
    with torch.inference_mode():
        logits = torch.tensor([[1.0, 0.0, -1.0]])
    torch.testing.assert_close(
        logit_gradients(entropy, logits), torch.tensor([[-0.28258745, 0.14077036, 0.14181709]])
    )


def test_a_gradient_that_does_not_vary_says_nothing() -> None:
    g_loss = torch.randn(5, 2, generator=torch.Generator().manual_seed(6))
    estimate = optimal_lambda_gradient(g_loss, torch.ones(5, 2), 10)
    assert (estimate.lam, estimate.variance_ratio) == (0.0, 1.0)


@pytest.mark.parametrize("seed", range(8))
def test_a_last_layer_gradient_that_does_not_vary_says_nothing(seed: int) -> None:
    """Rounding of the mean outer product must not stand in for a variance."""
    generator = torch.Generator().manual_seed(seed)
    features, d_h = torch.rand(2, 1, 7, generator=generator, dtype=torch.float64).expand(2, 50, 7)
    d_loss = torch.randn(50, 7, generator=generator, dtype=torch.float64)
    estimate = optimal_lambda_last_layer(features, d_loss, d_h, 10, shrink=None)
    assert (estimate.lam, estimate.standard_error) == (0.0, float("inf"))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: optimal_lambda_gradient(torch.ones(4, 2), torch.ones(4, 3), 9),
            "same rows and param",
        ),
        (
            lambda: optimal_lambda_gradient(torch.ones(2, 2), torch.ones(2, 2), 9),
            "at least 3 labelled",
        ),
        (lambda: optimal_lambda_gradient(torch.ones(4), torch.ones(4), 9), "must have 2 dimension"),
        (
            lambda: optimal_lambda_last_layer(
                torch.ones(3, 5), torch.ones(4, 2), torch.ones(4, 2), 9
            ),
            "rows and classes; got \\(3, 5\\), \\(4, 2\\) and \\(4, 2\\)",
        ),
        (
            lambda: logit_gradients(lambda z: entropy(z).mean(), torch.ones(4, 2)),
            r"per_sample\(logits\) .*one value for each sample",
        ),
        (
            lambda: logit_gradients(lambda z: z.sum(0), torch.ones(4, 2)),
            r"per_sample\(logits\) and logits .*rows; got 2 and 4",
        ),
    ],
)
def test_bad_input_is_refused_with_a_remedy(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


class Population:
    """Every (x, y) of a small population with its probability, and a model of another temperature.

    The labels follow q = softmax(Wφ); the model has p = softmax(Wφ/t): it is calibrated at t = 1,
    overconfident below and underconfident above. Sums over all pairs are exact.
    """

    def __init__(self, temperature: float, sharpness: float = 1.5) -> None:
        generator = torch.Generator().manual_seed(4)
        self.features = torch.randn(40, 4, generator=generator, dtype=torch.float64)
        truth = sharpness * torch.randn(3, 4, generator=generator, dtype=torch.float64)
        self.q = (self.features @ truth.T).softmax(-1)
        self.layer = nn.Linear(4, 3, bias=False).double()
        with torch.no_grad():
            self.layer.weight.copy_(truth / temperature)

    def gradients(self, term: Callable[..., Tensor]) -> Tensor:
        """∇ of a term (logits, class) of every pair, (40 × 3, parameters)."""
        pairs = [(row, label) for row in range(40) for label in range(3)]
        found = []
        for row, label in pairs:
            value = term(self.layer(self.features[row : row + 1]), torch.tensor([label])).sum()
            found.append(torch.autograd.grad(value, self.layer.weight)[0].flatten())
        return torch.stack(found)

    def lam_and_correlation(self, h: Callable[[Tensor], Tensor]) -> tuple[float, float]:
        """Cov(∇L, ∇H)/V(∇H), which is λ_opt for n_u ≫ n_l, and the correlation."""
        weights = self.q.flatten()[:, None] / 40
        pair = self.gradients(cross_entropy), self.gradients(lambda z, _: h(z))
        loss, term = (g - (weights * g).sum(0) for g in pair)
        covariance = (weights * loss * term).sum().item()
        spread = [(weights * g.square()).sum().item() for g in (loss, term)]
        return covariance / spread[1], covariance / (spread[0] * spread[1]) ** 0.5

    def slope_of_the_risk(self, h: Callable[[Tensor], Tensor]) -> float:
        """Cov(L, H)/V(H)."""
        logits = self.layer(self.features).detach()
        expected_loss = -(self.q * logits.log_softmax(-1)).sum(-1)
        values = h(logits)
        values = values - values.mean()
        return ((expected_loss * values).mean() / values.square().mean()).item()


def some_term(logits: Tensor) -> Tensor:
    return logits.sin().sum(-1) + logits[:, 0] * logits[:, 1]


@pytest.mark.parametrize("h", [entropy, pseudo_label, some_term])
def test_a_calibrated_model_has_nothing_to_gain(h: Callable[[Tensor], Tensor]) -> None:
    """E[∇L | x] = Σ_y q (p − e_y) φᵀ = 0, so no function of x correlates with ∇L."""
    lam, correlation = Population(1.0).lam_and_correlation(h)
    assert abs(lam) < 1e-12
    assert abs(correlation) < 1e-12


@pytest.mark.parametrize("h", [entropy, pseudo_label])
def test_confidence_decides_the_sign_of_lambda(h: Callable[[Tensor], Tensor]) -> None:
    temperatures = (0.25, 0.5, 0.8, 1.25, 2.0)
    found = [Population(t).lam_and_correlation(h)[0] for t in temperatures]
    assert all(lam < 0 for lam in found[:3])  # overconfident
    assert all(lam > 0 for lam in found[3:])  # underconfident


@pytest.mark.parametrize(("sharpness", "grows"), [(10.0, True), (0.5, False)])
def test_the_slope_of_the_risk_with_overconfidence(sharpness: float, grows: bool) -> None:
    """It is 1 where the model is calibrated: E[L | x] is the entropy.

    Labels that x nearly determines let it grow with overconfidence, noisy labels let it fall.
    """
    overconfident, calibrated, underconfident = (
        Population(t, sharpness).slope_of_the_risk(entropy) for t in (0.5, 1.0, 2.0)
    )
    assert calibrated == pytest.approx(1)
    ordered = (
        (overconfident > 1 > underconfident) if grows else (overconfident < 1 < underconfident)
    )
    assert ordered


def test_on_memorised_rows_pseudo_labels_are_the_labels() -> None:
    """y = arg max p on every row: ∇L = ∇H, λ = n_u/n and the variance falls to n_l/n."""
    layer, features, _ = labelled_rows(40)
    logits = layer(features)
    d_loss = logit_gradients(lambda z: cross_entropy(z, logits.argmax(-1)), logits)
    d_h = logit_gradients(pseudo_label, logits)
    found = optimal_lambda_last_layer(features, d_loss, d_h, 120, shrink=None)
    assert found.lam == pytest.approx(0.75)
    assert found.variance_ratio == pytest.approx(0.25)
