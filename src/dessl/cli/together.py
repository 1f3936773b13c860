"""``torchrun -m dessl fit`` and ``reproduce``: several processes, one of which prints.

Rank 0 prints. Another rank prints an error only if no other rank has printed it.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

SECONDS = 5.0  # to wait for rank 0 to report an error in the command line
TOGETHER = ("fit", "reproduce")  # commands that share their work


def is_launched() -> bool:
    """Whether a launcher such as ``torchrun`` started this process as one of several.

    Does not import torch, so that ``dessl --help`` stays fast.
    """
    return os.environ.get("WORLD_SIZE", "1") not in ("", "0", "1")


@contextmanager
def joined(typed: Sequence[str]) -> Iterator[None]:
    """Join the other processes of a command, if there are any.

    Args:
        typed: Arguments after ``dessl``.

    Raises:
        ValueError: The command is for one process.
    """
    if not is_launched():
        yield
        return
    from dessl.training.ranks import process_group, rank, wait_for_first

    name = next((word for word in typed if not word.startswith("-")), "--help")
    with process_group(), ExitStack() as stack:
        if name not in TOGETHER:
            raise ValueError(
                f"dessl {name} runs in one process: start it without torchrun. Only "
                f"{' and '.join(TOGETHER)} can use several."
            )
        if rank():
            nowhere = stack.enter_context(Path(os.devnull).open("w", encoding="utf-8"))
            stack.enter_context(redirect_stdout(nowhere))
            stack.enter_context(redirect_stderr(nowhere))
        try:
            yield
        except SystemExit as end:
            if end.code:  # rank 0 printed why; torchrun ends all ranks when the first one ends
                wait_for_first(SECONDS)
            raise


def prints_here(line: str) -> bool:
    """Whether this process should print a line that other ranks may print too."""
    if not is_launched():
        return True
    from dessl.training.ranks import is_first_to_print

    return is_first_to_print(line)
