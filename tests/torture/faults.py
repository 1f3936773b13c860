"""Signals to oneself at a chosen file operation, in a process that was forked for it.

Operations are those that change a folder: a file opened for writing, fsync, rename, replace,
unlink, mkdir and rmdir. At the chosen one the signal comes before it, after it, or, for a file
that is written, when half of the bytes of its first write are in it.
"""

import builtins
import io
import mmap
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

When = Literal["before", "after", "torn"]
CHANGES = ("replace", "rename", "fsync", "mkdir", "unlink", "rmdir")
WRITING = set("wxa+")


class Fault(NamedTuple):
    """Which operation, counted from 0, which signal, and when."""

    at: int
    number: signal.Signals
    when: When


class Operations:
    """Counts the operations below a folder, and raises the signal of a fault at its turn.

    Processes that are forked later count on together.

    Attributes:
        fault: What happens; None to count alone.
    """

    def __init__(self, folder: Path, fault: Fault | None) -> None:
        self.folder, self.fault = str(folder), fault
        self._shared = mmap.mmap(-1, 8)

    @property
    def count(self) -> int:
        """Operations so far."""
        return int.from_bytes(self._shared[:], "little")

    def arm(self) -> None:
        """Replace the functions of this process; there is no way back."""
        for name in CHANGES:
            setattr(os, name, self._watched(getattr(os, name)))
        opened = io.open

        def open_(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
            if not (set(mode) & WRITING and self._ours(file)):
                return opened(file, mode, *args, **options)
            due = self._due()
            self._strike(due, "before")
            found = opened(file, mode, *args, **options)
            self._strike(due, "after")
            return _Torn(found, self) if due else found

        io.open = builtins.open = open_  # type: ignore[assignment]

    def _watched(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(first: Any, *args: Any, **options: Any) -> Any:
            if not self._ours(first) and "dir_fd" not in options:
                return function(first, *args, **options)
            due = self._due()
            self._strike(due, "before")
            found = function(first, *args, **options)
            self._strike(due, "after")
            self._strike(due, "torn")
            return found

        return watched

    def _ours(self, what: Any) -> bool:
        if isinstance(what, int):
            return True
        path = os.path.join(os.getcwd(), os.fspath(what))  # noqa: PTH109, PTH118
        return path.startswith(self.folder)

    def _due(self) -> bool:
        number = self.count
        self._shared[:] = (number + 1).to_bytes(8, "little")
        return self.fault is not None and self.fault.at == number

    def _strike(self, due: bool, when: When) -> None:
        if due and self.fault is not None and self.fault.when == when:
            os.kill(os.getpid(), self.fault.number)
            time.sleep(0)  # where a signal is looked at


class _Torn:
    """A file whose first write stops half-way."""

    def __init__(self, file: Any, operations: Operations) -> None:
        self._file, self._operations, self._fresh = file, operations, True

    def write(self, content: Any) -> Any:
        if self._fresh and self._operations.fault and self._operations.fault.when == "torn":
            self._fresh = False
            self._file.write(content[: len(content) // 2])
            self._file.flush()
            self._operations._strike(True, "torn")
            return self._file.write(content[len(content) // 2 :])
        return self._file.write(content)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> "_Torn":
        self._file.__enter__()
        return self

    def __exit__(self, *error: Any) -> Any:
        return self._file.__exit__(*error)

    def __iter__(self) -> Any:
        return iter(self._file)
