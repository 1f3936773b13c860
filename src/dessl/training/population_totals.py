"""What K runs add up on the device between two evaluations, one column for each run."""

from collections.abc import Sequence

import torch
from torch import Tensor

from dessl.risk import Risk
from dessl.training.totals import NAMES


class PopulationTotals:
    """Sums over steps of what :mod:`dessl.training.totals` names, and each run's first bad step.

    Args:
        runs: K.
        device: Where the steps run.
        limit: Size of the risk past which a run counts as exploded.
    """

    def __init__(self, runs: int, device: torch.device, limit: float) -> None:
        self.limit = limit
        self.sums = torch.zeros(len(NAMES), runs, device=device, dtype=torch.float64)
        self.bad_step = torch.zeros(runs, device=device, dtype=torch.int64)

    @torch.no_grad()
    def add(
        self,
        risk: Risk,
        kept: Tensor,
        n_labelled: int,
        gradients: Sequence[Tensor],
        step: Tensor,
    ) -> None:
        """Add one step.

        Args:
            risk: Risks and parts, each (K,).
            kept: Where H is not zero, labelled rows first, (K, n).
            n_labelled: How many rows of each run are labelled.
            gradients: One (K, ...) for each parameter.
            step: Steps done before this one, shape (1,).
        """
        squares = [torch.linalg.vector_norm(g.flatten(1), dim=1).square() for g in gradients]
        share = kept.double()
        unlabelled = share[:, n_labelled:]
        parts = [
            *risk,
            share[:, :n_labelled].mean(1),
            unlabelled.mean(1) if unlabelled.shape[1] else torch.zeros_like(risk.value),
            torch.stack(squares).sum(0).sqrt(),
        ]
        values = torch.stack([part.double() for part in parts])
        good = torch.isfinite(values.sum(0)) & (values[0].abs() <= self.limit)
        first = ~good & (self.bad_step == 0)
        self.bad_step.copy_(torch.where(first, step + 1, self.bad_step))
        self.sums += values

    def restart(self) -> None:
        """Begin new sums; a bad step stays."""
        self.sums.zero_()
