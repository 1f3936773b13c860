"""``dessl`` and ``python -m dessl``: from the first line on, an interrupt ends them with one line.

Only programs import this module. Its handlers serve until :func:`dessl.cli.main.main` has its own.
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
