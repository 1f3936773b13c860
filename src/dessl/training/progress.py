"""Progress of training: a bar, printed lines, and TensorBoard."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dessl.evaluation.metrics.vocabulary import NONE, metric_text, written
from dessl.training.member import Event

SECONDS = 0.2  # between two updates of the bar
LINE_SECONDS = 60  # between two lines where there is no terminal


class ProgressBar:
    """Steps done, time left, the last validation metrics; does nothing if not shown."""

    def __init__(self, bar: Any = None, task: Any = None) -> None:
        self._bar, self._task, self._moved = bar, task, 0.0

    def advance(self, step: int) -> None:
        """Move to a step, a few times a second at most."""
        if self._bar is not None and (now := time.perf_counter()) - self._moved > SECONDS:
            self._bar.update(self._task, completed=step)
            self._moved = now

    def show(self, event: Event) -> None:
        """Show the results of an evaluation."""
        if self._bar is not None:
            self._bar.update(self._task, completed=event.step, found=_found(event))


class ProgressLines:
    """Print lines while networks train.

    Args:
        level: 1 for a line when a network begins, 2 for each evaluation too.
    """

    def __init__(self, level: int) -> None:
        if not isinstance(level, int | np.integer):
            raise TypeError(f"verbose must be 0, 1 or 2, or True or False; got {level!r:.40}.")
        self.level = int(level)
        self._started, self._network, self._step = time.perf_counter(), 0, 0

    def __call__(self, event: Event) -> None:
        """Print the results of an evaluation; a smaller step means another network."""
        if not self._network or event.step <= self._step:
            self._network += 1
            print(f"Network {self._network}: at most {event.steps} steps", flush=True)
        self._step = event.step
        if self.level < 2:
            return
        found = (event.validation or {}).get("cross_entropy")
        held_out = "" if found is None else f"; held-out {metric_text('cross_entropy')} {found:.4f}"
        print(f"  step {event.step} of {event.steps}: risk {event.risk:.4f}{held_out}", flush=True)

    def end(self, verdict: str) -> None:
        """Print how long it took, and the verdict."""
        print(f"Fitted in {time.perf_counter() - self._started:.1f} s. {verdict}", flush=True)


class WholeBar:
    """One bar for work of several parts; it names the current one.

    A part that ends early, as with early stopping, moves the bar to its end. One that trains
    several times never moves it back.

    Args:
        bar: What is updated.
        task: Its task.
        parts: Expected number of parts.
        every: Whether trainings that would show no bar of their own move this one.
    """

    def __init__(self, bar: Any, task: Any, parts: float, *, every: bool = False) -> None:
        self._bar, self._task, self._parts, self.every = bar, task, parts, every
        self._ended = self._done = 0.0

    def move(self, what: str, share: float, parts: float) -> None:
        """Move to a share of the current part, which counts as ``parts`` parts."""
        self._parts = max(self._parts, self._ended + parts)
        self._done = max(self._done, self._ended + share * parts)
        self._bar.update(self._task, completed=self._done, total=self._parts, what=what)

    def end(self, parts: float) -> None:
        """Move to the end of the current part."""
        self._ended += parts
        self._bar.update(self._task, completed=self._ended)


class PartLines:
    """Print a line when a part begins, for ``verbose``."""

    def update(self, _: object, *, what: str | None = None, **__: object) -> None:
        """Name a part."""
        if what is not None:
            print(f"Training {what}", flush=True)


class MinuteLines:
    """Print a line about once a minute, where a log takes the place of a terminal."""

    def __init__(self) -> None:
        self._started = self._printed = time.perf_counter()
        self._total, self._what = 1.0, ""

    def update(
        self, _: object, *, completed: float, total: float | None = None, what: str | None = None
    ) -> None:
        """Note the work done, and print it with the time that the rest will probably take."""
        self._total, self._what = total or self._total, what or self._what
        now = time.perf_counter()
        if now - self._printed < LINE_SECONDS or not completed:
            return
        self._printed, share = now, completed / self._total
        passed = (now - self._started) / 60
        rest = passed * (1 / share - 1)
        left = f"about {rest:.0f} min left" if rest >= 1 else "less than a minute left"
        line = f"{100 * share:.0f} %, {passed:.0f} min so far, {left}: {self._what}"
        print(line, file=sys.stderr, flush=True)


class _Part(ProgressBar):
    """The steps of one training within a whole bar."""

    def __init__(self, doing: "_Doing", steps: int) -> None:
        super().__init__()
        self._doing, self._steps = doing, steps

    def advance(self, step: int) -> None:
        if (now := time.perf_counter()) - self._moved > SECONDS:
            self._moved = now
            what = f"{self._doing.what}, step {step} of {self._steps}"
            self._doing.whole.move(what, step / self._steps, self._doing.parts)

    def show(self, event: Event) -> None:
        self.advance(event.step)


class _Doing(NamedTuple):
    whole: WholeBar
    what: str
    parts: float


_WHOLE: ContextVar[WholeBar | None] = ContextVar("the bar that all parts share", default=None)
_DOING: ContextVar[_Doing | None] = ContextVar("the present part", default=None)


@contextmanager
def _sharing(variable: ContextVar[Any], value: object) -> Iterator[None]:
    """Set a variable for all that runs in this block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


