"""FixMatch against loops, and how FixMatch* fails when debiased: to −∞, unless bounded."""

import math
from typing import Any

import pytest
import torch
from scipy.special import softmax
from torch import Tensor, nn

from dessl.objective import objective
from dessl.surrogates import FixMatch, FixMatchStar, Rows, Surrogate
from dessl.surrogates.smooth import Smooth

LOGITS = 4 * torch.randn(40, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("kind", [FixMatch, FixMatchStar])
@pytest.mark.parametrize("threshold", [0.0, 0.8, 0.95])
def test_it_is_its_equation(kind: type[FixMatch], threshold: float) -> None:
    surrogate = kind(
        threshold,
        weak=lambda x, generator: x[:, :4],
        strong=lambda x, generator: x[:, 4:],
    )
    h = surrogate(lambda x: x, Rows(LOGITS, torch.arange(40))).h
    expected = []
    for z in LOGITS.numpy():
        weak, strong = softmax(z[:4]), softmax(z[4:])
        expected.append(-math.log(strong[weak.argmax()]) if max(weak) > threshold else 0.0)
    assert h.tolist() == pytest.approx(expected, rel=1e-12)
    assert threshold == 0.0 or 0 < expected.count(0.0) < 40


def test_images_have_views_of_their_own() -> None:
    images = torch.randint(256, (2, 3, 8, 8), dtype=torch.uint8)
    seen: list[Tensor] = []

    def model(x: Tensor) -> Tensor:
        seen.append(x)
        return x.flatten(1)[:, :5]

    FixMatch()(model, Rows(images, torch.arange(2)))
    weak, strong = seen[0].chunk(2)
    levels = (255 * weak).round().to(torch.uint8)
    assert set(levels.unique().tolist()) <= set(images.unique().tolist())  # moved, not changed
    torch.testing.assert_close(levels / 255, weak)
    assert not torch.equal(weak, strong)


def test_rows_without_a_strong_view_of_their_own_ask_for_one() -> None:
    rows = Rows(torch.ones(2, 3, dtype=torch.int64), torch.arange(2))
    with pytest.raises(TypeError, match="uint8 images and floats have default augmented views"):
        FixMatch()(lambda x: x.float(), rows)


N_LABELLED, N_ROWS, N_CLASSES = 5, 20, 3


def trained(surrogate: Surrogate, lam: float, steps: int = 400, **how: Any) -> list[float]:
    """Minimise the debiased risk over free logits of each row's two views; the risks on the way.

    Rows start with a confident, right weak view, as they have late in training.
    """
    y = torch.arange(N_ROWS) % N_CLASSES
    model = nn.Embedding(2 * N_ROWS, N_CLASSES)
    with torch.no_grad():
        model.weight.copy_(5 * nn.functional.one_hot(y, N_CLASSES).repeat(2, 1))
    rows = Rows(torch.arange(N_ROWS), torch.arange(N_ROWS))
    optimiser = torch.optim.SGD(model.parameters(), lr=3.0)
    risks = []
    for _ in range(steps):
        risk = objective(surrogate(model, rows), y[:N_LABELLED], lam, **how).value
        optimiser.zero_grad()
        risk.backward()
        optimiser.step()
        risks.append(risk.item())
    return risks


def weak(x: Tensor, generator: torch.Generator) -> Tensor:
    return x


def strong(x: Tensor, generator: torch.Generator) -> Tensor:
    return x + N_ROWS


def test_debiased_fixmatch_star_falls_without_end() -> None:
    risks = trained(FixMatchStar(weak=weak, strong=strong), lam=0.5)
    assert risks[-1] < -50
    # Not on its way to a floor: the second half falls as fast as the first.
    assert risks[200] - risks[399] > 0.8 * (risks[0] - risks[199])


def test_the_nonnegative_bound_tames_it() -> None:
    risks = trained(FixMatchStar(weak=weak, strong=strong), lam=0.5, bound="nonnegative")
    assert min(risks) >= 0
    assert max(risks[-50:]) < 0.1


@pytest.mark.parametrize("epsilon", [0.01, 0.1])
def test_smoothing_tames_it(epsilon: float) -> None:
    surrogate = Smooth(FixMatchStar(0.8, weak=weak, strong=strong), epsilon=epsilon)
    risks = trained(surrogate, lam=0.5)
    assert min(risks) >= -0.5 * math.log(N_CLASSES / epsilon)
    assert risks[-100] - risks[-1] < 0.1


def test_fixmatch_itself_does_not_fall_at_a_half_and_does_beyond() -> None:
    surrogate = FixMatch(weak=weak, strong=strong)
    assert min(trained(surrogate, lam=0.5)) >= 0
    assert trained(surrogate, lam=0.75, steps=1500)[-1] < -10
