"""Atomic file writes, locks so that one process writes at a time, and checksums."""

import glob
import hashlib
import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_whole(path: Path, content: bytes | str) -> None:
    """Write a file through a temporary file and a rename, so that it is never seen incomplete.

    An existing file keeps its mode, and a link stays: its target is written. A device or a pipe is
    written to directly.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(Path(folder) / "notes" / "a.txt", "whole")
    ...     (Path(folder) / "notes" / "a.txt").read_text()
    'whole'
    """
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    exists = path.exists()
    if exists and not path.is_file():
        with naming(path):
            path.write_bytes(data)
        return
    temporary = neighbour(path)
    try:
        with temporary.open("xb") as file, naming(path):
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if exists:
            shutil.copymode(path, temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the file's name to a system error; the error for a full disk has none.

    >>> with naming(Path("runs/a.json")):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    OSError: [Errno 28] No space left on device: 'runs/a.json'
    """
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def write_through(path: Path, content: bytes, *, final: Path) -> None:
    """Write a file to the disk itself; a system error names the path that it will have."""
    with path.open("wb") as file, naming(final):
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def neighbour(path: Path) -> Path:
    """Return an unused hidden name next to a path.

    A file created there gets the permissions of the user's umask, whereas ``tempfile`` would make
    it readable for the user alone.
    """
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}")


def sweep(path: Path) -> None:
    """Remove incomplete files of killed processes; call it while no other process can write.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     neighbour(Path(folder) / "a.txt").touch()
    ...     sweep(Path(folder) / "a.txt")
    ...     list(Path(folder).iterdir())
    []
    """
    for left in path.parent.glob(f".{glob.escape(path.name)}.*"):
        if re.fullmatch("[0-9a-f]{8}", left.name.rpartition(".")[2]) and left.is_file():
            left.unlink()


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a path, after waiting for other processes to release it.

    The lock is a hidden file next to the path; the system releases it however the process ends.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    place = path.with_name(f".{path.name}.lock")
    while True:
        with place.open("a") as file:
            lock(file, wait=True)
            if not _is_same(file, place):
                continue  # who held it before has removed it
            try:
                yield
            finally:
                with suppress(OSError):  # Windows removes no open file
                    place.unlink()
            return


def lock(file: IO[Any], *, wait: bool) -> None:
    """Lock an open file until it is closed.

    Raises:
        OSError: Another process holds it, and ``wait`` is not set.
    """
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def _is_same(file: IO[Any], place: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), place.stat())
    except FileNotFoundError:
        return False
