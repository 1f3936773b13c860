"""SoftMatch's weights and moments against NumPy, its H against loops."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import softmax
from torch import Tensor, nn

from dessl.surrogates import Rows, Scores, SoftMatch

MODEL = nn.Linear(1, 1)
LOGITS = 2 * torch.randn(50, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def weak(x: Tensor, generator: torch.Generator) -> Tensor:
    return x[:, :3]


def strong(x: Tensor, generator: torch.Generator) -> Tensor:
    return x[:, 3:]


class Transcribed:
    """SoftMatch's state in NumPy."""

    def __init__(self, prior: list[float], momentum: float) -> None:
        n_classes = len(prior)
        self.momentum, self.prior = momentum, prior
        self.mu, self.variance = 1 / n_classes, 1.0
        self.mean = np.full(n_classes, 1 / n_classes)

    def confidence(self, p: np.ndarray) -> float:
        aligned = [p[k] * self.prior[k] / self.mean[k] for k in range(len(p))]
        return max(aligned) / sum(aligned)

    def step(self, p: np.ndarray) -> None:
        c = np.array([self.confidence(row) for row in p])
        m = self.momentum
        self.mu = m * self.mu + (1 - m) * c.mean()
        self.variance = m * self.variance + (1 - m) * c.var(ddof=1)
        self.mean = m * self.mean + (1 - m) * p.mean(0)


@pytest.mark.parametrize("prior", [None, [0.7, 0.2, 0.1]])
@pytest.mark.parametrize("n_sigma", [1.0, 2.0])
def test_it_is_its_equation_step_after_step(n_sigma: float, prior: list[float] | None) -> None:
    softmatch = SoftMatch(0.6, prior=prior, n_sigma=n_sigma, weak=weak, strong=strong)
    softmatch.prepare(MODEL, 50, 3)
    state = Transcribed(prior or [1 / 3] * 3, 0.6)
    draws = torch.Generator().manual_seed(2)
    for _ in range(4):
        x = 2 * torch.randn(50, 6, generator=draws, dtype=torch.float64)
        x[:, 0] += 1  # one class is the commonest, so that alignment matters
        scores = softmatch(lambda x: x, Rows(x, torch.arange(50)))
        expected = []
        for z in x.numpy():
            below = min(state.confidence(softmax(z[:3])) - state.mu, 0.0)
            weight = math.exp(-(below**2) / (2 * state.variance / n_sigma**2))
            expected.append(weight * -math.log(softmax(z[3:])[z[:3].argmax()]))
        assert scores.h.tolist() == pytest.approx(expected, rel=1e-5)
        softmatch.after_step(MODEL, Rows(x, torch.arange(50)), scores)
        state.step(softmax(x[:, :3].numpy(), -1))
        assert softmatch.mu.item() == pytest.approx(state.mu, rel=1e-5)
        assert softmatch.variance.item() == pytest.approx(state.variance, rel=1e-5)
        assert softmatch.mean.tolist() == pytest.approx(state.mean.tolist(), rel=1e-5)


def test_a_confident_row_has_weight_one_and_labels_are_not_aligned() -> None:
    softmatch = SoftMatch(weak=weak, strong=strong)
    softmatch.prepare(MODEL, 1, 3)
    softmatch.mean.copy_(torch.tensor([0.8, 0.1, 0.1]))
    p = torch.tensor([[0.6, 0.3, 0.1, 0.2, 0.7, 0.1]], dtype=torch.float64)
    h = softmatch(lambda x: x, Rows(p.log(), torch.tensor([0]))).h
    # Aligned, class 1 has 3 / 4.75 > μ = ⅓; the label is still class 0, the arg-max of p.
    assert h.item() == pytest.approx(-math.log(0.2))


def test_with_the_classes_own_frequencies_no_class_is_favoured() -> None:
    """Predictions that follow the prior are not changed by alignment; a flat one favours rare."""
    p = torch.tensor([[0.55, 0.45]], dtype=torch.float64)
    confidences = []
    for prior in ([0.9, 0.1], None):
        softmatch = SoftMatch(prior=prior)
        softmatch.prepare(MODEL, 1, 2)
        softmatch.mean.copy_(torch.tensor([0.9, 0.1]))
        confidences.append(softmatch._confidence(p.log()).item())
    assert confidences == pytest.approx([0.55, 0.45 / 0.1 / (0.45 / 0.1 + 0.55 / 0.9)])


def test_a_prior_of_other_classes_is_refused() -> None:
    with pytest.raises(ValueError, match="one probability for each of the 3 classes; got 2"):
        SoftMatch(prior=[0.5, 0.5]).prepare(MODEL, 1, 3)


def test_equal_confidences_leave_a_weight() -> None:
    """With σ² = 0 the Gaussian is a step: rows at or above μ weigh 1, rows below it 0."""
    softmatch = SoftMatch(weak=weak, strong=strong)
    softmatch.prepare(MODEL, 2, 3)
    softmatch.variance.zero_()
    softmatch.mu.fill_(0.5)
    p = torch.tensor([[0.6, 0.3, 0.1, 0.2, 0.7, 0.1], [0.4, 0.3, 0.3, 0.2, 0.7, 0.1]])
    h = softmatch(lambda x: x, Rows(p.log(), torch.arange(2))).h
    assert h.tolist() == pytest.approx([-math.log(0.2), 0.0])


def test_a_class_that_is_never_predicted_does_not_end_the_run() -> None:
    """Its running mean underflows: float32 keeps 0.999ᵗ for 10⁵ steps, and momentum 0 for one."""
    softmatch = SoftMatch(0.0, weak=weak, strong=strong)
    softmatch.prepare(MODEL, 2, 3)
    rows = Rows(torch.tensor([[200.0, 1, 0, 0, 0, 0], [200, 0, 1, 0, 0, 0]]), torch.arange(2))
    softmatch.after_step(MODEL, rows, softmatch(lambda x: x, rows))
    assert softmatch.mean.tolist() == [1, 0, 0]
    assert torch.isfinite(softmatch(lambda x: x, rows).h).all()


def test_one_row_has_no_spread() -> None:
    softmatch = SoftMatch(0.5)
    softmatch.prepare(MODEL, 1, 2)
    logits = torch.tensor([[[0.9, 0.1]]]).log()
    rows = Rows(torch.zeros(1, 1), torch.tensor([0]))
    softmatch.after_step(MODEL, rows, Scores(torch.zeros(1), logits))
    assert softmatch.variance.item() == 0.5
    assert softmatch.mu.item() == pytest.approx(0.7)


@pytest.mark.parametrize("prior", [0.5, torch.tensor(0.5), "1"])
def test_a_prior_that_is_no_list_is_refused(prior: Any) -> None:
    with pytest.raises(TypeError, match=r"prior must be a list of numbers; got .* for each class"):
        SoftMatch(prior=prior)
    assert SoftMatch(prior=torch.tensor([0.5, 0.5])).prior == (0.5, 0.5)
