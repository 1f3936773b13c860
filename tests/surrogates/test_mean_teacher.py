"""Mean Teacher against its equation in Python floats."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from dessl.augment import noisy
from dessl.surrogates import ICT, MeanTeacher, Rows, Surrogate

X = torch.randn(5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
ROWS = Rows(X, torch.arange(5))


def shaken(x: Tensor, generator: torch.Generator) -> Tensor:
    return noisy(x, 0.5, generator)


def test_the_equation_and_its_gradient_after_some_steps(
    softmax: Callable[[Tensor], list[float]], differences: Callable[..., Tensor]
) -> None:
    model = nn.Linear(4, 3, dtype=torch.float64)
    surrogate = MeanTeacher(view=shaken, decay=0.8, seed=3)
    surrogate.prepare(model, 5, 3)
    weight, bias = model.weight.detach().clone(), model.bias.detach().clone()
    generator = torch.Generator().manual_seed(3)
    for t in range(1, 8):
        scores = surrogate(model, ROWS)
        shaken(X, generator), shaken(X, generator)  # the step's draws
        with torch.no_grad():
            model.weight += torch.randn(3, 4, dtype=torch.float64)
        surrogate.after_step(model, ROWS, scores)
        kept = min(0.8, 1 - 1 / (t + 1))
        weight = kept * weight + (1 - kept) * model.weight.detach()
        bias = kept * bias + (1 - kept) * model.bias.detach()
    own, teachers = shaken(X, generator), shaken(X, generator)
    targets = [softmax(row @ weight.T + bias) for row in teachers]

    def by_hand() -> list[float]:
        predictions = [softmax(row) for row in model(own)]
        return [
            sum((a - b) ** 2 for a, b in zip(p, q, strict=True))
            for p, q in zip(predictions, targets, strict=True)
        ]

    h, logits = surrogate(model, ROWS)
    # The step counter is float32, so that the share is known to seven digits.
    torch.testing.assert_close(h, torch.tensor(by_hand(), dtype=torch.float64), rtol=0, atol=1e-6)
    torch.testing.assert_close(logits[0], model(own))
    h.sum().backward()
    numeric = differences(lambda: sum(by_hand()), model.weight)
    torch.testing.assert_close(model.weight.grad, numeric, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", [MeanTeacher, ICT])
def test_without_prepare_the_error_says_so(kind: type[Surrogate]) -> None:
    with pytest.raises(RuntimeError, match=r"teacher does not exist yet.*Call surrogate.prepare"):
        kind()(nn.Linear(4, 3), Rows(X.float(), torch.arange(5)))
