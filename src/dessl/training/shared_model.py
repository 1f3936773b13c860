"""SharedModel: each pass through a model shared by the ranks, through DistributedDataParallel.

Every rank draws the same global batch, with the same views, from the same streams. In each pass
through the model it computes its share of the rows, and the logits of all ranks are concatenated,

    z = (z_1, ..., z_N),   ∂z/∂θ on rank r: N · ∂z_r/∂θ

so that risk, thresholds and memories are those of the whole batch, as in one process, whatever the
method and number of rows per rank. DistributedDataParallel averages the gradients,
which with the factor N is their sum: the gradient of the risk of the whole batch.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, distributed, nn

from dessl.training.ranks import lost_ranks, rank, ranks
from dessl.training.sharded import is_sharded, is_wrapped, same_buffers


class SharedModel(nn.Module):
    """A model whose passes are shared by the ranks: global rows to global logits.

    Args:
        model: The same on every rank, on this rank's device. One that the user has wrapped with
            ``fully_shard`` or ``replicate`` stays unchanged: it averages gradients itself.
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
        """Return the logits (n, classes) of all rows; gradients flow to this rank's rows."""
        if self._sharded and self.model.training:
            same_buffers(self.model)
        own = share(len(x)).to(x.device)
        return _put_together(self.model(x[own]), len(x))


class Replaced(NamedTuple):
    """A BatchNorm layer that is replaced for the time of training."""

    parent: nn.Module
    name: str
    layer: nn.Module


def synchronise_norms(model: nn.Module) -> list[Replaced]:
    """Make BatchNorm layers compute statistics over the rows of all ranks, as in one process.

    PyTorch's ``SyncBatchNorm`` takes their place, with the same parameters and buffers. Returns
    what :func:`restore_norms` needs; nothing in one process.

    Raises:
        ValueError: On the CPU, where it does not run, or after the model was wrapped.
    """
    if ranks() == 1:
        return []
    if is_wrapped(model):
        raise ValueError(
            "sync_batch_norm=True cannot be applied to a model wrapped with fully_shard or "
            "replicate. Convert it with torch.nn.SyncBatchNorm.convert_sync_batchnorm before "
            "wrapping it."
        )
    if next(model.parameters()).device.type != "cuda":
        raise ValueError(
            "sync_batch_norm=True needs GPUs: PyTorch's SyncBatchNorm does not run on the CPU. "
            "Omit it: BatchNorm then uses each rank's own rows."
        )
    return replace_norms(model)


def replace_norms(model: nn.Module) -> list[Replaced]:
    """Put ``SyncBatchNorm`` in the place of each BatchNorm layer below a model.

    >>> model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    >>> replaced = replace_norms(model)
    >>> type(model[1]).__name__, model[1].weight is replaced[0].layer.weight
    ('SyncBatchNorm', True)
    >>> restore_norms(replaced)
    >>> type(model[1]).__name__
    'BatchNorm1d'
    """
    kinds = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d
    replaced = [
        Replaced(parent, name, layer)
        for parent in model.modules()
        for name, layer in parent.named_children()
        if isinstance(layer, kinds)
    ]
    fresh: dict[int, nn.Module] = {}  # one for a layer that is used in several places
    for parent, name, layer in replaced:
        if id(layer) not in fresh:
            convert = nn.SyncBatchNorm.convert_sync_batchnorm
            fresh[id(layer)] = convert(layer)  # type: ignore[no-untyped-call]
        setattr(parent, name, fresh[id(layer)])
    return replaced


def restore_norms(replaced: Sequence[Replaced]) -> None:
    """Undo :func:`replace_norms`; the layers keep what was learnt."""
    for parent, name, layer in replaced:
        layer.train(getattr(parent, name).training)
        setattr(parent, name, layer)


def share(n: int) -> Tensor:
    """Return the numbers of this rank's rows out of n: every N-th.

    With fewer rows than ranks the last ranks take the first row, whose logits are discarded, so
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
    own_logits = logits[: counts[rank()]]
    kept = [part[:count] for part, count in zip(parts, counts, strict=True)]
    kept[rank()] = _ScaledGradient.apply(own_logits, size)  # type: ignore[no-untyped-call]
    if not len(own_logits):  # a rank without rows takes part in the backward pass all the same
        kept[0] = kept[0] + 0 * logits.sum()
    places = torch.cat([torch.arange(first, n, size) for first in range(size)])
    return torch.cat(kept)[places.argsort().to(logits.device)]


class _ScaledGradient(torch.autograd.Function):
    """The same values, with the gradient multiplied by a factor."""

    @staticmethod
    def forward(values: Tensor, factor: int) -> Tensor:  # noqa: ARG004
        return values.view_as(values)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int], output: Tensor) -> None:  # noqa: ARG004
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.factor, None
