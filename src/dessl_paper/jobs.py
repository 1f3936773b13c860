"""Several processes of one command on this host, which share its GPUs: ``--jobs``."""

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from dessl.training.ranks import SHARED_GPUS

HOST = "127.0.0.1"


def run_jobs(arguments: Sequence[str], jobs: int) -> int:
    """Run a command of ``dessl`` in several processes that divide its runs among them.

    If this process is interrupted, the others are killed: what they had saved is kept, and the same
    command resumes.

    Args:
        arguments: Arguments after ``dessl``.
        jobs: Number of processes.

    Returns:
        The first exit code that is not 0, else 0.
    """
    command = [sys.executable, "-m", "dessl", *arguments]
    shared = shared_environment(jobs)
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for rank in range(jobs):
            own = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            # In a session of its own: a Ctrl-C in the terminal reaches this process only.
            process = subprocess.Popen(command, env=shared | own, start_new_session=True)  # noqa: S603 (our own command)
            processes.append(process)
        codes = [process.wait() for process in processes]
    except BaseException:
        for process in processes:
            process.kill()
            process.wait()
        raise
    return next((code for code in codes if code), 0)


def shared_environment(jobs: int) -> dict[str, str]:
    """The environment of all processes: how they meet, and a share of the cores for each."""
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    threads = max(1, len(os.sched_getaffinity(0)) // jobs) if sys.platform == "linux" else 1
    group = {"WORLD_SIZE": str(jobs), "MASTER_ADDR": HOST, "MASTER_PORT": str(port)}
    return {"OMP_NUM_THREADS": str(threads), **os.environ, **group, SHARED_GPUS: "1"}


def has_mps() -> bool:
    """Whether NVIDIA's MPS is running, so that processes use a GPU at the same time."""
    folder = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")  # noqa: S108 (NVIDIA's)
    return (Path(folder) / "control").exists()
