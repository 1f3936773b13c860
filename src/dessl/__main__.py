"""``dessl`` and ``python -m dessl``: interrupts give a one-line message from the first line on.

Only programs import this module. :func:`dessl.cli.main.main` later replaces its signal handlers.
"""

# A part of Python itself: no file is searched for, and nothing else is imported.
import _signal  # type: ignore[import-not-found]
import os


def _leave(number: int, _frame: object) -> None:
    os.write(2, b"Interrupted.\n")
    os._exit(128 + number)


for _number in (_signal.SIGINT, _signal.SIGTERM):
    if _signal.getsignal(_number) != _signal.SIG_IGN:  # as under nohup
        _signal.signal(_number, _leave)

from dessl.cli.main import main  # noqa: E402 (signals first)

if __name__ == "__main__":
    main()
