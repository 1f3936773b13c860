"""one_thread: compute small tensors in one thread, then restore the user's number of threads."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

_inside: ContextVar[bool] = ContextVar("inside one_thread", default=False)
# PyTorch's number before, for each of the user's threads that is inside. A thread that enters while
# another is inside would read the 1 of the other, and leave it to all threads begun later.
_before: list[int] = []
_lock = Lock()


@contextmanager
def one_thread(*, when: bool = True) -> Iterator[None]:
    """Compute the block in one thread: for small networks, a second thread only waits.

    This covers PyTorch's threads and those of NumPy's and SciPy's linear algebra: a pool of 1,000
    labels took four times the processor time in two of the latter.

    Args:
        when: Whether to use one thread; otherwise nothing changes.

    >>> with one_thread():
    ...     torch.get_num_threads()
    1
    """
    if not when or _inside.get():
        yield
        return
    with _lock:
        _before.append(_before[0] if _before else torch.get_num_threads())
    token = _inside.set(True)
    torch.set_num_threads(1)
    try:
        with _linear_algebra().limit(limits=1, user_api="blas"):
            yield
    finally:
        _inside.reset(token)
        with _lock:
            torch.set_num_threads(_before.pop())


def threads_outside() -> int:
    """Return PyTorch's number of threads, inside :func:`one_thread` that of the user.

    >>> with one_thread():
    ...     inside = threads_outside()
    >>> inside == torch.get_num_threads()
    True
    """
    return _before[0] if _inside.get() else torch.get_num_threads()


@cache
def _linear_algebra() -> "ThreadpoolController":
    """The threads of NumPy's and SciPy's linear algebra; finding them takes 4 ms."""
    import scipy.linalg  # noqa: F401 (its threads are known once it is loaded)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
