"""SharedModel: each pass through a model shared by the ranks, through DistributedDataParallel.

Every rank draws the same global batch, with the same views, from the same streams. Of each pass
through the model it computes its share of the rows, and the logits of all ranks are put together,

    z = (z_1, ..., z_N),   ∂z/∂θ on rank r: N · ∂z_r/∂θ

so that risk, thresholds and memories are those of the whole batch, as in one process, whatever the
method and however many rows a rank has. DistributedDataParallel takes the mean of the gradients,
which with the factor N is their sum: the gradient of the risk of the whole batch.
"""

from typing import Any

import torch
from torch import Tensor, distributed, nn

from dessl.training.ranks import lost_ranks, rank, ranks
from dessl.training.sharded import is_sharded, is_wrapped, same_buffers


class SharedModel(nn.Module):
    """A model whose passes are shared by the ranks: global rows to global logits.

    Args:
        model: The same on every rank, on this rank's device. One that the user has wrapped with
            ``fully_shard`` or ``replicate`` is left as it is: it means gradients itself.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._sharded = is_sharded(model)
        if is_wrapped(model):
            self.model = model
            return
        on_gpu = next(model.parameters()).device.type == "cuda"
        devices = [torch.cuda.current_device()] if on_gpu else None
        self.model = nn.parallel.DistributedDataParallel(model, device_ids=devices)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (n, classes) of all rows; gradients pass to this rank's own."""
        if self._sharded and self.model.training:
            same_buffers(self.model)
        own = share(len(x)).to(x.device)
        return _put_together(self.model(x[own]), len(x))


def share(n: int) -> Tensor:
    """Return the numbers of this rank's rows out of n: every N-th.

    With fewer rows than ranks the last ranks take the first row, whose logits are thrown away, so
    that every rank takes part.

    >>> share(5).tolist()
    [0, 1, 2, 3, 4]
    """
    own = torch.arange(rank(), n, ranks())
    return own if len(own) else torch.zeros(1, dtype=torch.int64)


def _put_together(logits: Tensor, n: int) -> Tensor:
    """Return all ranks' logits in the order of the rows."""
    size, most = ranks(), -(-n // ranks())
    counts = [len(range(first, n, size)) for first in range(size)]
    sent = logits.new_zeros(most, *logits.shape[1:])
    with torch.no_grad():
        sent[: counts[rank()]] = logits[: counts[rank()]]
        parts = [torch.empty_like(sent) for _ in range(size)]
        with lost_ranks():
            distributed.all_gather(parts, sent)
    mine = logits[: counts[rank()]]
    kept = [part[:count] for part, count in zip(parts, counts, strict=True)]
    kept[rank()] = _ScaledGradient.apply(mine, size)  # type: ignore[no-untyped-call]
    if not len(mine):  # a rank without rows takes part in the backward pass all the same
        kept[0] = kept[0] + 0 * logits.sum()
    places = torch.cat([torch.arange(first, n, size) for first in range(size)])
    return torch.cat(kept)[places.argsort().to(logits.device)]


class _ScaledGradient(torch.autograd.Function):
    """The same values, with a gradient that is so many times as large."""

    @staticmethod
    def forward(values: Tensor, factor: int) -> Tensor:  # noqa: ARG004
        return values.view_as(values)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int], output: Tensor) -> None:  # noqa: ARG004
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.factor, None
