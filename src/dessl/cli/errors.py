"""Messages about errors and interrupted runs."""

import errno
import shlex
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType

import typer

from dessl.cli.output import say

MENDABLE = (OSError, ValueError, RuntimeError, ImportError, MemoryError)
INTERRUPTED = 130
AGAIN = 1.0  # seconds after which an interrupt that was swallowed is raised again
TYPED: ContextVar[tuple[str, ...]] = ContextVar("what was typed after dessl", default=())

REMEDIES = {
    errno.ENOSPC: "Free some space, or choose a folder on another disk.",
    errno.EDQUOT: "Free some space, or choose a folder on another disk.",
    errno.EACCES: "Choose a folder that you may read and write.",
    errno.EPERM: "Choose a folder that you may read and write.",
    errno.EROFS: "Choose a folder that you may read and write.",
    errno.ENOTDIR: "A file is in the way: choose another folder.",
    errno.EEXIST: "A file is in the way: choose another folder.",
    errno.ENOENT: "Check the path.",
    errno.EISDIR: "A folder is in the way: give the name of a file.",
}


def complaint(error: BaseException) -> str:
    """Return what went wrong and what to do, without a traceback.

    >>> print(complaint(OSError(errno.ENOSPC, "No space left on device", "runs/a/facts.json")))
    runs/a/facts.json: No space left on device. Free some space, or choose a folder on another
    disk.
    """
    notes = "".join(f" {note}" for note in getattr(error, "__notes__", ()))
    if isinstance(error, MemoryError):
        return f"there is not enough memory. {error}".rstrip() + notes
    if isinstance(error, OSError) and error.errno is not None and error.strerror:
        named = error.filename2 or error.filename  # of a rename, the target: the name the user gave
        place = f"{named}: " if named is not None else ""
        remedy = REMEDIES.get(error.errno, "")
        return f"{place}{error.strerror}. {remedy}".rstrip() + notes
    return (str(error) or type(error).__name__) + notes


def writable_folder(folder: Path) -> Path:
    """Make a folder and write into it once, so that an unusable one fails before the work."""
    folder.mkdir(parents=True, exist_ok=True)
    probe = folder / ".write-probe"
    with probe.open("w"):
        pass
    probe.unlink()
    return folder


@contextmanager
def resumable(folder: Path) -> Iterator[None]:
    """Turn Ctrl-C into a line that says how to resume, and exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        _calm()
        say(f"Interrupted. Finished steps are kept in {folder}; to resume: {command()}")
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def stoppable() -> Iterator[None]:
    """Let SIGINT and SIGTERM end the process with exit code 130 or 143, from anywhere in the block.

    Libraries that import others lazily may swallow the exception of Ctrl-C, or turn it into another
    one. So it is raised again until it leaves the block. In a thread, and where there are no
    timers (Windows), signals are left as they are.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        yield
        return
    codes: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 (a signal handler)
        if number != signal.SIGALRM:
            codes.append(128 + number)
        signal.setitimer(signal.ITIMER_REAL, AGAIN)
        raise KeyboardInterrupt

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        for number in numbers:
            if before[number] != signal.SIG_IGN:  # as under nohup
                signal.signal(number, stop)
        yield
    except BaseException:
        if not codes:
            raise
    finally:
        _calm()
        for number, handler in before.items():
            signal.signal(number, handler)
    if codes:
        raise SystemExit(codes[0])


def _calm() -> None:
    """Raise no interrupt again: this one was taken."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)


def command() -> str:
    """Return the command line as it can be typed again."""
    return shlex.join(["dessl", *TYPED.get()])
