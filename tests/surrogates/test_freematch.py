"""FreeMatch's thresholds against averages made by hand, and its H at them."""

import math

import numpy as np
import pytest
import torch
from scipy.special import softmax
from torch import Tensor, nn

from dessl.surrogates import FreeMatch, Rows, Scores

MODEL = nn.Linear(1, 1)
LOGITS = 2 * torch.randn(50, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def weak(x: Tensor, generator: torch.Generator) -> Tensor:
    return x[:, :3]


def strong(x: Tensor, generator: torch.Generator) -> Tensor:
    return x[:, 3:]


def step(freematch: FreeMatch, p: list[list[float]]) -> None:
    logits = torch.tensor(p).log().expand(2, -1, -1)
    rows = Rows(torch.zeros(len(p), 1), torch.arange(len(p)))
    freematch.after_step(MODEL, rows, Scores(torch.zeros(len(p)), logits))


def test_averages_follow_the_steps() -> None:
    freematch = FreeMatch(momentum=0.75)
    freematch.prepare(MODEL, 10, 4)
    assert freematch.confidence.item() == 0.25
    assert freematch.mean.tolist() == [0.25] * 4
    step(freematch, [[0.8, 0.1, 0.05, 0.05], [0.1, 0.4, 0.25, 0.25]])
    # ¾ · 0.25 + ¼ · (0.8 + 0.4) / 2; ¾ · 0.25 + ¼ · the mean of each column
    assert freematch.confidence.item() == pytest.approx(0.3375)
    assert freematch.mean.tolist() == pytest.approx([0.3, 0.25, 0.225, 0.225])
    step(freematch, [[0.0, 0.0, 1.0, 0.0]])
    assert freematch.confidence.item() == pytest.approx(0.75 * 0.3375 + 0.25)
    assert freematch.mean.tolist() == pytest.approx([0.225, 0.1875, 0.41875, 0.16875])


def test_H_is_fixmatch_at_the_adaptive_thresholds() -> None:
    freematch = FreeMatch(momentum=0.5, weak=weak, strong=strong)
    freematch.prepare(MODEL, 50, 3)
    step(freematch, [[0.98, 0.01, 0.01], [0.97, 0.02, 0.01], [0.1, 0.8, 0.1]])
    mean = np.array([1 / 3 + (0.98 + 0.97 + 0.1) / 3, 1 / 3 + 0.83 / 3, 1 / 3 + 0.12 / 3]) / 2
    confidence = (1 / 3 + (0.98 + 0.97 + 0.8) / 3) / 2
    thresholds = confidence * mean / mean.max()
    expected = []
    for z in LOGITS.numpy():
        p, k = softmax(z[:3]), z[:3].argmax()
        expected.append(-math.log(softmax(z[3:])[k]) if p[k] > thresholds[k] else 0.0)
    h = freematch(lambda x: x, Rows(LOGITS, torch.arange(50))).h
    assert h.tolist() == pytest.approx(expected, rel=1e-12)
    assert 0 < expected.count(0.0) < 50
