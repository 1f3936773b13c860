"""The rows of K runs, many steps ahead: what each run's own streams draw, stacked."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from dessl.data.batches import Batches, Stream

AHEAD = 2**24  # row numbers held at once: 128 MiB


class RowsAhead:
    """Row numbers (steps, K, n) of the next steps, labelled rows first.

    A stream is one long row of permutations cut into batches, so drawing ``steps`` batches as one
    large batch gives the very rows that ``steps`` single draws would, in a few operations.

    Args:
        streams: One :class:`~dessl.data.Batches` for each run, of the same batch sizes, at their
            start. They are moved on here and belong to nobody else.
        steps: Steps to draw at a time; fewer where 128 MiB hold fewer.
    """

    def __init__(self, streams: Sequence[Batches], *, steps: int) -> None:
        self._streams = list(streams)
        first = self._streams[0]
        self.labelled, self.unlabelled = first.labelled.size, first.unlabelled.size
        width = len(self._streams) * (self.labelled + self.unlabelled)
        self.steps = min(steps, max(1, AHEAD // width))
        self.rows = torch.empty(
            self.steps,
            len(self._streams),
            self.labelled + self.unlabelled,
            dtype=torch.int64,
            device=first.data.device,
        )
        self.used = 0
        self._draw()

    def advance(self) -> int:
        """Return where in ``rows`` the next step's are, having drawn new ones if there are none."""
        if self.used == self.steps:
            self._draw()
            self.used = 0
        self.used += 1
        return self.used - 1

    def _draw(self) -> None:
        self._start = self._states()
        for k, batches in enumerate(self._streams):
            self.rows[:, k, : self.labelled] = _drawn(batches.labelled, self.labelled, self.steps)
            if self.unlabelled:
                drawn = _drawn(batches.unlabelled, self.unlabelled, self.steps)
                self.rows[:, k, self.labelled :] = drawn

    def _states(self) -> list[dict[str, Any]]:
        return [batches.state_dict() for batches in self._streams]

    def state_dict(self) -> dict[str, Any]:
        """What the streams were when the rows at hand were drawn, and how many of them are used."""
        return {"streams": self._start, "used": self.used, "steps": self.steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state: draw the same rows again and skip what is used."""
        if state["steps"] != self.steps or len(state["streams"]) != len(self._streams):
            raise ValueError(
                f"the saved population drew {state['steps']} steps ahead for "
                f"{len(state['streams'])} runs; this one draws {self.steps} for "
                f"{len(self._streams)}. Resume with the runs it was begun with."
            )
        for batches, saved in zip(self._streams, state["streams"], strict=True):
            batches.load_state_dict(saved)
        self.used = state["used"]
        self._draw()


def _drawn(stream: Stream, size: int, steps: int) -> Tensor:
    """The next ``steps`` batches of a stream, (steps, size)."""
    stream.size = size * steps
    return stream.draw().view(steps, size)
