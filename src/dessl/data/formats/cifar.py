"""CIFAR's binary version: records of one (CIFAR-10) or two (CIFAR-100) label bytes and an image."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dessl._checks import one_of
from dessl.data.errors import DataError
from dessl.data.formats.reading import (
    FETCH_AGAIN,
    MAX_BYTES,
    check_limit,
    class_indices,
    file_size,
    fill,
    reading,
    text_lines,
)
from dessl.data.parts import Part, RawData

SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32
CHUNK_RECORDS = 512
TRAIN_FILES = tuple(f"data_batch_{k}.bin" for k in range(1, 6))


def read_cifar10(folder: str | Path, *, max_bytes: int = MAX_BYTES) -> RawData:
    """CIFAR-10 from ``cifar-10-batches-bin``.

    Args:
        folder: Folder with data_batch_1.bin to data_batch_5.bin, test_batch.bin and
            batches.meta.txt.
        max_bytes: Upper limit on the bytes of the images.

    Returns:
        Images (n, 3, 32, 32), ten classes, test_batch.bin as the test part.

    Raises:
        DataError: A file is missing or wrong.
    """
    folder = Path(folder)
    names = _class_names(folder / "batches.meta.txt", 10)
    x, y = read_records([folder / name for name in TRAIN_FILES], (10,), max_bytes=max_bytes)
    test = read_records([folder / "test_batch.bin"], (10,), max_bytes=max_bytes)
    return RawData(_part(x, y, 0), names, test=_part(*test, 0))


def read_cifar100(
    folder: str | Path,
    *,
    labels: Literal["fine", "coarse"] = "fine",
    max_bytes: int = MAX_BYTES,
) -> RawData:
    """CIFAR-100 from ``cifar-100-binary``, with its 100 fine or its 20 coarse classes.

    Args:
        folder: Folder with train.bin, test.bin and fine_label_names.txt or coarse_label_names.txt.
        labels: Which of the two labels of an image to take.
        max_bytes: Upper limit on the bytes of the images.

    Returns:
        Images (n, 3, 32, 32), test.bin as the test part.

    Raises:
        DataError: A file is missing or wrong.
    """
    one_of("labels", labels, ("fine", "coarse"))
    folder = Path(folder)
    column, n_classes = (1, 100) if labels == "fine" else (0, 20)
    names = _class_names(folder / f"{labels}_label_names.txt", n_classes)
    x, y = read_records([folder / "train.bin"], (20, 100), max_bytes=max_bytes)
    test = read_records([folder / "test.bin"], (20, 100), max_bytes=max_bytes)
    return RawData(_part(x, y, column), names, test=_part(*test, column))


def read_records(
    paths: Sequence[Path], n_classes: Sequence[int], *, max_bytes: int = MAX_BYTES
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images (n, 3, 32, 32) and labels (n, label bytes) of some files, in one array each.

    Args:
        paths: Files of whole records.
        n_classes: The number of classes of each label byte in front of the pixels.
        max_bytes: Upper limit on the bytes of the images.
    """
    counts = [_record_count(path, len(n_classes)) for path in paths]
    check_limit(paths[0], sum(counts) * PIXELS, max_bytes)
    x = np.empty((sum(counts), PIXELS), np.uint8)
    y = np.empty((sum(counts), len(n_classes)), np.int64)
    start = 0
    for path, count in zip(paths, counts, strict=True):
        _read_file(path, x[start : start + count], y[start : start + count], n_classes)
        start += count
    return x.reshape(-1, *SHAPE), y


def _part(x: NDArray[np.uint8], y: NDArray[np.int64], column: int) -> Part:
    """The images with one of their labels."""
    return Part.of_arrays(x, np.ascontiguousarray(y[:, column]))


def _read_file(
    path: Path, x: NDArray[np.uint8], y: NDArray[np.int64], n_classes: Sequence[int]
) -> None:
    # A few records at a time: label bytes sit between the images, so the pixels have to move.
    labels = len(n_classes)
    buffer = np.empty((CHUNK_RECORDS, labels + PIXELS), np.uint8)
    with reading(path, "CIFAR records"), path.open("rb") as file:
        for start in range(0, len(x), CHUNK_RECORDS):
            records = buffer[: len(x) - start]
            fill(file, records, path)
            x[start : start + len(records)] = records[:, labels:]
            y[start : start + len(records)] = records[:, :labels]
    for column, count in enumerate(n_classes):
        class_indices(path, y[:, column], count)


def _record_count(path: Path, labels: int) -> int:
    record = labels + PIXELS
    size = file_size(path, f"CIFAR records of {record} bytes")
    if size == 0 or size % record:
        raise DataError.of(
            path,
            expected=f"a whole number of records of {record} bytes",
            got=f"{size:,} bytes",
            do=FETCH_AGAIN,
        )
    return size // record


def _class_names(path: Path, n_classes: int) -> tuple[str, ...]:
    expected = f"{n_classes} class names, one per line"
    names = text_lines(path, expected)
    if len(names) != n_classes or len(set(names)) != n_classes:
        raise DataError.of(
            path, expected=expected, got=f"{len(set(names))} different names", do=FETCH_AGAIN
        )
    return names
