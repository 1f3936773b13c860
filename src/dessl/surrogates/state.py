"""State that depends on the model and the data: created on the model's device."""

import torch
from torch import Tensor, nn

from dessl import _checks
from dessl.surrogates.base import Surrogate


def device_of(model: nn.Module) -> torch.device:
    """Return the device of a model's first parameter, or the CPU if it has none.

    >>> device_of(nn.Linear(2, 2))
    device(type='cpu')
    """
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))


def checked_ids(ids: Tensor, n: int, n_rows: int) -> Tensor:
    """Return row ids as indices; reject ids that would refer to other rows.

    Args:
        ids: Ids of the rows, shape (n,).
        n: Number of rows.
        n_rows: One more than the largest id that there is state for; checked on a CPU only.

    >>> checked_ids(torch.tensor([0, -1]), n=2, n_rows=5)
    Traceback (most recent call last):
    ValueError: ids must lie in [0, 4]; got from -1 to 0. An id is the row's position in \
the state prepared for all rows.
    """
    if not isinstance(ids, Tensor) or ids.is_floating_point() or ids.dtype == torch.bool:
        got = ids.dtype if isinstance(ids, Tensor) else type(ids).__name__
        raise TypeError(f"ids must be a tensor of whole numbers, one for each row; got {got}.")
    if ids.shape != (n,):
        raise ValueError(
            f"ids must hold one id for each of the {n} rows, shape ({n},); got {tuple(ids.shape)}."
        )
    advice = "An id is the row's position in the state prepared for all rows."
    ids = ids.long()  # a small integer cannot be compared with many rows
    _checks.between("ids", ids, 0, n_rows - 1, advice=advice)
    return ids


def check_fine_enough(average: Tensor) -> None:
    """Reject a moving average in half precision: it would not change.

    >>> check_fine_enough(torch.zeros(2, dtype=torch.bfloat16))
    Traceback (most recent call last):
    TypeError: a moving average must be in float32 or float64, since in half precision its steps \
round to nothing; got torch.bfloat16. Keep the model and the surrogate in float32 and let autocast \
compute in half precision: precision='bf16' of a TrainPlan, 'bf16-mixed' of Lightning's Trainer.
    """
    if average.element_size() < 4:
        raise TypeError(
            "a moving average must be in float32 or float64, since in half precision its steps "
            f"round to nothing; got {average.dtype}. Keep the model and the surrogate in float32 "
            "and let autocast compute in half precision: precision='bf16' of a TrainPlan, "
            "'bf16-mixed' of Lightning's Trainer."
        )


def move_towards(average: Tensor, value: Tensor, share: float) -> None:
    """Update a running average in place, whatever the precision of the value.

    >>> mean = torch.zeros(1, dtype=torch.float64)
    >>> move_towards(mean, torch.ones(1), share=0.25)
    >>> mean
    tensor([0.2500], dtype=torch.float64)
    """
    check_fine_enough(average)
    average.lerp_(value.to(average.dtype), share)


def prepared(surrogate: Surrogate, name: str, log_p: Tensor | None = None) -> Tensor:
    """Return a buffer; reject one that is missing or has other classes.

    Args:
        surrogate: The surrogate with the buffer.
        name: Name of the buffer.
        log_p: Log-probabilities (..., classes) to combine with the buffer (..., classes).
    """
    buffer = getattr(surrogate, name)
    kind = type(surrogate).__name__
    if buffer is None:
        raise RuntimeError(
            f"{kind} has no state yet. Call prepare(model, n_rows, n_classes) before the first "
            "step; training does."
        )
    if log_p is not None and buffer.shape[-1] != log_p.shape[-1]:
        raise ValueError(
            f"{kind} was prepared for {buffer.shape[-1]} classes; the model has "
            f"{log_p.shape[-1]}. Call prepare again with the model's number of classes, which is "
            "2 for one logit."
        )
    state: Tensor = buffer
    return state