@contextmanager
def part_lines(*, shown: bool) -> Iterator[None]:
    """Print a line for each part named by :func:`doing` in this block."""
    with _sharing(_WHOLE, WholeBar(PartLines(), None, 1) if shown else _WHOLE.get()):
        yield


@contextmanager
def whole_bar(parts: float, *, shown: bool, every: bool = False) -> Iterator[None]:
    """Show one bar on the terminal for all training in this block; a line a minute elsewhere.

    Args:
        parts: Expected number of parts, each named by :func:`doing`.
        shown: Whether to show it.
        every: Whether trainings that would show no bar of their own move this one.
    """
    if not shown or _WHOLE.get() is not None:
        yield
        return
    if not sys.stderr.isatty():
        with _sharing(_WHOLE, WholeBar(MinuteLines(), None, parts, every=every)):
            yield
        return
    from rich.progress import TextColumn

    with _shown(TextColumn("{task.percentage:>3.0f} %"), TextColumn("{task.fields[what]}")) as bar:
        task = bar.add_task("", total=parts, what="")
        with _sharing(_WHOLE, WholeBar(bar, task, parts, every=every)):
            yield
        bar.update(bar.task_ids[0], completed=1, total=1, what="done")


@contextmanager
def doing(what: str, parts: float = 1.0) -> Iterator[None]:
    """Name the work of this block on the bar of :func:`whole_bar`, if there is one."""
    whole = _WHOLE.get()
    if whole is None:
        yield
        return
    whole.move(what, 0.0, parts)
    with _sharing(_DOING, _Doing(whole, what, parts)):
        yield
    whole.end(parts)


@contextmanager
def progress_bar(steps: int, done: int, *, shown: bool) -> Iterator[ProgressBar]:
    """Show a bar, or a part of the whole bar, if requested and there is a terminal."""
    part = _DOING.get()
    if part is not None and (shown or part.whole.every):
        yield _Part(part, steps)
        return
    if not shown or not sys.stderr.isatty():
        yield ProgressBar()
        return
    from rich.progress import MofNCompleteColumn, TextColumn

    with _shown(MofNCompleteColumn(), TextColumn("{task.fields[found]}")) as bar:
        yield ProgressBar(bar, bar.add_task("training", total=steps, completed=done, found=""))


def _shown(count: Any, text: Any) -> Any:
    """A bar with a count after it, then the times and a text."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

    columns = (BarColumn(20), count, TimeElapsedColumn(), TimeRemainingColumn(), text)
    return Progress(*columns, console=Console(stderr=True))


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
        folder: TensorBoard's log folder.
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
