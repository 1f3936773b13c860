"""MixMatch against loops in float64, with the draws of a generator of the same seed."""

import math

import numpy as np
import pytest
import torch
from scipy.special import softmax
from torch import Tensor, nn

from dessl.augment import mixup
from dessl.functional import cross_entropy
from dessl.surrogates import MixMatch, Rows
from dessl.surrogates.mixmatch import Distance, mostly_own

N, CLASSES = 7, 3
X = torch.randn(N, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
ROWS = Rows(X, torch.arange(N))
WEIGHTS = 2 * torch.randn(4, CLASSES, generator=torch.Generator().manual_seed(2)).double()


def model(x: Tensor) -> Tensor:
    return x.tanh() @ WEIGHTS


def probabilities(x: np.ndarray) -> np.ndarray:
    return softmax(np.tanh(x) @ WEIGHTS.numpy())


def shifted(x: Tensor, generator: torch.Generator) -> Tensor:
    return x + torch.rand(len(x), 1, generator=generator, dtype=x.dtype)


def transcribed(views: int, temperature: float, distance: Distance, seed: int) -> list[float]:
    draws = torch.Generator().manual_seed(seed)
    shown = [shifted(X, draws).numpy() for _ in range(views)]
    drawn = mixup(torch.zeros(views * N, 1), 0.75, draws)
    guesses = []
    for row in range(N):
        mean = sum(probabilities(view[row]) for view in shown) / views
        guesses.append(mean ** (1 / temperature) / (mean ** (1 / temperature)).sum())
    h = [0.0] * N
    for place in range(views * N):
        row, partner = place % N, int(drawn.partner[place])
        w = max(float(drawn.lam[place]), 1 - float(drawn.lam[place]))
        x = w * shown[place // N][row] + (1 - w) * shown[partner // N][partner % N]
        q = w * guesses[row] + (1 - w) * guesses[partner % N]
        p = probabilities(x)
        if distance == "squared":
            h[row] += sum((p[k] - q[k]) ** 2 for k in range(CLASSES)) / CLASSES / views
        else:
            h[row] += -sum(q[k] * math.log(p[k]) for k in range(CLASSES)) / views
    return h


@pytest.mark.parametrize("views", [1, 2, 3])
@pytest.mark.parametrize("distance", ["squared", "cross_entropy"])
def test_it_is_its_equation(distance: Distance, views: int) -> None:
    mixmatch = MixMatch(distance, augmentations=views, temperature=0.5, view=shifted, seed=5)
    h = mixmatch(model, ROWS).h
    expected = transcribed(views, 0.5, distance, seed=5)
    assert h.tolist() == pytest.approx(expected, rel=1e-6)


def test_L_pairs_with_the_unmixed_views_and_gives_H_no_gradient() -> None:
    seen: list[Tensor] = []

    def watched(x: Tensor) -> Tensor:
        seen.append((x.tanh() @ WEIGHTS).requires_grad_())
        return seen[-1]

    scores = MixMatch(view=shifted)(watched, ROWS)
    unmixed, mixed = seen
    assert torch.equal(scores.logits, unmixed.view(2, N, CLASSES))
    guess_path, mixed_path = torch.autograd.grad(
        scores.h.sum(), [unmixed, mixed], allow_unused=True
    )
    assert guess_path is None
    assert mixed_path.abs().sum() > 0


def test_partners_come_from_the_whole_batch() -> None:
    """A row's H depends on the other rows, wherever they stand: partners are drawn blindly."""
    changed = X.clone()
    changed[-1] += 5
    met = torch.zeros(N, dtype=torch.bool)
    for seed in range(30):
        h, other = (
            MixMatch(view=shifted, seed=seed)(model, Rows(x, ROWS.ids)).h for x in (X, changed)
        )
        met |= h != other
    assert met.all()


def test_a_row_weighs_more_than_its_partner() -> None:
    mixed = mostly_own(torch.eye(500), 0.75, torch.Generator().manual_seed(0))
    assert (mixed.lam >= 0.5).all()
    assert (mixed.x.diagonal() >= 0.5).all()
    torch.testing.assert_close(mixed.x.sum(1), torch.ones(500))
    drawn = mixup(torch.eye(500), 0.75, torch.Generator().manual_seed(0))
    assert torch.equal(mixed.partner, drawn.partner)


@pytest.mark.parametrize("scale", [1.0, 1e2, 1e4])
def test_squares_are_bounded(scale: float) -> None:
    mixmatch = MixMatch(view=shifted)
    assert mixmatch.bounded_up_to == math.inf
    assert (mixmatch(lambda x: scale * model(x), ROWS).h <= 2 / CLASSES).all()


def test_cross_entropies_are_unbounded() -> None:
    """The model is right and sure on all rows; between them, where only H looks, it runs off."""
    mixmatch = MixMatch("cross_entropy", view=lambda x, generator: x)
    assert mixmatch.bounded_up_to == 0.0
    y = torch.arange(20) % 2
    rows = Rows(y[:, None].double(), torch.arange(20))

    def term(reach: float) -> float:
        def runaway(x: Tensor) -> Tensor:
            between = (x > 0) & (x < 1)
            log_odds = torch.where(between, reach, 20 * x - 10)
            return torch.cat([torch.zeros_like(x), log_odds], -1)

        h, logits = mixmatch(runaway, rows)
        losses = [cross_entropy(view, y) for view in logits]
        return (torch.stack(losses).mean() - 0.01 * h.mean()).item()

    values = [term(reach) for reach in (1e2, 1e4, 1e6)]
    assert values[0] > values[1] > values[2]
    assert values[2] < -1e2


def test_mixed_rows_leave_no_trace_in_batch_norm() -> None:
    norm = nn.BatchNorm1d(4).double()
    MixMatch(view=shifted)(norm, ROWS)
    assert norm.num_batches_tracked == 1


def test_one_logit_stands_for_two() -> None:
    def one(x: Tensor) -> Tensor:
        return x[:, :1]

    def two(x: Tensor) -> Tensor:
        return torch.cat([torch.zeros_like(x[:, :1]), x[:, :1]], -1)

    h, other = (MixMatch(view=shifted)(kind, ROWS).h for kind in (one, two))
    torch.testing.assert_close(h, other)


def test_an_unknown_distance_is_refused() -> None:
    with pytest.raises(ValueError, match="distance must be one of 'squared', 'cross_entropy'"):
        MixMatch("cosine")  # type: ignore[arg-type]
