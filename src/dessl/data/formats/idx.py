"""The idx format of MNIST: a magic number, big-endian sizes, then the array; plain or gzipped."""

import gzip
import struct
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from dessl.data.errors import DataError
from dessl.data.formats.reading import (
    FETCH_AGAIN,
    MAX_BYTES,
    byte_count,
    check_deflated,
    check_end,
    check_limit,
    class_indices,
    exact_bytes,
    file_size,
    fill,
    reading,
    same_count,
)
from dessl.data.parts import Part, RawData, digit_names

ELEMENTS = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
MAX_DIMENSIONS = 8
EXPECTED = "an idx file, plain or gzipped"


def read_idx(path: str | Path, *, max_bytes: int = MAX_BYTES) -> NDArray[Any]:
    """The array of one idx file, in the machine's own byte order.

    Args:
        path: The file; gzip is recognised by its first bytes, not by its name.
        max_bytes: A file whose header states more is refused before memory is allocated.

    Returns:
        An array of the shape and element type that the header states.

    Raises:
        DataError: The file is missing, truncated, too large or not an idx file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "labels-idx1-ubyte"
    ...     _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]))
    ...     read_idx(path)
    array([7, 2, 1], dtype=uint8)
    """
    path = Path(path)
    size = file_size(path, EXPECTED)
    with reading(path, EXPECTED, zlib.error), path.open("rb") as file:
        gzipped = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        stream: IO[bytes] | gzip.GzipFile = gzip.GzipFile(fileobj=file) if gzipped else file
        shape, dtype = _header(stream, path)
        n_bytes = byte_count(shape, dtype.itemsize)
        check_limit(path, n_bytes, max_bytes)
        if gzipped:
            check_deflated(path, n_bytes, size)
        elif n_bytes != (data_bytes := size - 4 - 4 * len(shape)):
            expected = f"{n_bytes:,} bytes of data, as its header says"
            raise DataError.of(path, expected=expected, got=f"{data_bytes:,}", do=FETCH_AGAIN)
        array = np.empty(shape, dtype)
        fill(stream, array, path)
        check_end(stream, path)
    return _native(array)


def read_mnist(folder: str | Path, *, max_bytes: int = MAX_BYTES) -> RawData:
    """MNIST, or any set with the same four files (Fashion-MNIST, KMNIST), plain or ``.gz``.

    Args:
        folder: Folder with train-images-idx3-ubyte, train-labels-idx1-ubyte and the two t10k files.
        max_bytes: Upper limit on the bytes of each file.

    Returns:
        Images (n, 1, height, width), ten classes, the t10k files as the test part.

    Raises:
        DataError: A file is missing or wrong.
    """
    folder = Path(folder)
    train = Part.of_arrays(*_images_and_labels(folder, "train", max_bytes))
    test = Part.of_arrays(*_images_and_labels(folder, "t10k", max_bytes))
    if test.x.shape[1:] != train.x.shape[1:]:
        raise DataError.of(
            folder,
            expected="training and test images of one size",
            got=f"{tuple(train.x.shape[2:])} and {tuple(test.x.shape[2:])}",
            do="The files belong to different data sets.",
        )
    return RawData(train, digit_names(), test=test)


def idx_path(folder: Path, name: str) -> Path:
    """The plain file if it exists, otherwise the gzipped one."""
    plain = folder / name
    return plain if plain.exists() else folder / f"{name}.gz"


def _images_and_labels(
    folder: Path, part: str, max_bytes: int
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    image_path = idx_path(folder, f"{part}-images-idx3-ubyte")
    label_path = idx_path(folder, f"{part}-labels-idx1-ubyte")
    images = read_idx(image_path, max_bytes=max_bytes)
    labels = read_idx(label_path, max_bytes=max_bytes)
    for path, array, ndim in ((image_path, images, 3), (label_path, labels, 1)):
        if array.ndim != ndim or array.dtype != np.uint8:
            raise DataError.of(
                path,
                expected=f"bytes in {ndim} dimension(s)",
                got=f"{array.dtype} in {array.ndim}",
                do="Are the image file and the label file swapped?",
            )
    same_count(label_path, images, labels)
    return images[:, None], class_indices(label_path, labels, 10)


def _header(stream: IO[bytes] | gzip.GzipFile, path: Path) -> tuple[tuple[int, ...], np.dtype[Any]]:
    zeros, element, ndim = struct.unpack(">HBB", exact_bytes(stream, 4, path))
    if zeros or element not in ELEMENTS or not 1 <= ndim <= MAX_DIMENSIONS:
        raise DataError.of(
            path,
            expected=f"{EXPECTED}, which begins with 00 00, an element type and 1 to 8 dimensions",
            got=f"{zeros:04x} {element:02x} {ndim:02x}",
            do="Check that the file is what its name says.",
        )
    shape = struct.unpack(f">{ndim}I", exact_bytes(stream, 4 * ndim, path))
    if 0 in shape:
        raise DataError.of(path, expected="some data", got=f"shape {shape}", do=FETCH_AGAIN)
    return shape, np.dtype(ELEMENTS[element])


def _native(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.isnative:
        return array
    return array.byteswap(inplace=True).view(array.dtype.newbyteorder("="))
