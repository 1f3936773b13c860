"""The user's own npz file: features under x, labels under y."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dessl.data.errors import DataError, few
from dessl.data.features import feature_tensor
from dessl.data.formats.reading import MAX_BYTES, Labels, same_count
from dessl.data.formats.zipped import Npz, open_npz
from dessl.data.labels import codes_by_name, label_codes, warn_of_doubtful
from dessl.data.parts import Part, RawData

FEATURE_NAMES = ("x", "X", "images", "features")
LABEL_NAMES = ("y", "Y", "labels")


def read_npz(path: str | Path, *, layout: str | None = None, max_bytes: int = MAX_BYTES) -> RawData:
    """Features and labels that a user saved with ``numpy.savez``.

    The features are named x, X, images or features: uint8 images (n, height, width),
    (n, height, width, channels) or (n, channels, height, width), or numbers (n, features, ...).
    The labels are named y, Y or labels, shape (n,) or (n, 1): class numbers with -1 or NaN for
    missing, or text with "" for missing; other words for missing, such as the "nan" that NumPy
    makes of NaN among text, become classes, with a warning. An array ``class_names`` of text gives
    the classes in order.

    Args:
        path: The file; it is never unpickled.
        layout: ``"NCHW"`` or ``"NHWC"`` for images whose shape is ambiguous.
        max_bytes: Upper limit on the bytes of one array.

    Raises:
        DataError: The file is missing, damaged, or contains something else.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "mine.npz"
    ...     np.savez(path, x=np.eye(3), y=["yes", "", "no"])
    ...     data = read_npz(path)
    >>> data.x.dtype, data.y.tolist(), data.class_names
    (torch.float32, [1, -1, 0], ('no', 'yes'))
    """
    with open_npz(path, max_bytes=max_bytes) as arrays:
        features = arrays.array(_name(arrays, FEATURE_NAMES, "features"))
        labels = arrays.array(_name(arrays, LABEL_NAMES, "labels"))
        names = _class_names(arrays)
    x = _features(Path(path), features, layout)
    y, class_names = coded_labels(Path(path), labels, names)
    if names is None:
        warn_of_doubtful(class_names, where=f"{path}, labels", do='save "" in its place')
    same_count(Path(path), x, y)
    return RawData(Part.of_arrays(x, y), class_names)


def read_new_npz(
    path: str | Path,
    class_names: Sequence[str],
    *,
    labels: bool = True,
    layout: str | None = None,
    max_bytes: int = MAX_BYTES,
) -> RawData:
    """Rows for a trained model: labels may be missing, and the classes are those of the model.

    Labels are matched with the model's classes by name. Whole numbers stand for the file's own
    ``class_names``, in any order; without these, each number must be the name of a class, as it is
    if the model was trained on numbers.

    Args:
        path: The file; see :func:`read_npz`.
        class_names: The model's classes, in its order.
        labels: Whether to read the labels. If not, every label is missing.
        layout: ``"NCHW"`` or ``"NHWC"`` for images whose shape is ambiguous.
        max_bytes: Upper limit on the bytes of one array.

    Raises:
        DataError: The file is bad, or has a label or a name that is not one of the classes.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "new.npz"
    ...     np.savez(path, x=np.eye(3), y=[0, 1, -1], class_names=["sick", "well"])
    ...     read_new_npz(path, ["well", "sick"]).y.tolist()
    [1, 0, -1]
    """
    with open_npz(path, max_bytes=max_bytes) as arrays:
        features = arrays.array(_name(arrays, FEATURE_NAMES, "features"))
        given = labels and any(name in arrays.names for name in LABEL_NAMES)
        column = arrays.array(_name(arrays, LABEL_NAMES, "labels")) if given else None
        own_names = _class_names(arrays) if given else None
    x = _features(Path(path), features, layout)
    if column is None:
        column = np.full(len(x), -1, np.int64)
    y = new_coded_labels(Path(path), column, class_names, own_names)
    same_count(Path(path), x, y)
    return RawData(Part.of_arrays(x, y), tuple(class_names))


def _name(arrays: Npz, options: tuple[str, ...], what: str) -> str:
    found = [name for name in options if name in arrays.names]
    if len(found) != 1:
        raise DataError.of(
            arrays.path,
            expected=f"the {what} as an array named {' or '.join(options)}",
            got=f"the arrays {few(arrays.names, most=12) or 'none'}",
            do=f"Save them with numpy.savez(path, {options[0]}=...).",
        )
    return found[0]


def _class_names(arrays: Npz) -> list[str] | None:
    if "class_names" not in arrays.names:
        return None
    names = arrays.array("class_names")
    if names.ndim != 1 or names.dtype.kind != "U":
        raise DataError.of(
            arrays.path,
            expected="class_names to be text (classes,)",
            got=f"{names.dtype} of shape {names.shape}",
            do="Save them with class_names=numpy.array([...]).",
        )
    return [str(name) for name in names]


def _features(path: Path, features: NDArray[Any], layout: str | None) -> NDArray[Any]:
    try:
        tensor = feature_tensor("the features", features, layout=layout)
    except (TypeError, ValueError, RuntimeError) as error:
        raise _wrong_array(path, "uint8 images or a table of numbers", error) from error
    return np.ascontiguousarray(tensor.numpy())


def coded_labels(
    path: Path, labels: NDArray[Any], names: list[str] | None
) -> tuple[Labels, tuple[str, ...]]:
    """The labels (n,) or (n, 1) of a file as class numbers, and the classes; names may be given."""
    try:
        codes, class_names = label_codes({"the labels": _flat(labels)}, names)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise _wrong_array(path, "one class for each row", error) from error
    return codes["the labels"].numpy(), class_names


def new_coded_labels(
    path: Path, labels: NDArray[Any], names: Sequence[str], own_names: Sequence[str] | None
) -> Labels:
    """The labels of a file for a trained model, matched with its classes by name."""
    try:
        codes = codes_by_name("the labels", _flat(labels), names, own_names)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise _wrong_array(path, "one class of the model for each row", error) from error
    return codes.numpy()


def _flat(labels: NDArray[Any]) -> NDArray[Any]:
    return labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels


def _wrong_array(path: Path, expected: str, error: Exception) -> DataError:
    return DataError(f"{path}: expected {expected}; {error}")
