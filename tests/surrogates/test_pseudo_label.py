"""Pseudo-labels against loops in float64, their gradient, their bound."""

import math

import numpy as np
import pytest
import torch
from scipy.special import softmax
from torch import Tensor
from torch.nn import functional as F

from dessl.functional import renyi_entropy
from dessl.objective import objective
from dessl.surrogates import PseudoLabel, Rows, Scores

LOGITS = 3 * torch.randn(40, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def rows_of(x: Tensor) -> Rows:
    return Rows(x, torch.arange(len(x)))


def identity(x: Tensor) -> Tensor:
    return x


def transcribed(logits: Tensor, threshold: float, temperature: float) -> list[float]:
    values = []
    for z in logits.numpy():
        p = softmax(z)
        if p.max() <= threshold:
            values.append(0.0)
        elif temperature == 0:
            values.append(-math.log(p.max()))
        else:
            q = p ** (1 / temperature) / (p ** (1 / temperature)).sum()
            values.append(-sum(q[k] * math.log(p[k]) for k in range(len(p))))
    return values


@pytest.mark.parametrize("temperature", [0.0, 0.3, 0.8])
@pytest.mark.parametrize("threshold", [0.0, 0.7, 0.95, 1.0])
def test_it_is_its_equation(threshold: float, temperature: float) -> None:
    h = PseudoLabel(threshold, temperature=temperature)(identity, rows_of(LOGITS)).h
    expected = transcribed(LOGITS, threshold, temperature)
    assert h.tolist() == pytest.approx(expected, rel=1e-12, abs=1e-15)
    assert 0 < np.count_nonzero(expected) < 40 or threshold in (0.0, 1.0)


def test_the_hard_label_without_a_threshold_is_the_min_entropy() -> None:
    h = PseudoLabel(0.0)(identity, rows_of(LOGITS)).h
    torch.testing.assert_close(h, renyi_entropy(LOGITS, math.inf))


def test_the_gradient_takes_the_soft_label_as_fixed() -> None:
    logits = LOGITS.clone().requires_grad_()
    PseudoLabel(0.7, temperature=0.5)(identity, rows_of(logits)).h.sum().backward()
    p = softmax(LOGITS.numpy(), -1)
    q = p**2 / (p**2).sum(-1, keepdims=True)
    expected = np.where(p.max(-1, keepdims=True) > 0.7, p - q, 0.0)  # of a cross-entropy to q
    assert logits.grad is not None
    np.testing.assert_allclose(logits.grad.numpy(), expected, atol=1e-12)


def test_L_pairs_with_the_view_that_H_saw() -> None:
    scores = PseudoLabel(view=lambda x, generator: x + 1)(identity, rows_of(LOGITS))
    assert torch.equal(scores.logits, (LOGITS + 1)[None])


def test_images_come_to_the_model_as_levels_between_0_and_1() -> None:
    images = torch.randint(256, (3, 1, 2, 2), dtype=torch.uint8)
    scores = PseudoLabel()(lambda x: x.flatten(1), rows_of(images))
    torch.testing.assert_close(scores.logits[0], images.flatten(1) / 255)


def test_one_logit_stands_for_two() -> None:
    z = LOGITS[:, :1]
    both = torch.cat([torch.zeros_like(z), z], -1)
    for temperature in (0.0, 0.5):
        surrogate = PseudoLabel(0.8, temperature=temperature)
        one, two = surrogate(identity, rows_of(z)).h, surrogate(identity, rows_of(both)).h
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("temperature", [0.0, 0.5])
@pytest.mark.parametrize("scale", [1.0, 1e2, 1e4])
def test_the_debiased_risk_is_bounded_for_every_lambda(scale: float, temperature: float) -> None:
    surrogate = PseudoLabel(0.0, temperature=temperature)
    assert surrogate.bounded_up_to == math.inf
    z = scale * LOGITS
    h = surrogate(identity, rows_of(z)).h
    for y in range(4):
        loss = F.cross_entropy(z, torch.full((40,), y), reduction="none")
        assert (loss - 100 * h >= -100 * math.log(4)).all()


def test_a_temperature_of_one_is_refused() -> None:
    with pytest.raises(ValueError, match=r"temperature must lie in \[0, 1\); got 1"):
        PseudoLabel(temperature=1.0)


@pytest.mark.parametrize("temperature", [0.0, 0.5])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_logit_that_is_not_finite_is_not_masked(bad: float, temperature: float) -> None:
    """Masked, H was 0 and the risk finite, with a gradient of NaN."""
    logits = torch.tensor([[3.0, 0.0], [bad, 0.0]])
    term = PseudoLabel(0.5, temperature=temperature)
    h, seen = term(lambda x: x, Rows(logits, torch.arange(2)))
    assert h.isnan().tolist() == [False, True]
    with pytest.raises(ValueError, match="h_unlabelled must be finite"):
        objective(Scores(h, seen), torch.tensor([0]))
