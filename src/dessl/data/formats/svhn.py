"""SVHN's cropped digits: MATLAB files with X (32, 32, 3, n) and y, where 10 stands for 0."""

from pathlib import Path

import numpy as np

from dessl.data.errors import DataError
from dessl.data.formats.arrays import RawData, RawPart, class_indices, digit_names, same_count
from dessl.data.formats.matlab import read_matrices
from dessl.data.formats.reading import MAX_BYTES
from dessl.data.formats.stl10 import swap_rows_and_columns


def read_svhn(folder: str | Path, *, max_bytes: int = MAX_BYTES) -> RawData:
    """SVHN's cropped digits, with the test file as the test part.

    Args:
        folder: Holds train_32x32.mat and test_32x32.mat.
        max_bytes: The most bytes that one array may take.

    Returns:
        Images (n, 3, 32, 32) and the classes "0" to "9".

    Raises:
        DataError: A file is missing or wrong.
    """
    folder = Path(folder)
    train = read_cropped_digits(folder / "train_32x32.mat", max_bytes=max_bytes)
    test = read_cropped_digits(folder / "test_32x32.mat", max_bytes=max_bytes)
    return RawData(train.x, train.y, digit_names(), test=test)


def read_cropped_digits(path: str | Path, *, max_bytes: int = MAX_BYTES) -> RawPart:
    """One file of cropped digits: train, test or extra.

    Args:
        path: The ``.mat`` file.
        max_bytes: The most bytes that one array may take.

    Returns:
        Images (n, 3, 32, 32) and the digits (n,).

    Raises:
        DataError: The file is missing or wrong.
    """
    path = Path(path)
    arrays = read_matrices(path, ("X", "y"), max_bytes=max_bytes)
    pixels, labels = arrays["X"], arrays["y"]
    if pixels.shape[:3] != (32, 32, 3) or pixels.ndim > 4 or pixels.dtype != np.uint8:
        raise DataError.of(
            path,
            expected="X to be uint8 of shape (32, 32, 3, n)",
            got=f"{pixels.dtype} of shape {pixels.shape}",
            do="Take the cropped digits (format 2), not the full numbers.",
        )
    # MATLAB drops a last dimension of one, and lays the first index out fastest.
    x = pixels.reshape(32, 32, 3, -1, order="F").T
    swap_rows_and_columns(x)
    same_count(path, x, labels.reshape(-1))
    return RawPart(x, (class_indices(path, labels, 10, first=1) + 1) % 10)
