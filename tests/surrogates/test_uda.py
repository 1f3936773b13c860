"""UDA against loops in float64."""

import math

import pytest
import torch
from scipy.special import softmax

from dessl.surrogates import UDA, Rows

LOGITS = 2 * torch.randn(40, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("temperature", [0.4, 1.0])
@pytest.mark.parametrize("threshold", [0.0, 0.8])
def test_it_is_its_equation(threshold: float, temperature: float) -> None:
    uda = UDA(
        threshold,
        temperature=temperature,
        weak=lambda x, generator: x[:, :4],
        strong=lambda x, generator: x[:, 4:],
    )
    h = uda(lambda x: x, Rows(LOGITS, torch.arange(40))).h
    expected = []
    for z in LOGITS.numpy():
        weak, strong = softmax(z[:4]), softmax(z[4:])
        q = [p ** (1 / temperature) for p in weak]
        loss = -sum(q[k] / sum(q) * math.log(strong[k]) for k in range(4))
        expected.append(loss if max(weak) > threshold else 0.0)
    assert h.tolist() == pytest.approx(expected, rel=1e-12)
    assert threshold == 0.0 or 0 < expected.count(0.0) < 40


def test_a_temperature_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match=r"temperature must lie in \(0, inf\]; got 0"):
        UDA(temperature=0.0)
