"""one_thread: small tensors are computed in one thread, and the user's number is restored."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread(*, when: bool = True) -> Iterator[None]:
    """Compute the block in one thread: a network for a table only waits for a second one.

    Args:
        when: Whether to; otherwise nothing changes.

    >>> with one_thread():
    ...     torch.get_num_threads()
    1
    """
    before = torch.get_num_threads()
    if when:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
