"""What ``--device`` stands for."""

import torch


def device_named(name: str) -> torch.device:
    """Return the device of a name; ``"auto"`` is the GPU where there is one.

    Raises:
        ValueError: There is no such device.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        first = str(error).splitlines()[0].rstrip(".")
        raise ValueError(f"--device {name}: {first}. Use --device cpu.") from error
    return device
