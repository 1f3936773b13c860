"""Targets, each against its equation in loops, and without gradients."""

import math

import pytest
import torch
from torch import Tensor

from dessl.surrogates.targets import aligned, confident_labels, negative_log, sharpened


@pytest.fixture
def log_p() -> Tensor:
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(2, 5, 4, generator=generator, dtype=torch.float64)
    return logits.log_softmax(-1).requires_grad_()


def test_the_most_likely_class_and_its_probability(log_p: Tensor) -> None:
    confidence, label = confident_labels(log_p)
    assert confidence.shape == label.shape == (2, 5)
    for k, row in enumerate(log_p.flatten(0, 1).tolist()):
        assert label.flatten()[k] == row.index(max(row))
        assert float(confidence.flatten()[k]) == pytest.approx(math.exp(max(row)))
    assert not confidence.requires_grad


def test_minus_the_log_of_a_label_has_a_gradient(log_p: Tensor) -> None:
    label = torch.arange(10).view(2, 5) % 4
    found = negative_log(log_p, label)
    values = found.flatten().tolist()
    for k, row in enumerate(log_p.flatten(0, 1).tolist()):
        assert values[k] == -row[k % 4]
    (slope,) = torch.autograd.grad(found.sum(), log_p)
    assert torch.equal(slope, -torch.nn.functional.one_hot(label, 4).double())


@pytest.mark.parametrize("temperature", [0.1, 0.5, 1.0, 3.0])
def test_sharpening_is_a_power(log_p: Tensor, temperature: float) -> None:
    found = sharpened(log_p, temperature)
    assert not found.requires_grad
    for mine, row in zip(found.flatten(0, 1).tolist(), log_p.flatten(0, 1).tolist(), strict=True):
        powers = [math.exp(value) ** (1 / temperature) for value in row]
        assert mine == pytest.approx([value / sum(powers) for value in powers])


def test_alignment_weighs_by_the_prior_over_the_running_mean(log_p: Tensor) -> None:
    running = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    prior = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
    found = aligned(log_p, running, prior)
    assert not found.requires_grad
    for mine, row in zip(found.flatten(0, 1).tolist(), log_p.flatten(0, 1).tolist(), strict=True):
        weighed = [math.exp(value) * p / r for value, p, r in zip(row, prior, running, strict=True)]
        assert [math.exp(value) for value in mine] == pytest.approx(
            [float(value / sum(weighed)) for value in weighed]
        )
    same = aligned(log_p, running, running)
    torch.testing.assert_close(same, log_p.detach())


def test_a_class_that_was_never_predicted_is_no_nan() -> None:
    running, prior = torch.tensor([0.0, 1.0]), torch.tensor([0.5, 0.5])
    found = aligned(torch.tensor([[0.3, 0.7]]).log(), running, prior)
    assert torch.isfinite(found).all()
    assert float(found.exp()[0, 0]) == pytest.approx(1.0)
