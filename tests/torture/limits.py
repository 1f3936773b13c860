"""Limits of one case: 20 seconds, and twice the memory that its content takes."""

import faulthandler
import os
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

SECONDS = 20
BASE = 24 * 2**20  # bytes that reading anything may take: buffers, caches, pages of the allocator
HEADROOM = 4 * 2**30  # address space above which an allocation fails


class HangError(BaseException):
    """A case took more than the seconds allowed."""


class GreedError(Exception):
    """A case took more than twice the memory expected."""


def _hang(number: int, frame: FrameType | None) -> None:
    raise HangError(f"more than {SECONDS} s")


def resident() -> int:
    """Bytes of memory that this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def cap_memory() -> None:
    """Let allocations fail that would take the machine's memory."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGESIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + HEADROOM, resource.RLIM_INFINITY))


class Watch:
    """Looks after one case at a time.

    A case that hangs outside Python, where no signal is looked at, ends the process with all stacks
    printed.
    """

    def __init__(self) -> None:
        signal.signal(signal.SIGALRM, _hang)
        # Where a peak cannot be set back, only growth beyond all earlier peaks is seen.
        resets = Path("/proc/self/clear_refs")
        self.peaks = os.open(resets, os.O_WRONLY) if resets.exists() else None
        self.sizes = os.open("/proc/self/statm", os.O_RDONLY)
        self.page = os.sysconf("SC_PAGESIZE")
        self.armed = 0.0

    @contextmanager
    def limited(self, decoded: int) -> Iterator[None]:
        """Raise if the block takes too long or too much memory."""
        if (now := time.monotonic()) > self.armed + SECONDS / 2:  # a thread is made each time
            faulthandler.dump_traceback_later(3 * SECONDS, exit=True)
            self.armed = now
        if self.peaks is not None:
            os.pwrite(self.peaks, b"5", 0)  # the peak starts again from what is used now
            before = int(os.pread(self.sizes, 100, 0).split()[1]) * self.page
        else:
            before = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        grown = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        if grown > 2 * (BASE + decoded):
            raise GreedError(f"{grown:,} bytes for a content of {decoded:,}")

    def disarm(self) -> None:
        """Let the process go on without this watch."""
        faulthandler.cancel_dump_traceback_later()
        self.armed = 0.0
