"""What ``--device`` stands for."""

import torch

from dessl import _checks


def device_named(name: str) -> torch.device:
    """Return the device of a name; ``"auto"`` is the GPU where there is one.

    Raises:
        ValueError: There is no such device.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return _checks.device("--device", name)
