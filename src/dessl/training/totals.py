"""What a run adds up on the device between two looks, so that no step waits for the host."""

from typing import NamedTuple

import torch
from torch import Tensor

from dessl.risk import Risk

NAMES = (
    "risk",
    "loss",
    "h_labelled",
    "h_unlabelled",
    "mask_labelled",
    "mask_unlabelled",
    "gradient_norm",
)


class Trouble(NamedTuple):
    """The first step whose values were not finite or past the limit, and those values."""

    step: int
    values: dict[str, float]


class Totals:
    """Sums over steps, and the first bad step, in three tensors that keep their place in memory.

    Args:
        device: Where the steps run.
        limit: Size of the risk past which it counts as exploded.
    """

    def __init__(self, device: torch.device, limit: float) -> None:
        self.sums = torch.zeros(len(NAMES), device=device, dtype=torch.float64)
        self.bad = torch.zeros(len(NAMES), device=device, dtype=torch.float64)
        self.count = torch.zeros((), device=device, dtype=torch.int64)
        self.bad_count = torch.zeros((), device=device, dtype=torch.int64)
        largest = torch.finfo(torch.float64).max  # anything finite will do, but for the risk
        limits = [min(limit, largest), *[largest] * (len(NAMES) - 1)]
        self._limits = torch.tensor(limits, device=device, dtype=torch.float64)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All there is, for whoever has to put it back."""
        return self.sums, self.bad, self.count, self.bad_count

    @torch.no_grad()
    def add(self, risk: Risk, h: Tensor, n_labelled: int, gradient_norm: Tensor) -> None:
        """Add one step.

        Args:
            risk: Its risk and parts.
            h: H of labelled, then unlabelled rows, (n,).
            n_labelled: How many of them are labelled.
            gradient_norm: Shape ().
        """
        kept = (h != 0).to(h.dtype)
        unlabelled = kept[n_labelled:]
        mask_unlabelled = unlabelled.mean() if len(unlabelled) else kept.new_zeros(())
        parts = [*risk, kept[:n_labelled].mean(), mask_unlabelled, gradient_norm]
        values = torch.stack(parts).to(torch.float64)
        self.count += 1
        self.sums += values
        good = (values.abs() <= self._limits).all()  # NaN is below no limit
        first = ~good & (self.bad_count == 0)
        self.bad.copy_(torch.where(first, values, self.bad))
        self.bad_count.copy_(torch.where(first, self.count, self.bad_count))

    def trouble(self) -> Trouble | None:
        """Return the first bad step since the last start, counted from 1; waits for the device."""
        step = int(self.bad_count)
        return Trouble(step, dict(zip(NAMES, self.bad.tolist(), strict=True))) if step else None

    def means(self) -> dict[str, float]:
        """Return the means since the last start; waits for the device."""
        return dict(zip(NAMES, (self.sums / self.count).tolist(), strict=True))

    def restart(self) -> None:
        """Begin anew."""
        for tensor in self.tensors:
            tensor.zero_()
