"""Jobs of two ranks, started and ended as ``torchrun`` does, by forks of this process."""

import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Callable

import torch
from torch import distributed

RANKS = 2
DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG


def on_ranks(work: Callable[[], object]) -> None:
    """Do work on two ranks; if one ends badly, end the other and this process by SIGKILL.

    An end with an exit code of 2, after a message, is passed on.
    """
    store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    processes = []
    for number in range(RANKS):
        process = os.fork()
        if process == 0:
            _rank(number, store.port, work)
        processes.append(process)
    codes = []
    while len(codes) < RANKS:
        _, status = os.waitpid(-1, 0)
        codes.append(os.waitstatus_to_exitcode(status))
        if codes[-1] < 0:
            for process in processes:
                _end(process)
            os.kill(os.getpid(), signal.SIGKILL)
    if any(codes):
        raise SystemExit(max(codes))


def _end(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return


def _rank(number: int, port: int, work: Callable[[], object]) -> None:
    code = 1
    try:
        ctypes.CDLL(None).prctl(DIES_WITH_PARENT, signal.SIGKILL)
        torch.set_num_threads(1)
        os.environ |= {"RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": str(RANKS)}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "True"
        try:
            work()
            code = 0
        except SystemExit as left:
            code = int(left.code or 0)
    except BaseException:  # noqa: BLE001 (the log must have it)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
