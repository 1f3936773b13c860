"""Ranks: one run on several processes, GPUs or hosts, through PyTorch's DistributedDataParallel.

Every rank draws the same global batch, with the same views, from the same streams. Of each pass
through the model it computes its share of the rows, and the logits of all ranks are put together,

    z = (z_1, ..., z_N),   ∂z/∂θ on rank r: N · ∂z_r/∂θ

so that risk, thresholds and memories are those of the whole batch, as in one process, whatever the
method and however many rows a rank has. DistributedDataParallel takes the mean of the gradients,
which with the factor N is their sum: the gradient of the risk of the whole batch.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn

T = TypeVar("T")


class LostRankError(RuntimeError):
    """Another process of a distributed run has gone."""


def rank() -> int:
    """Return the number of this process in its group; 0 where there is no group.

    >>> rank(), ranks()
    (0, 1)
    """
    return distributed.get_rank() if _is_group() else 0


def ranks() -> int:
    """Return how many processes train together."""
    return distributed.get_world_size() if _is_group() else 1


def _is_group() -> bool:
    return distributed.is_available() and distributed.is_initialized()


@contextmanager
def process_group() -> Iterator[torch.device | None]:
    """Join the group that ``torchrun`` started this process in, for the block.

    Yields the device of this rank, its own GPU where there are any; None where ``torchrun`` did not
    start this process, or a group exists already.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) < 2 or _is_group():
        yield None
        return
    local = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield device
    finally:
        distributed.destroy_process_group()


def from_first(make: Callable[[], T]) -> T:
    """Return what rank 0 makes, on every rank.

    >>> from_first(lambda: 3)
    3
    """
    if ranks() == 1:
        return make()
    found: list[Any] = [make() if rank() == 0 else None]
    with lost_ranks():
        distributed.broadcast_object_list(found, src=0)
    value: T = found[0]
    return value


def from_each(value: T) -> list[T]:
    """Return every rank's value, in the order of ranks."""
    if ranks() == 1:
        return [value]
    found: list[Any] = [None] * ranks()
    with lost_ranks():
        distributed.all_gather_object(found, value)
    return found


@contextmanager
def lost_ranks() -> Iterator[None]:
    """Say in one line that another process has gone, where communication fails."""
    try:
        yield
    except RuntimeError as error:
        words = str(error).lower()
        signs = (
            "connection closed",
            "connection reset",
            "timed out",
            "broken pipe",
            "peer",
            "nccl",
        )
        if ranks() == 1 or not any(sign in words for sign in signs):
            raise
        raise LostRankError(
            f"rank {rank()} of {ranks()} lost another rank, and the run cannot go on. Start the "
            "same command again: it resumes from the last checkpoint, on any number of ranks."
        ) from error


class SharedModel(nn.Module):
    """A model whose passes are shared by the ranks: global rows to global logits.

    Args:
        model: The same on every rank, on this rank's device.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        on_gpu = next(model.parameters()).device.type == "cuda"
        devices = [torch.cuda.current_device()] if on_gpu else None
        self.model = nn.parallel.DistributedDataParallel(model, device_ids=devices)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (n, classes) of all rows; gradients pass to this rank's own."""
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
