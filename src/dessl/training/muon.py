"""Muon: momentum whose every matrix is made orthogonal before it moves the weights."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # steepest at 0: singular values end within 1 ± 0.35
ITERATIONS = 5
LIKE_ADAMW = 0.2  # root mean square of AdamW's updates, about


def orthogonalised(matrix: Tensor) -> Tensor:
    """Bring all singular values of a matrix near 1 and keep its singular vectors.

    Newton-Schulz: X ← aX + (bA + cA²)X with A = XXᵀ, five times, from X of norm 1. On CUDA in
    bfloat16, which is enough for it.

    >>> turned = orthogonalised(torch.tensor([[0.0, 3.0], [1.0, 0.0]]))
    >>> turned.abs().gt(0.6).tolist()
    [[False, True], [True, False]]
    """
    a, b, c = COEFFICIENTS
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.mT if tall else matrix
    x = x / x.norm().clamp(min=1e-7)
    if x.is_cuda:
        x = x.bfloat16()
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if tall else x).to(matrix.dtype)


class Muon(torch.optim.Optimizer):
    """Jordan's Muon for weights of two or more dimensions, scaled for AdamW's learning rates.

    A convolution is moved as the matrix (maps out, everything else). The update of an m × n matrix
    is scaled by 0.2 √max(m, n), and weights decay apart from it, as in AdamW, so that its learning
    rate and decay serve. PyTorch's own takes matrices alone and looks at its learning rate on the
    host, so that a step with it cannot be captured in a CUDA graph; this one can.

    Args:
        params: Weights of two or more dimensions.
        lr: Learning rate; a tensor on the weights' device is read there.
        weight_decay: Share of a weight that one step with learning rate 1 would take away.
        momentum: Of the running mean of gradients, in [0, 1).
        nesterov: Whether the gradient counts once more beside that mean.

    >>> layer = nn.Linear(3, 2, bias=False)
    >>> muon = Muon(layer.parameters(), lr=0.1)
    >>> layer(torch.ones(1, 3)).sum().backward()
    >>> muon.step()
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float | Tensor,
        *,
        weight_decay: float = 0.0,
        momentum: float = 0.9,
        nesterov: bool = True,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "weight_decay": weight_decay,
                "momentum": momentum,
                "nesterov": nesterov,
            },
        )

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Move every weight that has a gradient."""
        if closure is not None:
            raise TypeError("Muon takes one gradient a step: call backward, then step().")
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._move(weight, weight.grad, group)

    def _move(self, weight: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[weight]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(weight)
        mean, momentum, rate = state["momentum_buffer"], group["momentum"], group["lr"]
        mean.lerp_(gradient, 1 - momentum)
        update = gradient.lerp(mean, momentum) if group["nesterov"] else mean
        matrix = update.flatten(1)
        scale = LIKE_ADAMW * math.sqrt(max(matrix.shape))
        weight.mul_(1 - rate * group["weight_decay"])
        weight.sub_(orthogonalised(matrix).view(weight.shape) * (rate * scale))
