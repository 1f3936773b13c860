"""Muon: momentum whose every matrix is made orthogonal before it moves the weights."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from dessl import _checks

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # steepest at 0: singular values end within 1 ± 0.35
ITERATIONS = 5
LIKE_ADAMW = 0.2  # approximate root mean square of AdamW's updates


def orthogonalised(matrices: Tensor) -> Tensor:
    """Bring all singular values of matrices (k, m, n) near 1 and keep their singular vectors.

    Newton-Schulz: X ← aX + (bA + cA²)X with A = XXᵀ, five times, from X of norm 1. On CUDA in
    bfloat16, which is enough for it.

    >>> turned = orthogonalised(torch.tensor([[[0.0, 3.0], [1.0, 0.0]]]))
    >>> turned.abs().gt(0.6).tolist()
    [[[False, True], [True, False]]]
    """
    a, b, c = COEFFICIENTS
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    if x.is_cuda:
        x = x.bfloat16()
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if tall else x).to(matrices.dtype)


class Muon(torch.optim.Optimizer):
    """Jordan's Muon for weights of two or more dimensions, scaled for AdamW's learning rates.

    A convolution is moved as the matrix (maps out, everything else). The update of an m × n matrix
    is scaled by 0.2 √max(m, n), and weight decay is decoupled as in AdamW, so that AdamW's learning
    rate and decay can be used. PyTorch's own Muon only takes matrices and reads its learning rate
    on the host, so that its step cannot be captured in a CUDA graph; this one can.

    Args:
        params: Weights of two or more dimensions.
        lr: Learning rate; a tensor on the weights' device is read there.
        weight_decay: Share of a weight that one step with learning rate 1 would remove.
        momentum: Decay of the running mean of gradients, in [0, 1).
        nesterov: Whether to use Nesterov momentum.

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
        settings = {
            "lr": lr if isinstance(lr, Tensor) else _checks.number("lr", lr, low=0),
            "weight_decay": _checks.number("weight_decay", weight_decay, low=0),
            "momentum": _checks.number("momentum", momentum, low=0, high=1, open_high=True),
            "nesterov": _checks.true_or_false("nesterov", nesterov),
        }
        super().__init__(params, settings)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add weights, and refuse those with fewer than two dimensions."""
        super().add_param_group(param_group)
        for weight in self.param_groups[-1]["params"]:
            if weight.ndim < 2:
                raise ValueError(
                    "Muon moves weights of two or more dimensions; got one of shape "
                    f"{tuple(weight.shape)}. Use AdamW for biases and normalisation layers."
                )

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Move every weight that has a gradient; return the closure's value, if there is one.

        Args:
            closure: Computes the gradients, as Lightning hands them over; called once.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if not weights:
                continue
            updates = self._updates(weights, group)
            torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])
            # Weights of one shape are processed together.
            alike: dict[torch.Size, list[tuple[Tensor, Tensor]]] = {}
            for weight, update in zip(weights, updates, strict=True):
                alike.setdefault(update.shape, []).append((weight, update))
            for shape, pairs in alike.items():
                rate = group["lr"] * LIKE_ADAMW * math.sqrt(max(shape))
                moves = orthogonalised(torch.stack([update for _, update in pairs])) * rate
                for (weight, _), move in zip(pairs, moves, strict=True):
                    weight.sub_(move.view(weight.shape))
        return loss

    def _updates(self, weights: list[Tensor], group: dict[str, Any]) -> list[Tensor]:
        """Move the running means; return what they make of the gradients, as matrices."""
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        momentum = group["momentum"]
        for weight in weights:
            if "momentum_buffer" not in self.state[weight]:
                self.state[weight]["momentum_buffer"] = torch.zeros_like(weight)
        means = [self.state[weight]["momentum_buffer"] for weight in weights]
        torch._foreach_lerp_(means, gradients, 1 - momentum)
        updates = torch._foreach_lerp(gradients, means, momentum) if group["nesterov"] else means
        return [update.flatten(1) for update in updates]
