"""What ``verbose=`` prints: a line for each network, or for each of its evaluations."""

import time

import numpy as np

from dessl.evaluation.metrics.vocabulary import metric_text
from dessl.training import Event


class Progress:
    """Prints lines while networks train.

    Args:
        level: 1 for a line when a network begins, 2 for each evaluation too.
    """

    def __init__(self, level: int) -> None:
        if not isinstance(level, int | np.integer):
            raise TypeError(f"verbose must be 0, 1 or 2, or a truth value; got {level!r:.40}.")
        self.level = int(level)
        self._started, self._network, self._step = time.perf_counter(), 0, 0

    def __call__(self, event: Event) -> None:
        """Print what an evaluation found; a step before the last one is of another network."""
        if not self._network or event.step <= self._step:
            self._network += 1
            print(f"Network {self._network}: at most {event.steps} steps", flush=True)
        self._step = event.step
        if self.level < 2:
            return
        found = (event.validation or {}).get("cross_entropy")
        judged = "" if found is None else f"; held-out {metric_text('cross_entropy')} {found:.4f}"
        print(f"  step {event.step} of {event.steps}: risk {event.risk:.4f}{judged}", flush=True)

    def end(self, verdict: str) -> None:
        """Print how long it took and what came of it."""
        print(f"Fitted in {time.perf_counter() - self._started:.1f} s. {verdict}", flush=True)
