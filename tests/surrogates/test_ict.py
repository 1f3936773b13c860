"""ICT against its equation in Python floats, with the draws replayed."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from dessl.augment import mixup
from dessl.surrogates import ICT, Rows, as_is

X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
ROWS = Rows(X, torch.arange(6))


def test_the_equation_and_its_gradient(
    softmax: Callable[[Tensor], list[float]], differences: Callable[..., Tensor]
) -> None:
    model = nn.Linear(4, 3, dtype=torch.float64)
    surrogate = ICT(alpha=0.5, view=as_is, seed=3)
    surrogate.prepare(model, 6, 3)
    weight, bias = model.weight.detach().clone(), model.bias.detach().clone()
    with torch.no_grad():
        model.weight += 1 + torch.randn(3, 4, dtype=torch.float64)
    draws = mixup(X, 0.5, torch.Generator().manual_seed(3))
    shares, partners = draws.lam.tolist(), draws.partner.tolist()
    teacher = [softmax(row @ weight.T + bias) for row in X]

    def by_hand() -> list[float]:
        values = []
        for i, (w, j) in enumerate(zip(shares, partners, strict=True)):
            p = softmax(model(w * X[i] + (1 - w) * X[j]))
            target = [w * a + (1 - w) * b for a, b in zip(teacher[i], teacher[j], strict=True)]
            values.append(sum((a - b) ** 2 for a, b in zip(p, target, strict=True)))
        return values

    assert any(i != j for i, j in enumerate(partners))
    h, logits = surrogate(model, ROWS)
    torch.testing.assert_close(h, torch.tensor(by_hand(), dtype=torch.float64))
    torch.testing.assert_close(logits[0], model(X))
    h.sum().backward()
    numeric = differences(lambda: sum(by_hand()), model.weight)
    torch.testing.assert_close(model.weight.grad, numeric, rtol=1e-6, atol=1e-8)


def test_the_teacher_follows_after_a_step() -> None:
    model = nn.Linear(4, 3, dtype=torch.float64)
    surrogate = ICT(decay=0.0)
    surrogate.prepare(model, 6, 3)
    scores = surrogate(model, ROWS)
    with torch.no_grad():
        model.weight += 1
    surrogate.after_step(model, ROWS, scores)
    assert surrogate.teacher is not None
    torch.testing.assert_close(surrogate.teacher(X), model(X).detach())
