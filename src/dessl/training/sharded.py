"""Models whose weights are divided among the ranks by FSDP2, and their checkpoints.

A model that the user has wrapped with ``torch.distributed.fsdp.fully_shard`` has parameters of
which each rank has a part (``DTensor``), and so do its optimiser's memory and the selected
weights. ``torch.distributed.checkpoint`` writes them, each rank its own, as safetensors beside the
``state.pt`` of rank 0, and reads them back for another number of ranks, or for one process. Its
usual format needs pickle; safetensors do not.
"""

import logging
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor, distributed, nn

from dessl.training.ranks import ranks

_MARK = "divided among ranks: "  # in place of a tensor, before its name


def is_sharded(model: nn.Module) -> bool:
    """Whether some parameters are divided among ranks.

    >>> is_sharded(nn.Linear(2, 1))
    False
    """
    return any(_is_divided(parameter) for parameter in model.parameters())


def is_wrapped(model: nn.Module) -> bool:
    """Whether the user has wrapped a model for several ranks: it averages its gradients itself.

    ``fully_shard`` and ``replicate`` change the model's class to one of PyTorch's; importing it to
    compare would cost every run a second.
    """
    kinds = ("torch.distributed.fsdp.", "torch.distributed._composable.")
    return any(base.__module__.startswith(kinds) for base in type(model).__mro__)


def divide_again(model: nn.Module) -> None:
    """Reshard weights that a forward pass without a backward pass has gathered.

    PyTorch leaves those of the outermost wrapped module whole until the next backward pass; what
    is read from or written to them meanwhile is not in the parts that ranks hold.
    """
    for module in model.modules():
        divide: Any = getattr(module, "reshard", None)
        if divide is not None and is_wrapped(module):
            divide()


def check_copyable(model: nn.Module, what: str) -> None:
    """Refuse a wrapped model that would have to be copied.

    Args:
        model: The user's model.
        what: Name of the feature that needs the copy, for the error message.
    """
    if is_wrapped(model):
        raise ValueError(
            f"{what} needs a copy of the model, but PyTorch cannot copy one wrapped with "
            "fully_shard or replicate. Pass the model itself, for DistributedDataParallel, or "
            "train without the copy."
        )


def whole(value: Tensor) -> Tensor:
    """Return a tensor that may be divided among ranks as a plain one; all ranks call it."""
    full: Tensor = value.full_tensor() if _is_divided(value) else value  # type: ignore[attr-defined]
    return full


def like(own: Tensor, value: Tensor) -> Tensor:
    """Return a value sharded like ``own``, if it is not yet."""
    if not _is_divided(own) or _is_divided(value):
        return value
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(own, DTensor)  # noqa: S101 (as _is_divided found)
    placed = value.to(own.device)
    return distribute_tensor(placed, own.device_mesh, own.placements, src_data_rank=None)


def _is_divided(value: object) -> bool:
    kind = getattr(sys.modules.get("torch.distributed.tensor"), "DTensor", None)
    return kind is not None and isinstance(value, kind)


def same_buffers(model: nn.Module) -> None:
    """Copy the buffers of rank 0 to every rank, as DistributedDataParallel does.

    BatchNorm's running statistics depend on the rows that a rank saw.
    """
    for buffer in model.buffers():
        if not _is_divided(buffer):
            distributed.broadcast(buffer, src=0)


def apart_from_tensors(state: Any, at: str = "") -> tuple[Any, dict[str, Tensor]]:
    """Return nested entries with a mark in place of each tensor, and the tensors by name.

    Numbers as tensors, such as AdamW's count of steps, stay where they are.

    >>> import torch
    >>> apart_from_tensors({"a": [1, torch.ones(2)], "n": torch.tensor(3)})
    ({'a': [1, 'divided among ranks: a.1'], 'n': tensor(3)}, {'a.1': tensor([1., 1.])})
    """
    if isinstance(state, Tensor) and state.ndim:
        return f"{_MARK}{at}", {at: state}
    if not isinstance(state, dict | list):
        return state, {}
    pairs = state.items() if isinstance(state, dict) else enumerate(state)
    found = {key: apart_from_tensors(one, f"{at}.{key}" if at else str(key)) for key, one in pairs}
    tensors = {name: one for _, own in found.values() for name, one in own.items()}
    entries = {key: one for key, (one, _) in found.items()}
    return (entries if isinstance(state, dict) else list(entries.values())), tensors


def with_tensors(state: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Replace marks by their tensors.

    >>> import torch
    >>> with_tensors({"a": [1, "divided among ranks: a.1"]}, {"a.1": torch.ones(2)})
    {'a': [1, tensor([1., 1.])]}
    """
    if isinstance(state, dict):
        return {key: with_tensors(one, tensors) for key, one in state.items()}
    if isinstance(state, list):
        return [with_tensors(one, tensors) for one in state]
    if isinstance(state, str) and state.startswith(_MARK):
        return tensors[state.removeprefix(_MARK)]
    return state


def write_shards(place: Path, parts: Mapping[str, Mapping[str, Tensor]]) -> None:
    """Write tensors into a folder, each rank its own; all ranks call it."""
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    writer = HuggingFaceStorageWriter(str(place), save_distributed=True)
    with _quiet():
        save(_named(parts), storage_writer=writer)


def read_shards(place: Path, parts: Mapping[str, Mapping[str, Tensor]]) -> None:
    """Read tensors from a folder into those given, whole or divided among any number of ranks.

    All ranks must call it for sharded tensors; otherwise each rank may call it alone.

    Raises:
        RuntimeError: The files are not shards, or have other tensors.
    """
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.state_dict_loader import load

    targets = _named(parts)
    alone = ranks() == 1 or not any(_is_divided(one) for one in targets.values())
    try:
        with _quiet():
            load(targets, storage_reader=HuggingFaceStorageReader(str(place)), no_dist=alone)
    except CheckpointException as error:  # not an Exception, and several lines long
        why = next(iter(error.failures.values()), (error,))[0]
        raise RuntimeError(
            f"the shards in {place} do not have the tensors of this run ({why!r:.200}). Delete "
            "this folder to resume from the previous checkpoint."
        ) from error


def _named(parts: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Tensors by the names in the files; a number is a row of one, which can be read in slices."""
    return {
        f"{part}/{name}": value.detach() if value.ndim else value.detach().view(1)
        for part, tensors in parts.items()
        for name, value in tensors.items()
    }


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence PyTorch's warning about a single process, and its log of errors that it raises."""
    root = logging.getLogger()
    root.addFilter(_is_not_of_checkpoints)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="torch.distributed is disabled")
            yield
    finally:
        root.removeFilter(_is_not_of_checkpoints)


def _is_not_of_checkpoints(record: logging.LogRecord) -> bool:
    return "checkpoint" not in Path(record.pathname).parts
