"""Rows as bytes: equal where the rows are, and in the rows' order."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def row_keys(*columns: NDArray[Any]) -> NDArray[np.void]:
    """Return one string of bytes for each row, (n,), to be sorted or looked for equals in.

    They sort as the rows do, number by number from the left, and take no more memory than these.

    Args:
        columns: (n, ...) of floats without NaN, or of whole numbers from 0.

    >>> x = np.array([[1.0, 0.0], [-2.0, 5.0], [1.0, -0.0]])
    >>> np.unique(row_keys(x), return_inverse=True)[1].tolist()
    [1, 0, 1]
    """
    parts = [_bytes(part.reshape(len(part), -1)) for part in columns]
    joined = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
    keys: NDArray[np.void] = joined.view(f"V{joined.shape[1]}")[:, 0]
    return keys


def _bytes(numbers: NDArray[Any]) -> NDArray[np.uint8]:
    """Numbers (n, m) as bytes (n, m · size), the weightiest byte first."""
    if numbers.dtype.kind == "f":
        bits = (numbers + 0.0).view(f"i{numbers.dtype.itemsize}")  # -0 becomes 0
        numbers = np.where(bits < 0, ~bits, bits ^ np.iinfo(bits.dtype).min)  # as these sort
    ordered = np.ascontiguousarray(numbers, dtype=numbers.dtype.newbyteorder(">"))
    return ordered.view(np.uint8)
