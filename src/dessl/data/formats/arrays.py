"""What every reader returns: plain arrays in the layout that training wants."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dessl.data.errors import DataError

Features: TypeAlias = NDArray[Any]  # uint8 (n, channels, height, width) or float32 (n, features)
Labels: TypeAlias = NDArray[np.int64]  # (n,), -1 where the label is missing


class RawPart(NamedTuple):
    """Rows that stay out of training: a validation or a test part.

    Attributes:
        x: uint8 images (n, channels, height, width) or a float32 table (n, features).
        y: Class indices (n,), -1 where missing.
    """

    x: Features
    y: Labels


@dataclass(frozen=True)
class RawData:
    """The arrays of one data set, as its files give them.

    Attributes:
        x: uint8 images (n, channels, height, width) or a float32 table (n, features); contiguous.
        y: int64 class indices (n,), -1 where missing.
        class_names: One name for each class index.
        validation: Rows the publisher set aside for choosing models.
        test: Rows the publisher set aside for the last look.
        feature_names: One name for each column of a table.
        row_names: One name for each row of x, where the files have one (image file names).
        bits: How many bits the values of 16-bit image files have, of which x keeps the upper 8.

    >>> data = RawData(np.zeros((2, 1, 4, 4), np.uint8), np.array([1, -1]), ("cat", "dog"))
    >>> data.x.shape, data.y.tolist(), data.class_names
    ((2, 1, 4, 4), [1, -1], ('cat', 'dog'))
    """

    x: Features
    y: Labels
    class_names: tuple[str, ...]
    validation: RawPart | None = None
    test: RawPart | None = None
    feature_names: tuple[str, ...] | None = None
    row_names: tuple[str, ...] | None = None
    bits: int = 8


def class_indices(path: Path, labels: NDArray[Any], n_classes: int, *, first: int = 0) -> Labels:
    """Labels of a file as indices from 0, refusing any outside its classes.

    Args:
        path: The file, for the error.
        labels: Numbers (n,) or (n, 1).
        n_classes: How many classes the file may name.
        first: The file's name for class 0.
    """
    flat = labels.reshape(-1)
    inside = (flat >= first) & (flat < first + n_classes) & (flat == np.floor(flat))
    if not inside.all():
        outside = np.flatnonzero(~inside)
        row = int(outside[0])
        raise DataError.of(
            path,
            expected=f"labels from {first} to {first + n_classes - 1}",
            got=f"label {flat[row]} at row {row} ({len(outside)} such rows)",
            do="The file is damaged or of another data set: remove it, and fetch it again.",
        )
    return flat.astype(np.int64) - first


def same_count(path: Path, x: NDArray[Any], y: NDArray[Any]) -> None:
    """Refuse images and labels of different number."""
    if len(x) != len(y):
        raise DataError.of(
            path,
            expected="one label for each row",
            got=f"{len(y)} labels for {len(x)} rows",
            do="The files belong to different data sets or one of them is cut short.",
        )


def digit_names(n_classes: int = 10) -> tuple[str, ...]:
    """Class names where the classes are just numbered.

    >>> digit_names(3)
    ('0', '1', '2')
    """
    return tuple(str(k) for k in range(n_classes))
