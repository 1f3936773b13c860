"""The seconds of a training, over all its sessions."""

import time


class Clock:
    """Counts from the moment it is made, after what sessions before took.

    >>> clock = Clock()
    >>> clock.go_on(100.0)
    >>> 100 < clock.seconds < 101
    True
    """

    def __init__(self) -> None:
        self._zero = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds so far."""
        return time.perf_counter() - self._zero

    def go_on(self, before: float) -> None:
        """Add what a checkpoint says of the sessions before."""
        self._zero -= before
