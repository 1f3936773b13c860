"""What is said of an error, and of an interrupted run, to somebody at a terminal."""

import errno
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import typer

from dessl.cli.output import say

MENDABLE = (OSError, ValueError, RuntimeError, ImportError, MemoryError)
INTERRUPTED = 130
TYPED: ContextVar[tuple[str, ...]] = ContextVar("what was typed after dessl", default=())

REMEDIES = {
    errno.ENOSPC: "Free some space, or choose a folder on another disk.",
    errno.EDQUOT: "Free some space, or choose a folder on another disk.",
    errno.EACCES: "Choose a place that you may read and write.",
    errno.EPERM: "Choose a place that you may read and write.",
    errno.EROFS: "Choose a place that you may read and write.",
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
        named = error.filename2 or error.filename  # of a rename, where to: that one was asked for
        place = f"{named}: " if named is not None else ""
        remedy = REMEDIES.get(error.errno, "")
        return f"{place}{error.strerror}. {remedy}".rstrip() + notes
    return (str(error) or type(error).__name__) + notes


def writable_folder(folder: Path) -> Path:
    """Make a folder and try to write into it, so that an unusable place is said before the work."""
    folder.mkdir(parents=True, exist_ok=True)
    probe = folder / ".write-probe"
    with probe.open("w"):
        pass
    probe.unlink()
    return folder


@contextmanager
def resumable(folder: Path) -> Iterator[None]:
    """Turn Ctrl-C into a line that says how to go on, and exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"Interrupted. What is done is kept in {folder}; to go on: {command()}")
        raise typer.Exit(INTERRUPTED) from None


def command() -> str:
    """Return the command line as one could type it again."""
    return shlex.join(["dessl", *TYPED.get()])
