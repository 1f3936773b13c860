"""SVHN's cropped digits: MATLAB files with X (32, 32, 3, n) and y, where 10 stands for 0."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from dessl.data.download import has_checksum
from dessl.data.errors import DataError
from dessl.data.formats.matlab import read_matlab
from dessl.data.formats.reading import class_indices, file_size, reading, same_count
from dessl.data.formats.stl10 import swap_rows_and_columns
from dessl.data.parts import Part, RawData, digit_names

CHECKSUMS = {
    "train_32x32.mat": "md5:e26dedcc434d2e4c54c9b2d4a06d8373",
    "test_32x32.mat": "md5:eb5a983be6a315427106f1b164d9cef3",
}
FILES = tuple(CHECKSUMS)
EXPECTED = "a MATLAB file with the arrays X and y"


def read_svhn(folder: str | Path, *, checksums: Mapping[str, str] | None = CHECKSUMS) -> RawData:
    """SVHN's cropped digits, with the test file as the test part.

    Args:
        folder: Folder with train_32x32.mat and test_32x32.mat.
        checksums: ``"md5:..."`` of each file; a file with a different one is refused. None reads
            any files of the publisher's form, such as digits cropped again from the full numbers.

    Returns:
        Images (n, 3, 32, 32) and the classes "0" to "9".

    Raises:
        DataError: A file is missing, is not the publisher's or does not have its form.
    """
    for name in FILES:
        file_size(Path(folder) / name, EXPECTED)
        if checksums is not None:
            _check(Path(folder) / name, checksums[name])
    train, test = (_cropped_digits(Path(folder) / name) for name in FILES)
    return RawData(train, digit_names(), test=test)


def _check(path: Path, checksum: str) -> None:
    with reading(path, EXPECTED):
        right = has_checksum(path, checksum)
    if not right:
        raise DataError.of(
            path,
            expected=f"the publisher's file, with the checksum {checksum}",
            got="another file",
            do="Replace it with an intact copy. Files of the same form that were rebuilt belong in "
            "the folder svhn_rebuilt.",
        )


def _cropped_digits(path: Path) -> Part:
    """Images (n, 3, 32, 32) and digits (n,) of one file."""
    found = read_matlab(path, ("X", "y"))
    pixels, labels = found["X"], found["y"]
    if pixels.shape[:3] != (32, 32, 3) or pixels.ndim > 4 or pixels.dtype != np.uint8:
        raise DataError.of(
            path,
            expected="X to be uint8 of shape (32, 32, 3, n)",
            got=f"{pixels.dtype} of shape {pixels.shape}",
            do="Use the cropped digits (format 2), not the full numbers.",
        )
    # MATLAB drops a last dimension of one, and stores the first index fastest.
    x = pixels.reshape(32, 32, 3, -1, order="F").T
    swap_rows_and_columns(x)
    same_count(path, x, labels.reshape(-1))
    return Part.of_arrays(x, (class_indices(path, labels, 10, first=1) + 1) % 10)
