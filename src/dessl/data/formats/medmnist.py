"""MedMNIST's npz files: images and labels of a training, a validation and a test part."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dessl.data.errors import DataError
from dessl.data.formats.reading import FETCH_AGAIN, MAX_BYTES, Labels, class_indices
from dessl.data.formats.zipped import Npz, open_npz
from dessl.data.parts import Part, RawData, digit_names


def read_medmnist(
    path: str | Path,
    *,
    class_names: Sequence[str] | None = None,
    validation: bool = True,
    max_bytes: int = MAX_BYTES,
) -> RawData:
    """A 2D set of MedMNIST, of any image size.

    Args:
        path: The publisher's npz: train_images, train_labels, and the same for val and test.
        class_names: The classes in order; by default they are numbered, up to the largest label.
        validation: Whether the file has a validation part; MedMNIST's own files do.
        max_bytes: Upper limit on the bytes of one array.

    Returns:
        Images (n, 1 or 3, height, width), with the validation and test parts of the file.

    Raises:
        DataError: The file is missing, damaged, or of another kind (3D, multi-label).
    """
    with open_npz(path, max_bytes=max_bytes) as arrays:
        names = ("train", "val", "test") if validation else ("train", "test")
        labels = {part: _labels(arrays, part) for part in names}
        if class_names is None:
            class_names = digit_names(1 + max(int(y.max()) for y in labels.values()))
            if len(class_names) < 2:
                raise DataError.of(
                    path,
                    expected="images of two classes or more",
                    got="the label 0 for all of them",
                    do="Pass class_names= if there are other classes.",
                )
        parts = {part: _part(arrays, part, labels[part], len(class_names)) for part in labels}
    train = parts["train"]
    for part in parts.values():
        if part.x.shape[1:] != train.x.shape[1:]:
            raise DataError.of(
                path,
                expected="images of one shape in all parts",
                got=f"{tuple(train.x.shape[1:])} and {tuple(part.x.shape[1:])}",
                do=FETCH_AGAIN,
            )
    return RawData(train, tuple(class_names), validation=parts.get("val"), test=parts["test"])


def _labels(arrays: Npz, part: str) -> Labels:
    name = f"{part}_labels"
    header = arrays.header(name)
    if len(header.shape) == 2 and header.shape[1] > 1:
        raise DataError.of(
            arrays.path,
            expected="one label for each image",
            got=f"{header.shape[1]} in {name}",
            do="Multi-label sets such as ChestMNIST are not supported.",
        )
    if header.dtype.kind not in "iu" or len(header.shape) not in (1, 2) or 0 in header.shape:
        raise DataError.of(
            arrays.path,
            expected=f"whole numbers (n, 1) in {name}",
            got=f"{header.dtype} of shape {header.shape}",
            do="Check that the file is a MedMNIST set.",
        )
    # No set has more classes than a byte can number; a larger label means a damaged file.
    return class_indices(arrays.path, np.ascontiguousarray(arrays.array(name)), 256)


def _part(arrays: Npz, part: str, labels: Labels, n_classes: int) -> Part:
    n_images = arrays.header(f"{part}_images").shape[:1]
    if n_images != (len(labels),):
        raise DataError.of(
            arrays.path,
            expected=f"the same number of images and labels in the {part} part",
            got=f"{n_images} images and {len(labels)} labels",
            do=FETCH_AGAIN,
        )
    y = class_indices(arrays.path, labels, n_classes)
    return Part.of_arrays(arrays.images(f"{part}_images"), y)
