"""State that waits for the model and the data: made on the model's device, missed with an error."""

import torch
from torch import Tensor, nn

from dessl.surrogates.base import Surrogate


def device_of(model: nn.Module) -> torch.device:
    """Return the device of a model's first parameter, the CPU where it has none.

    >>> device_of(nn.Linear(2, 2))
    device(type='cpu')
    """
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))


def prepared(surrogate: Surrogate, name: str, log_p: Tensor | None = None) -> Tensor:
    """Return a buffer, refusing one that is not there or speaks of other classes.

    Args:
        surrogate: Whose buffer it is.
        name: Of the buffer.
        log_p: Log-probabilities (..., classes) that a buffer (classes,) is going to meet.
    """
    buffer = getattr(surrogate, name)
    kind = type(surrogate).__name__
    if buffer is None:
        raise RuntimeError(
            f"{kind} has no state yet. Call prepare(model, n_rows, n_classes) before the first "
            "step; training does."
        )
    if log_p is not None and len(buffer) != log_p.shape[-1]:
        raise ValueError(
            f"{kind} was prepared for {len(buffer)} classes; the model has {log_p.shape[-1]}. "
            "Call prepare again with the model's number of classes."
        )
    state: Tensor = buffer
    return state
