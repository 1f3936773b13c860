"""What ``verbose=`` prints: a line for each network, or for each of its evaluations."""

import time

from dessl.evaluation.metrics.vocabulary import written
from dessl.training import Event


class Progress:
    """Prints lines while networks train.

    Args:
        level: 0 for nothing, 1 for a line when a network begins, 2 for each evaluation too.
    """

    def __init__(self, level: int) -> None:
        self.level = level
        self._started, self._network, self._step = time.perf_counter(), 0, 0

    def __call__(self, event: Event) -> None:
        """Print what an evaluation found; a step before the last one is of another network."""
        if not self._network or event.step <= self._step:
            self._network += 1
            self._say(1, f"Network {self._network}: at most {event.steps} steps")
        self._step = event.step
        found = (event.validation or {}).get("cross_entropy")
        judged = (
            "" if found is None else (f", held-out cross-entropy {written('cross_entropy', found)}")
        )
        self._say(2, f"  step {event.step} of {event.steps}: risk {event.risk:.4f}{judged}")

    def end(self, verdict: str) -> None:
        """Print how long it took and what came of it."""
        self._say(1, f"Fitted in {time.perf_counter() - self._started:.1f} s. {verdict}")

    def _say(self, level: int, line: str) -> None:
        if self.level >= level:
            print(line, flush=True)
