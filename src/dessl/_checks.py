"""Argument checks with uniform messages: what was expected, what was given, what to do."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

ArrayLike: TypeAlias = "Tensor | NDArray[Any] | Sequence[Any]"

# How far a row of target probabilities may sum from one: a softmax rounded to half precision.
ROW_SUM_TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 2e-2}
ROW_SUM_TOLERANCE_OTHERWISE = 1e-3  # it may have been computed in float16


def quoted(value: object, *, most: int = 60) -> str:
    """Return a value's repr, shortened: it may be the content of a whole file.

    >>> quoted("yes"), quoted("a" * 100_000, most=5), quoted(10**100, most=5)
    ("'yes'", "'aaaaa…' (100,000 characters)", '10000…')
    """
    if isinstance(value, str) and len(value) > most:
        return f"{value[:most] + '…'!r} ({len(value):,} characters)"
    try:
        written = repr(value)
    except ValueError:  # Python refuses to write whole numbers of thousands of digits
        return f"a huge {type(value).__name__}"
    return written if isinstance(value, str) else shortened(written, most=most)


def shortened(text: str, *, most: int) -> str:
    """Return at most ``most`` characters of a text, with an ellipsis if it was truncated.

    >>> shortened("word", most=4), shortened("words", most=4)
    ('word', 'word…')
    """
    return text if len(text) <= most else f"{text[:most]}…"


def one_of(name: str, value: object, options: Sequence[object], *, hint: str = "") -> None:
    """Reject a value that is not among the options."""
    if value not in options:
        allowed = ", ".join(repr(option) for option in options)
        raise ValueError(f"{name} must be one of {allowed}; got {quoted(value)}. {hint}".rstrip())


def per_sample(name: str, value: object, *, hint: str = "") -> Tensor:
    """Reject anything but a finite floating tensor (n,), n ≥ 1; return it in at least float32."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{name} must be a torch.Tensor of shape (n,); got {type(value).__name__}. "
            "Convert it with torch.as_tensor(...)."
        )
    if not value.is_floating_point():
        raise TypeError(
            f"{name} must be a floating-point tensor; got {value.dtype}. Convert it with .float()."
        )
    if value.ndim != 1:
        raise ValueError(
            f"{name} must hold one value for each sample, shape (n,); got {tuple(value.shape)}."
            + (f" {hint}" if hint else "")
        )
    if value.shape[0] == 0:
        raise ValueError(
            f"{name} must hold at least one sample; got none. Skip batches without such rows, or "
            "draw every batch with some."
        )
    finite(name, value)
    return summable(value)


def summable(value: Tensor) -> Tensor:
    """Return half precision, which cannot hold sums over many samples, as float32."""
    return value.float() if value.dtype in (torch.float16, torch.bfloat16) else value


def finite(name: str, value: Tensor) -> None:
    """Reject NaN and infinite entries, if they can be inspected (see ``_count``)."""
    count = _count(~torch.isfinite(value.detach()))
    if count:
        raise ValueError(
            f"{name} must be finite; {count} of its {value.numel()} entries are NaN or infinite. "
            "Check the model's outputs: the usual cause is a model that diverged or overflowed."
        )


def between(
    name: str,
    value: Tensor,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    open_low: bool = False,
    advice: str = "",
) -> None:
    """Reject entries outside [low, high] or (low, high], if they can be inspected."""
    seen = value.detach()
    if _count((seen <= low if open_low else seen < low) | (seen > high)):
        got = f"from {float(seen.min()):g} to {float(seen.max()):g}" if seen.ndim else f"{seen:g}"
        left = "(" if open_low else "["
        raise ValueError(
            f"{name} must lie in {left}{low:g}, {high:g}]; got {got}. {advice}".rstrip()
        )


