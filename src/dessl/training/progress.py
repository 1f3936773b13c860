"""What a run shows while it trains: a progress bar, and TensorBoard."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dessl.evaluation.metrics.vocabulary import NONE, metric_text, written
from dessl.training.event import Event

SECONDS = 0.2  # between two moves of the bar


class ProgressBar:
    """Steps done, time left, the last validation metrics; nothing where nothing is shown."""

    def __init__(self, bar: Any = None, task: Any = None) -> None:
        self._bar, self._task, self._moved = bar, task, 0.0

    def advance(self, step: int) -> None:
        """Move to a step, a few times a second at most."""
        if self._bar is not None and (now := time.perf_counter()) - self._moved > SECONDS:
            self._bar.update(self._task, completed=step)
            self._moved = now

    def show(self, event: Event) -> None:
        """Show what an evaluation found."""
        if self._bar is not None:
            self._bar.update(self._task, completed=event.step, found=_found(event))


@contextmanager
def progress_bar(steps: int, done: int, *, shown: bool) -> Iterator[ProgressBar]:
    """Show a bar on the terminal, if that is wanted and there is one."""
    if not shown or not sys.stderr.isatty():
        yield ProgressBar()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[found]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        yield ProgressBar(bar, bar.add_task("training", total=steps, completed=done, found=""))


def _found(event: Event) -> str:
    found = f"risk {event.risk:.4f}  {event.steps_per_second:.1f} steps/s"
    if event.validation:
        for metric in ("accuracy", "cross_entropy"):
            value = event.validation[metric]
            found += f"  {metric_text(metric)} {NONE if value is None else written(metric, value)}"
    return found


class TensorBoard:
    """A callback that writes every number of an event for TensorBoard (``dessl[tensorboard]``).

    Args:
        folder: Where TensorBoard looks.
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError(
                "TensorBoard is not installed. Install it with pip install 'dessl[tensorboard]'."
            ) from error
        self._writer = SummaryWriter(str(folder))

    def __call__(self, event: Event) -> None:
        """Write one event and flush it."""
        numbers = {
            **vars(event),
            **{f"validation/{k}": v for k, v in (event.validation or {}).items()},
        }
        for name, value in numbers.items():
            if isinstance(value, int | float) and name not in ("step", "steps", "best"):
                self._writer.add_scalar(name, value, event.step)
        self._writer.flush()
