"""From y, with its marks for missing labels, to class numbers with -1 and the classes."""

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from dessl.data.labels import is_missing, texts

UNLABELLED = -1


def codes_and_classes(y: Any) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return class numbers (n,) with -1 for unlabelled rows, and the sorted classes.

    A row is unlabelled where y is -1 among numbers, "" among text, or None, NaN or masked among
    anything.

    >>> codes_and_classes(np.array(["dog", None, "cat"], dtype=object))
    (array([ 1, -1,  0]), array(['cat', 'dog'], dtype=object))
    """
    if np.ma.is_masked(y):
        y = y.tolist()  # None where masked
    values = column_or_1d(y, warn=True)
    missing, present = _missing(values)
    if values.dtype.kind == "U" and isinstance(y, list | tuple):
        # NumPy has made the text "nan" of NaN
        missing = np.array([is_missing(value) for value in y], np.bool_)
        present = values[~missing]
    if present.dtype.kind == "U":
        texts("y", present.tolist())
    elif present.dtype == object and any(isinstance(value, str) for value in present):
        present = texts("y", present.tolist())
    if not len(present):
        raise ValueError(
            f'y holds no labelled row: all {len(values)} are unlabelled (-1, None, NaN, "" or '
            "masked). At least two classes need labels."
        )
    check_classification_targets(present)
    classes, numbers = np.unique(present, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"a classifier needs labels of at least 2 classes; y holds 1 class: {classes[0]!r}."
        )
    codes = np.full(len(values), UNLABELLED, np.int64)
    codes[~missing] = numbers
    return codes, classes


def _missing(values: NDArray[Any]) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Which labels are missing, (n,), and the others."""
    if values.dtype.kind == "f":
        if np.isinf(values).any():
            raise ValueError("Input y contains infinity; a label is a class, -1 or NaN.")
        missing = np.isnan(values) | (values == UNLABELLED)
        return missing, values[~missing]
    if values.dtype.kind in "iu":
        missing = values == UNLABELLED
        return missing, values[~missing]
    if values.dtype.kind in "bSU":
        missing = values == "" if values.dtype.kind == "U" else np.zeros(len(values), np.bool_)
        return missing, values[~missing]
    if values.dtype != object:
        raise ValueError(
            f"y must hold numbers, text or truth values; got {values.dtype}. Unknown label type: "
            "name the classes with text, and use None where there is no label."
        )
    missing = np.array([is_missing(value) for value in values], np.bool_)
    present = values[~missing]
    if all(isinstance(value, bool | np.bool_) for value in present):
        return missing, present.astype(np.bool_)
    if all(isinstance(value, Real) and not isinstance(value, bool) for value in present):
        numbers = np.array(present.tolist())
        unlabelled = numbers == UNLABELLED
        missing[np.flatnonzero(~missing)[unlabelled]] = True
        return missing, numbers[~unlabelled]
    return missing, present
