"""STL-10's binary files: bare pixels, each channel stored column by column, labels from 1 to 10."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dessl.data.errors import DataError
from dessl.data.formats.reading import (
    FETCH_AGAIN,
    MAX_BYTES,
    Labels,
    check_limit,
    class_indices,
    file_size,
    fill,
    reading,
    same_count,
    text_lines,
)
from dessl.data.parts import Part, RawData

SHAPE = (3, 96, 96)
PIXELS = 3 * 96 * 96


def read_stl10(
    folder: str | Path, *, unlabelled: bool = True, max_bytes: int = MAX_BYTES
) -> RawData:
    """STL-10 from ``stl10_binary``: 5,000 labelled images, then 100,000 unlabelled ones.

    Args:
        folder: Folder with train_X.bin, train_y.bin, unlabeled_X.bin, test_X.bin, test_y.bin and
            class_names.txt.
        unlabelled: Whether to read unlabeled_X.bin, 2.8 GB, after the training images.
        max_bytes: Upper limit on the bytes of the images.

    Returns:
        Images (n, 3, 96, 96), y = -1 for the unlabelled ones, the test files as the test part.

    Raises:
        DataError: A file is missing or wrong.
    """
    folder = Path(folder)
    names = text_lines(folder / "class_names.txt", "10 class names, one per line")
    if len(names) != 10 or len(set(names)) != 10:
        raise DataError.of(
            folder / "class_names.txt",
            expected="10 different class names",
            got=f"{len(set(names))} in {len(names)} lines",
            do=FETCH_AGAIN,
        )
    labels = _labels(folder / "train_y.bin")
    test_labels = _labels(folder / "test_y.bin")
    parts = ["train_X.bin", "unlabeled_X.bin"] if unlabelled else ["train_X.bin"]
    x, n_train = _images([folder / part for part in parts], max_bytes)
    same_count(folder / "train_y.bin", x[:n_train], labels)
    test_x, _ = _images([folder / "test_X.bin"], max_bytes)
    same_count(folder / "test_y.bin", test_x, test_labels)
    y = np.full(len(x), -1, np.int64)
    y[:n_train] = labels
    rows, test = Part.of_arrays(x, y), Part.of_arrays(test_x, test_labels)
    return RawData(rows, names, test=test)


def swap_rows_and_columns(images: NDArray[np.uint8]) -> None:
    """Transpose square images (n, channels, side, side) in place, a few at a time.

    >>> image = np.arange(4, dtype=np.uint8).reshape(1, 1, 2, 2)
    >>> swap_rows_and_columns(image)
    >>> image.tolist()
    [[[[0, 2], [1, 3]]]]
    """
    for start in range(0, len(images), 64):
        piece = images[start : start + 64]
        piece[:] = piece.swapaxes(2, 3).copy()


def _images(paths: list[Path], max_bytes: int) -> tuple[NDArray[np.uint8], int]:
    """All images of the files in one array, and how many are in the first file."""
    counts = [_image_count(path) for path in paths]
    check_limit(paths[0], sum(counts) * PIXELS, max_bytes)
    x = np.empty((sum(counts), *SHAPE), np.uint8)
    start = 0
    for path, count in zip(paths, counts, strict=True):
        with reading(path, "STL-10 images"), path.open("rb") as file:
            fill(file, x[start : start + count], path)
        start += count
    swap_rows_and_columns(x)
    return x, counts[0]


def _image_count(path: Path) -> int:
    size = file_size(path, f"STL-10 images of {PIXELS:,} bytes")
    if size == 0 or size % PIXELS:
        raise DataError.of(
            path,
            expected=f"a whole number of images of {PIXELS:,} bytes",
            got=f"{size:,} bytes",
            do=FETCH_AGAIN,
        )
    return size // PIXELS


def _labels(path: Path) -> Labels:
    expected = "one label byte for each image"
    check_limit(path, file_size(path, expected), 2**24)
    with reading(path, expected):
        raw = np.frombuffer(path.read_bytes(), np.uint8)
    return class_indices(path, raw, 10, first=1)
