"""Messages about errors and interrupted runs."""

import errno
import re
import shlex
from contextlib import AbstractContextManager
from contextvars import ContextVar
from pathlib import Path

from dessl.cli.stopping import saying

USER_ERRORS = (OSError, ValueError, RuntimeError, ImportError, MemoryError)
TYPED: ContextVar[tuple[str, ...]] = ContextVar("what was typed after dessl", default=())

REMEDIES = {
    errno.ENOSPC: "Free some space, or choose a folder on another disk.",
    errno.EDQUOT: "Free some space, or choose a folder on another disk.",
    errno.EFBIG: "Raise the file size limit (ulimit -f), or choose another disk.",
    errno.EACCES: "Choose a folder that you can read and write.",
    errno.EPERM: "Choose a folder that you can read and write.",
    errno.EROFS: "Choose a folder that you can read and write.",
    errno.ENOTDIR: "A file with this name exists: choose another folder.",
    errno.EEXIST: "A file with this name exists: choose another folder.",
    errno.ENOENT: "Check the path.",
    errno.EISDIR: "A folder with this name exists: choose another file name.",
}


def complaint(error: BaseException) -> str:
    """Return what went wrong and what to do, without a traceback.

    >>> print(complaint(OSError(errno.ENOSPC, "No space left on device", "runs/a/facts.json")))
    runs/a/facts.json: No space left on device. Free some space, or choose a folder on another
    disk.
    """
    notes = "".join(f" {note}" for note in getattr(error, "__notes__", ()))
    if isinstance(error, MemoryError):
        return f"not enough memory. {error}".rstrip() + notes
    if isinstance(error, OSError) and error.errno is not None and error.strerror:
        named = error.filename2 or error.filename  # of a rename, the target
        place = f"{named}: " if named is not None else ""
        remedy = REMEDIES.get(error.errno, "")
        return f"{place}{error.strerror}. {remedy}".rstrip() + notes
    return (str(error) or type(error).__name__) + notes


def writable_folder(folder: Path) -> Path:
    """Create a folder and test that it is writable, so that errors show before the work."""
    folder.mkdir(parents=True, exist_ok=True)
    probe = folder / ".write-probe"
    with probe.open("w"):
        pass
    probe.unlink()
    return folder


def resumable(folder: Path) -> AbstractContextManager[None]:
    """After Ctrl-C, print how to resume."""
    return saying(f"Interrupted. Finished steps are kept in {folder}; to resume: {command()}")


def command() -> str:
    """Return the command line, quoted for the shell."""
    return shlex.join(["dessl", *TYPED.get()])


def from_home(argument: str) -> str:
    """Expand a ~ that the shell leaves alone, as in --out=~/runs and "~/my scans"."""
    home = re.match(r"(--[\w-]+=)?~(?=[/\\]|$)", argument)
    return argument if home is None else f"{home[1] or ''}{Path.home()}{argument[home.end() :]}"
