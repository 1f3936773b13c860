"""ReMixMatch against loops in float64, its running mean by hand, its bound."""

import math

import numpy as np
import pytest
import torch
from scipy.special import softmax
from torch import Tensor, nn

from dessl.augment import mixup
from dessl.functional import cross_entropy
from dessl.surrogates import ReMixMatch, Rows, Scores

N, CLASSES = 7, 3
X = torch.randn(N, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
ROWS = Rows(X, torch.arange(N))
WEIGHTS = 2 * torch.randn(4, CLASSES, generator=torch.Generator().manual_seed(2)).double()
PRIOR = (0.5, 0.3, 0.2)
RUNNING = (0.2, 0.2, 0.6)


def model(x: Tensor) -> Tensor:
    return x.tanh() @ WEIGHTS


def probabilities(x: np.ndarray) -> np.ndarray:
    return softmax(np.tanh(x) @ WEIGHTS.numpy())


def weak(x: Tensor, generator: torch.Generator) -> Tensor:
    return x + 0.1


def strong(x: Tensor, generator: torch.Generator) -> Tensor:
    return x + torch.rand(len(x), 1, generator=generator, dtype=x.dtype)


def cross_entropy_between(q: np.ndarray, p: np.ndarray) -> float:
    return -sum(q[k] * math.log(p[k]) for k in range(CLASSES))


def transcribed(strong_views: int, temperature: float, unmixed: float, seed: int) -> list[float]:
    draws = torch.Generator().manual_seed(seed)
    shown = [(X + 0.1).numpy(), *(strong(X, draws).numpy() for _ in range(strong_views))]
    drawn = mixup(torch.zeros(len(shown) * N, 1), 0.75, draws)
    guesses = []
    for row in range(N):
        q = probabilities(shown[0][row]) * np.array(PRIOR) / np.array(RUNNING)
        q = (q / q.sum()) ** (1 / temperature)
        guesses.append(q / q.sum())
    h = [unmixed * cross_entropy_between(guesses[i], probabilities(shown[1][i])) for i in range(N)]
    for place in range(len(shown) * N):
        row, partner = place % N, int(drawn.partner[place])
        w = max(float(drawn.lam[place]), 1 - float(drawn.lam[place]))
        x = w * shown[place // N][row] + (1 - w) * shown[partner // N][partner % N]
        q = w * guesses[row] + (1 - w) * guesses[partner % N]
        h[row] += cross_entropy_between(q, probabilities(x)) / len(shown)
    return h


@pytest.mark.parametrize("strong_views", [1, 2, 4])
def test_it_is_its_equation(strong_views: int) -> None:
    remixmatch = ReMixMatch(PRIOR, augmentations=strong_views, weak=weak, strong=strong, seed=5)
    remixmatch.prepare(nn.Linear(1, 1), N, CLASSES)
    remixmatch.mean.copy_(torch.tensor(RUNNING))
    h = remixmatch(model, ROWS).h
    assert h.tolist() == pytest.approx(transcribed(strong_views, 0.5, 1 / 3, seed=5), rel=1e-6)


def test_the_running_mean_follows_the_weak_views() -> None:
    remixmatch = ReMixMatch(momentum=0.75)
    remixmatch.prepare(nn.Linear(1, 1), 2, 2)
    logits = torch.tensor([[[0.9, 0.1], [0.7, 0.3]], [[0.5, 0.5], [0.5, 0.5]]]).log()
    rows = Rows(torch.zeros(2, 1), torch.arange(2))
    remixmatch.after_step(nn.Linear(1, 1), rows, Scores(torch.zeros(2), logits))
    assert remixmatch.mean.tolist() == pytest.approx([0.75 * 0.5 + 0.25 * 0.8, 0.425])
    remixmatch.after_step(nn.Linear(1, 1), rows, Scores(torch.zeros(2), logits))
    assert remixmatch.mean.tolist() == pytest.approx([0.75 * 0.575 + 0.25 * 0.8, 0.36875])


def test_the_prior_is_flat_if_not_given() -> None:
    given, default = (ReMixMatch(prior, weak=weak) for prior in ((1 / 3,) * 3, None))
    for remixmatch in (given, default):
        remixmatch.prepare(nn.Linear(1, 1), N, CLASSES)
    assert torch.equal(given(model, ROWS).h, default(model, ROWS).h)


def test_L_pairs_with_two_views_and_targets_have_no_gradient() -> None:
    remixmatch = ReMixMatch(weak=weak, strong=strong, unmixed=0.25)
    remixmatch.prepare(nn.Linear(1, 1), N, CLASSES)
    seen: list[Tensor] = []

    def watched(x: Tensor) -> Tensor:
        seen.append((x.tanh() @ WEIGHTS).requires_grad_())
        return seen[-1]

    scores = remixmatch(watched, ROWS)
    assert torch.equal(scores.logits, seen[0].view(2, N, CLASSES))
    gradient, mixed = torch.autograd.grad(scores.h.sum(), seen)
    of_weak, of_strong = gradient.chunk(2)
    assert (of_weak == 0).all()
    p = softmax(seen[0].detach().numpy(), -1)
    q = p[:N] ** 2 / (p[:N] ** 2).sum(-1, keepdims=True)  # T = ½, nothing to align
    np.testing.assert_allclose(of_strong.numpy(), 0.25 * (p[N:] - q), atol=1e-12)
    assert mixed.abs().sum() > 0


def test_the_debiased_risk_is_unbounded() -> None:
    """The model is right and sure on all rows; between them, where only H looks, it runs off."""
    remixmatch = ReMixMatch(weak=lambda x, _: x, strong=lambda x, _: x)
    assert remixmatch.bounded_up_to == 0.0
    remixmatch.prepare(nn.Linear(1, 1), 20, 2)
    y = torch.arange(20) % 2
    rows = Rows(y[:, None].double(), torch.arange(20))

    def term(reach: float) -> float:
        def runaway(x: Tensor) -> Tensor:
            between = (x > 0) & (x < 1)
            log_odds = torch.where(between, reach, 20 * x - 10)
            return torch.cat([torch.zeros_like(x), log_odds], -1)

        h, logits = remixmatch(runaway, rows)
        losses = [cross_entropy(view, y) for view in logits]
        return (torch.stack(losses).mean() - 0.01 * h.mean()).item()

    values = [term(reach) for reach in (1e2, 1e4, 1e6)]
    assert values[0] > values[1] > values[2]
    assert values[2] < -1e2


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ((0.5, 0.6), "prior must sum to 1; got 1.1. Divide it by its sum"),
        ((1.0, 0.0), r"prior must lie in \(0, inf\]; got 0"),
    ],
)
def test_what_is_no_prior_is_refused(prior: tuple[float, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ReMixMatch(prior)


def test_a_prior_of_other_classes_is_refused() -> None:
    with pytest.raises(ValueError, match="each of the 3 classes; got 2"):
        ReMixMatch((0.5, 0.5)).prepare(nn.Linear(1, 1), N, CLASSES)
