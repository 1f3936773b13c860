"""Features as one tensor: images stay uint8 and become NCHW, everything else becomes float32."""

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from dessl import _checks

CHANNELS = (1, 3)  # sizes of a channel axis that is not named by layout
AT_ONCE = 2**20  # entries looked at in one go, in float64


def feature_tensor(name: str, x: "Tensor | NDArray[Any]", *, layout: str | None = None) -> Tensor:
    """The features as a tensor (n, channels, height, width) of bytes or (n, ...) of float32.

    Copies are avoided: a uint8 array and the tensor made from it share their
    memory, also when NHWC images become NCHW (a permuted view, which is PyTorch's channels-last
    format). Float64, float16 and integer tables are converted to float32.

    Args:
        name: The name of the features in error messages.
        x: uint8 images (n, channels, height, width), (n, height, width, channels) or
            (n, height, width); or numbers (n, features, ...).
        layout: ``"NCHW"`` or ``"NHWC"`` for images whose channel axis is ambiguous: those with
            other than 1 or 3 channels, or with 1 or 3 at both ends.

    Example:
        >>> feature_tensor("x", np.zeros((5, 32, 32, 3), dtype=np.uint8)).shape
        torch.Size([5, 3, 32, 32])
        >>> feature_tensor("x", np.zeros((5, 4))).dtype
        torch.float32
    """
    tensor = shared_tensor(name, x)
    if tensor.ndim < 2:
        raise ValueError(
            f"{name} must have one row of features for each sample, shape (n, ...); "
            f"got {tuple(tensor.shape)}."
        )
    if tensor.numel() == 0:
        raise ValueError(f"{name} must not be empty; got shape {tuple(tensor.shape)}.")
    if tensor.dtype == torch.uint8 and tensor.ndim > 2:
        return _channels_first(name, tensor, layout)
    if layout is not None:
        raise ValueError(
            f"layout={_checks.quoted(layout)} is for uint8 images; got {name} of {tensor.dtype} "
            f"with shape {tuple(tensor.shape)}. Omit layout."
        )
    return _floats(name, tensor)


def shared_tensor(name: str, x: "Tensor | NDArray[Any]") -> Tensor:
    """A tensor over the array's own memory, if PyTorch can read it without a copy."""
    if isinstance(x, Tensor):
        return x.detach()
    if isinstance(x, Dataset | DataLoader):
        raise TypeError(
            f"{name} must be an array or a tensor; got {type(x).__name__}. Read a PyTorch Dataset "
            "of pairs with SemiData.from_dataset(dataset)."
        )
    _checks.unmasked(name, x)
    array = np.asarray(x)
    if array.dtype.kind not in "buif":
        raise TypeError(
            f"{name} must be an array or a tensor of real numbers; got dtype {array.dtype}. "
            "Encode text columns as numbers first, make a sparse matrix dense with .toarray(), and "
            "convert a frame of mixed types with .astype(float)."
        )
    size = array.dtype.itemsize
    readable = array.dtype.isnative and all(s >= 0 and s % size == 0 for s in array.strides)
    if not readable:
        array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    with warnings.catch_warnings():
        # A read-only array (a memory map) is shared all the same: nothing here writes to it.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def _channels_first(name: str, images: Tensor, layout: str | None) -> Tensor:
    shape = tuple(images.shape)
    if layout is not None:
        _checks.one_of("layout", layout, ("NCHW", "NHWC"))
    if images.ndim == 3 and layout is None:
        return images.unsqueeze(1)
    if images.ndim != 4:
        raise ValueError(
            f"{name} must be uint8 images of shape (n, channels, height, width), "
            f"(n, height, width, channels) or (n, height, width); got {shape}"
            + (f" with layout={_checks.quoted(layout)}." if layout else ".")
        )
    if layout is None:
        first, last = shape[1] in CHANNELS, shape[3] in CHANNELS
        if first == last:
            problem = "either end could be" if first else "neither end is"
            raise ValueError(
                f"{name} has shape {shape}, and {problem} a channel axis of 1 or 3. "
                "Pass layout='NCHW' or layout='NHWC' to SemiData; elsewhere, drop an alpha channel "
                "with x[..., :3], or pass floats with channels first."
            )
        layout = "NCHW" if first else "NHWC"
    return images if layout == "NCHW" else images.permute(0, 3, 1, 2)


def _floats(name: str, numbers: Tensor) -> Tensor:
    if numbers.layout != torch.strided:
        raise TypeError(
            f"{name} must be a dense tensor; got {numbers.layout}. Convert it with .to_dense()."
        )
    if numbers.is_complex():
        raise TypeError(f"{name} must be real numbers; got {numbers.dtype}.")
    if numbers.ndim > 2 and not numbers.is_floating_point():
        raise TypeError(
            f"{name} of shape {tuple(numbers.shape)} must be uint8 images or floats; "
            f"got {numbers.dtype}. Convert images of 0 to 255 with .astype('uint8')."
        )
    floats = numbers.to(torch.float32)
    lowest, highest = torch.aminmax(floats)  # NaN if one entry is
    near = bool(torch.isfinite(highest - lowest))
    if not near and not all(bool(torch.isfinite(some).all()) for some in _pieces(floats)):
        raise _not_finite(name, numbers.flatten(1), floats.flatten(1))
    if numbers.ndim == 2 and numbers.dtype != torch.float32 and len(numbers) > 1:
        _warn_of_lost_digits(name, numbers, floats)
    return floats


def _not_finite(name: str, numbers: Tensor, floats: Tensor) -> ValueError:
    """The error for rows with NaN, infinity, or numbers that float32 cannot hold."""
    bad = ~torch.isfinite(floats)
    large = bad & torch.isfinite(numbers)
    what, do = "NaN or infinite", "Impute missing values first, or drop their rows."
    if bool(large.any()):
        bad, what = large, f"too large for float32, such as {float(numbers[large][0]):g}"
        do = "Scale these columns, or take their logarithm."
    n, columns = int(bad.sum()), bad.any(0).nonzero().flatten().tolist()
    return ValueError(
        f"{name} must be finite in float32; {n} entr{'y is' if n == 1 else 'ies are'} {what}, in "
        f"column{'s' * (len(columns) > 1)} {', '.join(map(str, columns[:8]))}"
        f"{', ...' if len(columns) > 8 else '.'} {do}"
    )


def _pieces(rows: Tensor) -> tuple[Tensor, ...]:
    return torch.split(rows, max(1, AT_ONCE // rows[0].numel()))


def _warn_of_lost_digits(name: str, numbers: Tensor, floats: Tensor) -> None:
    """Warn if rows differ in digits that float32 does not keep, as times in seconds do."""
    mean = numbers.mean(0, dtype=torch.float64)
    squares, lost = torch.zeros_like(mean), torch.zeros_like(mean)
    for some, kept in zip(_pieces(numbers), _pieces(floats), strict=True):
        exact = some.double()
        squares += (exact - mean).square_().sum(0)
        lost = torch.maximum(lost, (exact - kept).abs_().amax(0))
    spread = (squares / len(numbers)).sqrt()
    columns = ((lost > 1e-3 * spread) & (spread > 1e-12 * mean.abs())).nonzero().flatten().tolist()
    if columns:
        first = columns[0]
        warnings.warn(
            f"column(s) {', '.join(map(str, columns[:8]))}{', ...' if len(columns) > 8 else ''} of "
            f"{name} differ only in digits that float32 drops: values near "
            f"{mean[first].item():.6g} with a standard deviation of {spread[first].item():.3g}. "
            "Subtract their mean first, or scale them.",
            UserWarning,
            stacklevel=2,
        )
