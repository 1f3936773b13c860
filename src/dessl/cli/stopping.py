"""Ctrl-C and SIGTERM, from the first instruction to the last: one line, and exit code 130 or 143.

Three ways to stop, by what there is to lose. Before a command begins, after it ended and while a
module is being imported, the process ends at once: a library that is imported half may swallow the
exception of Ctrl-C or turn it into another one. Within a command the exception unwinds it, so that
its files are left whole; if a library swallows it, it is raised again.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN = 1.0  # seconds after which an interrupt that was swallowed is raised again
NUMBERS = (signal.SIGINT, signal.SIGTERM)
IMPORTING = "<frozen importlib._bootstrap>"
CODES = tuple(128 + number for number in NUMBERS)
_codes: list[int] = []  # of the interrupts that came
_lines = ["Interrupted."]  # what to say: that of the innermost block
_last = ""  # what is going to be said, once that block is left


def stop_at_once() -> None:
    """Let SIGINT and SIGTERM end this process, now and until it has ended."""
    for number in NUMBERS:
        if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, _leave)


def _leave(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 (a signal handler)
    os.write(2, f"{farewell()}\n".encode(errors="replace"))
    os._exit(128 + number)


@contextmanager
def saying(line: str) -> Iterator[None]:
    """Let this be said at the end if the block is interrupted."""
    global _last
    _lines.append(line)
    try:
        yield
    except KeyboardInterrupt:
        _last = _last or line
        raise
    finally:
        _lines.pop()


def code_of_interrupt() -> int:
    """Return the exit code after an interrupt that came as a block was entered or left."""
    calm()
    return _codes[0] if _codes else CODES[0]


def farewell() -> str:
    """Return the line to say after an interrupt, once."""
    global _last
    line, _last = _last or _lines[-1], ""
    return line


@contextmanager
def stoppable() -> Iterator[None]:
    """Let SIGINT and SIGTERM end the process with exit code 130 or 143, from anywhere in the block.

    In a thread, and where there are no timers (Windows), signals are left as they are.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        yield
        return
    _codes.clear()

    def stop(number: int, frame: FrameType | None) -> None:
        if number != signal.SIGALRM:
            _codes.append(128 + number)
        if _importing(frame):
            _leave(_codes[0] - 128, frame)
        signal.setitimer(signal.ITIMER_REAL, AGAIN)
        raise KeyboardInterrupt

    hook = sys.unraisablehook

    def without_interrupts(found: "sys.UnraisableHookArgs") -> None:
        if not issubclass(found.exc_type, KeyboardInterrupt):  # one is raised again, not printed
            hook(found)

    numbers = (*NUMBERS, signal.SIGALRM)
    before = {number: signal.getsignal(number) for number in numbers}
    sys.unraisablehook = without_interrupts
    try:
        for number in numbers:
            if before[number] != signal.SIG_IGN:
                signal.signal(number, stop)
        yield
    except GeneratorExit:  # an interrupt came between the block and this
        raise
    except BaseException:
        if not _codes:
            raise
    finally:
        calm()
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)
    if _codes:
        raise SystemExit(_codes[0])


def calm() -> None:
    """Raise no interrupt again: this one was taken."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)


def _importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported."""
    while frame is not None:
        if frame.f_code.co_filename == IMPORTING:
            return True
        frame = frame.f_back
    return False
