"""What a result was made with: versions and machine."""

import platform
import sys

import numpy as np
import torch

from dessl._version import __version__


def machine_facts() -> dict[str, str | int]:
    """Return the versions and the machine, for a result to be repeatable.

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
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name() if cuda else "cpu",
    }
