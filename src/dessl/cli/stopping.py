"""Ctrl-C and SIGTERM, at any time: one line, and exit code 130 or 143.

There are three cases. Before a command begins, after it ended and during an import, the process
exits at once: a half-imported library may swallow the exception of Ctrl-C or turn it into another
one. Within a command, the exception unwinds the stack, so that files stay complete; if a library
swallows the exception, it is raised again.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN = 1.0  # seconds after which a swallowed interrupt is raised again
NUMBERS = (signal.SIGINT, signal.SIGTERM)
IMPORTING = "<frozen importlib._bootstrap>"
CODES = tuple(128 + number for number in NUMBERS)
_codes: list[int] = []  # exit codes of the interrupts received
_lines = ["Interrupted."]  # messages; the innermost block's comes last
_last = ""  # the message to print after that block


def stop_at_once() -> None:
    """From now on, exit at once on SIGINT and SIGTERM."""
    for number in NUMBERS:
        if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, _leave)


def _leave(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 (a signal handler)
    os.write(2, f"{farewell()}\n".encode(errors="replace"))
    os._exit(128 + number)


@contextmanager
def saying(line: str) -> Iterator[None]:
    """Print this line at the end if the block is interrupted."""
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
    """Return the exit code after an interrupt received while entering or leaving a block."""
    calm()
    return _codes[0] if _codes else CODES[0]


def farewell() -> str:
    """Return the line to print after an interrupt, once."""
    global _last
    line, _last = _last or _lines[-1], ""
    return line


@contextmanager
def stoppable() -> Iterator[None]:
    """On SIGINT or SIGTERM anywhere in the block, exit with code 130 or 143.

    In a thread, and where there are no timers (Windows), signal handlers stay unchanged.
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
    except GeneratorExit:  # an interrupt between the block and this line
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
    """Stop the timer: the interrupt was handled."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)


def _importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported."""
    while frame is not None:
        if frame.f_code.co_filename == IMPORTING:
            return True
        frame = frame.f_back
    return False
