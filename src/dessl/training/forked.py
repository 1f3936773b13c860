"""PyTorch's own generators, put back after use."""

from contextlib import AbstractContextManager

import torch


def forked(device: torch.device) -> AbstractContextManager[None]:
    """Let what is drawn inside move the generators of the CPU and of this device for nobody else.

    >>> before = torch.get_rng_state()
    >>> with forked(torch.device("cpu")):
    ...     _ = torch.rand(3)
    >>> torch.equal(before, torch.get_rng_state())
    True
    """
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])
