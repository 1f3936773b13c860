"""The start of ``dessl``: signals first, then the command that was typed.

Exit codes: 0 success; 1 some of several experiments failed, the others finished; 2 a problem the
user can fix, reported in one line; 130 stopped by Ctrl-C, 143 by SIGTERM.
"""

import sys

TYPE_CHECKING = False  # from here on, an import may be interrupted: there are none before main()
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: "Sequence[str] | None" = None) -> None:
    """Run the command line and exit.

    Args:
        arguments: The arguments after ``dessl``; by default those of the process.
    """
    from dessl.cli.stopping import CODES, code_of_interrupt, farewell, stop_at_once, stoppable

    if arguments is None:
        stop_at_once()
    import atexit
    import gc
    import io

    from dessl.cli.app import app_for
    from dessl.cli.errors import TYPED, USER_ERRORS, complaint, from_home
    from dessl.cli.output import say
    from dessl.cli.together import joined, prints_here

    if arguments is None:  # imported packages are never garbage: search for it less often
        gc.set_threshold(10_000)
        atexit.register(gc.freeze)  # and not before Python ends
    if isinstance(sys.stdout, io.TextIOWrapper):  # few code pages have λ
        sys.stdout.reconfigure(errors="replace")
    try:
        typed = tuple(map(from_home, sys.argv[1:] if arguments is None else arguments))
        TYPED.set(typed)
        with stoppable(), joined(typed):
            app_for(typed)(typed)
    except USER_ERRORS as error:
        if prints_here(line := complaint(error)):
            say(f"dessl: {line}", style="red")
        sys.exit(2)
    except KeyboardInterrupt:  # as the block was left
        code = code_of_interrupt()
        say(farewell())
        sys.exit(code)
    except SystemExit as end:
        if end.code in CODES and prints_here("stopped"):
            say(farewell())
        raise