def distributions(name: str, value: Tensor) -> None:
    """Reject rows (..., classes) that are not at least 0 with a sum of 1, if they can be inspected.

    NaN is let through, like other values that diverged: the caller's loss shows it.
    """
    if _cannot_be_read(value):  # do not even compute the sums there
        return
    seen = value.detach()
    total = seen.sum(-1)
    wrong = (total - 1).abs() > ROW_SUM_TOLERANCE.get(value.dtype, ROW_SUM_TOLERANCE_OTHERWISE)
    if _count((seen < 0).any(-1) | wrong):
        raise ValueError(
            f"each row of {name} must be a distribution over the classes, at least 0 and summing "
            f"to 1; the smallest entry is {float(seen.min()):g} and rows sum to "
            f"{float(total.min()):g} to {float(total.max()):g}. Pass probabilities, not logits."
        )


def _count(bad: Tensor) -> int:
    """Count the bad entries, or return 0 if counting would change how the code runs.

    Inspecting values synchronises with the GPU and is impossible inside ``torch.compile`` and
    ``torch.func.vmap``: there a bad entry propagates to the result, where the caller can see it.
    """
    if _cannot_be_read(bad):
        return 0
    try:
        return int(bad.sum())
    except RuntimeError:  # under vmap: many runs at once, no single count
        return 0


def _cannot_be_read(value: Tensor) -> bool:
    return torch.compiler.is_compiling() or value.device.type != "cpu"


def same_length(name: str, value: Tensor, other_name: str, other: Tensor) -> None:
    """Reject two per-sample tensors with different numbers of rows."""
    if value.shape[0] != other.shape[0]:
        raise ValueError(
            f"{name} and {other_name} must have the same number of rows; "
            f"got {value.shape[0]} and {other.shape[0]}."
        )


def same_device(**tensors: Tensor) -> None:
    """Reject tensors on different devices."""
    devices = {name: str(tensor.device) for name, tensor in tensors.items()}
    if len(set(devices.values())) > 1:
        listed = ", ".join(f"{name} on {device}" for name, device in devices.items())
        raise ValueError(f"all tensors must be on one device; got {listed}. Move them with .to().")


def scalar(name: str, value: object) -> float | Tensor:
    """Reject anything but a finite number or a tensor of shape ()."""
    if isinstance(value, Tensor):
        if value.is_complex() or value.dtype == torch.bool:
            raise TypeError(
                f"{name} must be a real number or a real tensor of shape (); got a tensor of "
                f"{value.dtype}. Pass a float, or a floating-point tensor."
            )
        if value.ndim != 0:
            raise ValueError(
                f"{name} must be a number or a tensor of shape (); got {tuple(value.shape)}. "
                f"For one {name} per run, map over runs with torch.func.vmap."
            )
        finite(name, value)
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(
            f"{name} must be a number or a tensor of shape (); got {type(value).__name__}."
        )
    try:
        found = float(value)
    except OverflowError as error:  # a whole number larger than any float
        raise ValueError(f"{name} must be finite; got {quoted(value)}.") from error
    if not math.isfinite(found):
        raise ValueError(f"{name} must be finite; got {value}.")
    return found


def number(
    name: str,
    value: object,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    open_low: bool = False,
    open_high: bool = False,
) -> float:
    """Reject anything but a number inside an interval."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{name} must be a number; got {type(value).__name__}.")
    try:
        found = float(value)
    except OverflowError as error:  # a whole number larger than any float
        raise ValueError(f"{name} must be finite; got {quoted(value)}.") from error
    above = value > low if open_low else value >= low
    below = value < high if open_high else value <= high
    if not (above and below):
        left, right = "(" if open_low else "[", ")" if open_high else "]"
        raise ValueError(f"{name} must lie in {left}{low:g}, {high:g}{right}; got {value}.")
    return found


def whole_number(name: str, value: object, *, low: int = 0, high: int | None = None) -> int:
    """Reject anything but an integer inside [low, high]."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(
            f"{name} must be a whole number; got {type(value).__name__} {quoted(value)}."
        )
    if value < low or (high is not None and value > high):
        wanted = f"at least {low}" if high is None else f"between {low} and {high}"
        raise ValueError(f"{name} must be {wanted}; got {quoted(int(value))}.")
    return int(value)


