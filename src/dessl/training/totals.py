"""Sums kept on the device between two evaluations, so that no step waits for the host."""

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
    """A run's first step with values that are not finite or exceed the limit, and those values."""

    step: int
    values: dict[str, float]


class Totals:
    """Sums over steps, and each run's first bad step, in tensors that are updated in place.

    Args:
        device: Device of the steps.
        limit: Size of the risk above which the run counts as diverged.
        runs: Number K of stacked runs; None for a single run, whose values have shape ().
        dtype: Type of the sums.
    """

    def __init__(
        self,
        device: torch.device,
        limit: float,
        runs: int | None = None,
        *,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        shape = () if runs is None else (runs,)
        self.sums = torch.zeros(len(NAMES), *shape, device=device, dtype=dtype)
        self.bad = torch.zeros_like(self.sums)
        self.count = torch.zeros((), device=device, dtype=torch.int64)
        self.bad_count = torch.zeros(shape, device=device, dtype=torch.int64)
        largest = torch.finfo(dtype).max  # any finite value is fine, except for the risk
        limits = [min(limit, largest), *[largest] * (len(NAMES) - 1)]
        each = torch.tensor(limits, device=device, dtype=dtype)
        self._limits = each.view(-1, *(1,) * len(shape))
        self.tensors = (self.sums, self.bad, self.count, self.bad_count)  # all that add() changes

    @torch.no_grad()
    def add(self, risk: Risk, kept: Tensor, n_labelled: int, gradient_norm: Tensor) -> None:
        """Add one step of a run, or of K runs.

        Args:
            risk: The risk and its parts, each () or (K,).
            kept: 1 if H ≠ 0, otherwise 0, labelled rows first, (n,) or (K, n).
            n_labelled: Number of labelled rows of a run.
            gradient_norm: Norm of the gradient, () or (K,).
        """
        unlabelled = kept[..., n_labelled:]
        some = unlabelled.shape[-1] > 0
        mask_unlabelled = unlabelled.mean(-1) if some else torch.zeros_like(risk.value)
        parts = [*risk, kept[..., :n_labelled].mean(-1), mask_unlabelled, gradient_norm]
        values = torch.stack(parts).to(self.sums.dtype)
        self.count += 1
        self.sums += values
        good = (values.abs() <= self._limits).all(0)  # NaN is below no limit
        first = ~good & (self.bad_count == 0)
        self.bad.copy_(torch.where(first, values, self.bad))
        self.bad_count.copy_(torch.where(first, self.count, self.bad_count))

    def troubles(self) -> list[Trouble | None]:
        """Return each run's first bad step since the last restart, from 1; waits for the device."""
        steps = self.bad_count.view(-1).tolist()
        if not any(steps):
            return [None] * len(steps)
        values = self._by_run(self.bad)
        return [Trouble(*its) if its[0] else None for its in zip(steps, values, strict=True)]

    def means(self) -> list[dict[str, float]]:
        """Return each run's means since the last restart; waits for the device."""
        return self._by_run(self.sums / self.count)

    def restart(self) -> None:
        """Start counting again."""
        for tensor in self.tensors:
            tensor.zero_()

    @staticmethod
    def _by_run(values: Tensor) -> list[dict[str, float]]:
        each = values.view(len(NAMES), -1).T.tolist()
        return [dict(zip(NAMES, its, strict=True)) for its in each]
