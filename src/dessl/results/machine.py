"""Versions, machine and commit of a result."""

import os
import platform
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import torch

from dessl._version import __version__
from dessl.training.threads import threads_outside

COMMIT = "DESSL_COMMIT"  # environment variable, used without a git repository


def machine_facts() -> dict[str, str | int]:
    """Return the versions and the machine, so that a result can be reproduced.

    >>> machine_facts()["dessl"] == __version__
    True
    """
    cuda = torch.cuda.is_available()
    return {
        "dessl": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "platform": sys.platform,
        "processor": platform.machine(),
        "threads": threads_outside(),
        "device": torch.cuda.get_device_name() if cuda else "cpu",
    }


def commit() -> str | None:
    """The commit of the source: from git or ``DESSL_COMMIT``; None if neither is available."""
    return os.environ.get(COMMIT) or _commit_of_source()


@cache  # the source of a running process does not change, and every record needs it
def _commit_of_source() -> str | None:
    # Compare this file's blob, so that a repository around an installed package is not ours.
    place = Path(__file__)
    command = ["git", "-C", str(place.parent), "rev-parse", "HEAD", f"HEAD:./{place.name}"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.split()[0] if found.returncode == 0 else None