def numbers_of(name: str, value: object, *, advice: str = "") -> list[Any]:
    """Return the entries of a list, an array or a tensor; each is then for :func:`number`.

    >>> numbers_of("weights", torch.tensor([1.0, 0.5]))
    [1.0, 0.5]
    >>> numbers_of("weights", 0.5, advice="Pass one for each term.")
    Traceback (most recent call last):
    TypeError: weights must be a list of numbers; got float 0.5. Pass one for each term.
    """
    entries = value.tolist() if isinstance(value, Tensor | np.ndarray) else value
    if isinstance(entries, str) or not isinstance(entries, Iterable):
        raise TypeError(
            f"{name} must be a list of numbers; got {type(value).__name__} {quoted(value)}. "
            f"{advice}".rstrip()
        )
    return list(entries)


def true_or_false(name: str, value: object) -> bool:
    """Reject anything but a boolean: any non-empty text, even "no", would count as true."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False; got {quoted(value)}.")
    return bool(value)


def device(name: str, value: str) -> torch.device:
    """Reject a device that PyTorch does not have here."""
    try:
        found = torch.device(value)
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError) as error:
        first = str(error).splitlines()[0].rstrip(".")
        raise ValueError(f"{name} must be usable here; got {value}: {first}. Use cpu.") from error
    return found


def unmasked(name: str, value: object) -> None:
    """Reject an array with masked entries: NumPy would read the values behind the mask."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ValueError(
            f"{name} must have a value in every entry; got a masked array. Impute the masked "
            "entries first, or drop their rows."
        )


def numbers(name: str, value: object) -> "Tensor | NDArray[Any]":
    """Return a tensor unchanged, and anything else as an array of numbers in its own dtype."""
    if isinstance(value, Tensor):
        return value.detach()
    unmasked(name, value)
    try:
        array = np.asarray(value)
        if array.dtype.kind == "O" and array.ndim:  # numbers in Python's own boxes
            array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name} must be an array or a tensor of numbers, with rows of equal length; got a "
            f"{type(value).__name__} that is not."
        ) from error
    if array.dtype.kind not in "buifc":
        raise TypeError(f"{name} must be an array or a tensor of numbers; got {array.dtype}.")
    return array


def float64(name: str, value: ArrayLike, *, ndim: int | Sequence[int]) -> Tensor:
    """Convert an array, sequence or tensor to a detached float64 tensor of ``ndim`` dimensions."""
    found = numbers(name, value)
    tensor = found if isinstance(found, Tensor) else shared(found)
    if tensor.is_complex():
        raise TypeError(f"{name} must hold real numbers; got {tensor.dtype}.")
    allowed = (ndim,) if isinstance(ndim, int) else tuple(ndim)
    if tensor.ndim not in allowed:
        wanted = " or ".join(str(n) for n in allowed)
        raise ValueError(
            f"{name} must have {wanted} dimension(s); got shape {tuple(tensor.shape)}."
        )
    if tensor.numel() == 0:
        raise ValueError(f"{name} must not be empty; got shape {tuple(tensor.shape)}.")
    tensor = tensor.to(torch.float64)
    if not bool(torch.isfinite(tensor).all()):
        count = int((~torch.isfinite(tensor)).sum())
        raise ValueError(
            f"{name} must be finite; {count} of its {tensor.numel()} entries are NaN or infinite."
        )
    return tensor


def shared(array: "NDArray[Any]") -> Tensor:
    """Return the array as a float64 tensor, in the same memory if PyTorch can use it."""
    if array.dtype.kind in "buif":  # also where PyTorch reads neither the strides nor the bytes
        array = np.asarray(array, np.float64, order="C")
    # PyTorch warns of arrays it could write through; a memory map is read all the same, as a copy.
    return torch.as_tensor(array if array.flags.writeable else array.copy())
