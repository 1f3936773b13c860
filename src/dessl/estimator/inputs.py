"""X as rows of numbers: arrays unchanged, data frames encoded as the command line encodes tables.

A frame that has only numeric columns without missing values is an array, as everywhere in
scikit-learn. Any other frame is encoded by :mod:`dessl.data.formats`: dates, categories, booleans
and missing values become the same features as in ``dessl fit`` on a file with the same table.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from dessl import _checks
from dessl._checks import quoted
from dessl.data.errors import few
from dessl.data.features import feature_tensor
from dessl.data.formats.encoding import TableEncoding
from dessl.data.formats.far_values import warn_of_outside
from dessl.data.formats.frames import (
    Frame,
    frame_advice,
    frame_encoding,
    identifiers,
    is_frame,
    is_numbers,
    read_frame,
)

LABEL = "label"  # of a table, where y has no name
MORE = "X_unlabelled"


class Inputs(NamedTuple):
    """The inputs of ``fit`` other than labels, read and checked.

    Attributes:
        n: Number of rows of X.
        n_more: Number of rows of X_unlabelled.
        rows: All of them (n + n_more, ...), if they are numbers.
        frame: All of them, if they must be encoded.
    """

    n: int
    n_more: int
    rows: NDArray[Any] | None
    frame: Frame | None

    @classmethod
    def of(cls, estimator: Any, X: Any, X_unlabelled: Any) -> "Inputs":
        """Read both, and store the names and the number of columns in the estimator."""
        frame = _frame_to_encode(X, X_unlabelled)
        if frame is None:
            rows = array_rows(estimator, X, reset=True)
            if X_unlabelled is None:
                _warn_of_identifiers(X)
                return cls(len(rows), 0, rows, None)
            more = array_rows(estimator, X_unlabelled, name=MORE, reset=False)
            _warn_of_identifiers(X, X_unlabelled)
            if (more.dtype, more.shape[1:]) != (rows.dtype, rows.shape[1:]):
                raise ValueError(
                    f"X_unlabelled must have rows like those of X, {rows.dtype} of shape "
                    f"{rows.shape[1:]}; got {more.dtype} of shape {more.shape[1:]}. Convert them "
                    "in the same way as X."
                )
            return cls(len(rows), len(more), np.concatenate([rows, more]), None)
        check_columns(estimator, X, reset=True)
        n = frame.arrow.num_rows
        if X_unlabelled is not None:
            more_frame = read_frame(X_unlabelled, source=Path(MORE))
            check_columns(estimator, X_unlabelled, reset=False)
            frame = frame.followed_by(more_frame)
        return cls(n, frame.arrow.num_rows - n, None, frame)

    def encoded(
        self, codes: NDArray[np.int64], y: Any, class_names: Sequence[str]
    ) -> tuple[NDArray[Any], TableEncoding | None]:
        """Return rows of numbers, and the encoding to apply to later frames.

        Args:
            codes: (n + n_more,) class numbers, -1 for unlabelled.
            y: The labels as passed by the user; their name, if any, is kept.
            class_names: The classes, in the order of their numbers.
        """
        if self.frame is None:
            assert self.rows is not None  # noqa: S101 (one of the two)
            return self.rows, None
        name = getattr(y, "name", None)
        label = name if isinstance(name, str) and name else LABEL
        table, categorical = self.frame.table(), self.frame.categorical
        encoding = frame_encoding(
            table, codes, label=label, class_names=class_names, categorical=categorical
        )
        return encoding.features(table), encoding


def new_rows(
    estimator: Any,
    X: Any,
    encoding: TableEncoding | None,
    *,
    by_name: bool = False,
    images: bool = False,
) -> NDArray[Any]:
    """Return rows like those of ``fit``, to predict.

    Args:
        estimator: The fitted classifier.
        X: The rows.
        encoding: How a frame becomes numbers; None for a classifier of arrays.
        by_name: Whether a frame's columns may have any order, and others may be among them.
        images: Whether it was fitted on uint8 images.

    Raises:
        ValueError: They have another type, or columns are missing.
    """
    if encoding is None:
        if is_frame(X) and not is_numbers(X):
            raise _not_numbers(read_frame(X))
        X = _one_array("X", X)
        if images and getattr(X, "dtype", None) not in (np.uint8, torch.uint8):
            got = getattr(X, "dtype", type(X).__name__)
            raise ValueError(
                f"this classifier was trained on uint8 images; got {got}. Pass levels from 0 to "
                "255, X.astype('uint8'), of the size of the training images."
            )
        return array_rows(estimator, X, reset=False)
    if not is_frame(X):
        _check_collected("X", X)
        names = few([quoted(column.name) for column in encoding.columns])
        raise ValueError(
            f"this classifier was trained on a table and needs a data frame with the columns "
            f"{names}; got {type(X).__name__}. Pass a data frame with these columns."
        )
    frame = read_frame(X)
    if hasattr(estimator, "feature_names_in_") and not by_name:
        check_columns(estimator, X, reset=False)
    table = frame.table()
    x = encoding.features(table)
    warn_of_outside(table, x, encoding.columns, stacklevel=3)
    return x


def array_rows(estimator: Any, X: Any, *, name: str = "X", reset: bool) -> NDArray[Any]:
    """Return X as uint8 images with channels first, or as finite floats."""
    X = _one_array(name, X)
    _checks.unmasked(name, X)
    images = getattr(X, "dtype", None) in (np.uint8, torch.uint8) and X.ndim > 2
    if isinstance(X, torch.Tensor):
        X = X.numpy(force=True)  # from any device, with or without a gradient
    try:
        rows: NDArray[Any] = validate_data(
            estimator,
            feature_tensor(name, X).numpy(force=True) if images else X,
            reset=reset,
            dtype=np.uint8 if images else [np.float64, np.float32],
            order="C",
            allow_nd=True,
            ensure_all_finite="allow-nan",  # NaN has a message of its own
        )
    except (TypeError, ValueError) as error:
        raise _with_advice(error, name, X) from error
    if images:
        return rows
    if rows.size and np.isnan(rows.min()):
        raise _has_nan(name, rows, new=not reset and name != MORE)
    return feature_tensor(name, rows).numpy()


def _one_array(name: str, X: Any) -> Any:
    """A list of uint8 images, arrays or Pillow's, as one array; anything else unchanged."""
    if not isinstance(X, list | tuple) or not len(X) or np.ndim(X[0]) < 2:
        return X
    images = [np.asarray(one) for one in X]
    if any(one.dtype != np.uint8 for one in images):
        return X
    if len(shapes := sorted({one.shape for one in images})) > 1:
        raise ValueError(
            f"{name} must have images of one size; got {shapes[0]} and {shapes[-1]}. Resize them "
            "first, or pass a folder of images to dessl fit, which does."
        )
    return np.stack(images)


def _with_advice(error: Exception, name: str, X: Any) -> Exception:
    """The error of scikit-learn for rows that are not numbers, and what to pass instead."""
    import scipy.sparse

    _check_collected(name, X)
    if scipy.sparse.issparse(X):
        do = f"If that takes too much memory, reduce {name} with TruncatedSVD first."
    elif np.asarray(X).dtype.kind in "OSUV":
        do = f"An array must have only numbers: pass text as pandas.DataFrame({name})."
    elif "infinity" in str(error):
        do = "Replace infinity by a number or, in a data frame, by NaN."
    else:
        return error
    return type(error)(f"{str(error).rstrip('. ')}. {do}")


def _check_collected(name: str, X: Any) -> None:
    """Refuse a lazy frame."""
    if hasattr(type(X), "collect"):
        raise TypeError(f"{name} has rows that were not read yet. Pass {name}.collect().")


def _has_nan(name: str, rows: NDArray[Any], *, new: bool) -> ValueError:
    """The error for missing values in an array, for rows to train on or new ones."""
    count = int(np.isnan(rows.reshape(len(rows), -1)).any(1).sum())
    if rows.ndim > 2:
        do = "Impute them, or drop these rows."
    elif new:
        do = "Impute them, or train on a data frame that has missing values."
    else:
        frames = "data frames" if name == MORE else "a data frame, such as pandas.DataFrame(X)"
        do = f"Pass {frames}: there, missing values are accepted. Or impute them."
    return ValueError(f"Input {name} contains NaN in {count} of {len(rows)} rows. {do}")


def check_columns(estimator: Any, X: Any, *, reset: bool) -> None:
    """Store a frame's columns in the estimator, or check that names and order match."""
    validate_data(estimator, X, reset=reset, skip_check_array=True)


def _frame_to_encode(X: Any, X_unlabelled: Any) -> Frame | None:
    """X as a frame, unless it and X_unlabelled are purely numeric."""
    if not is_frame(X):
        return None
    frames = is_frame(X_unlabelled)
    if is_numbers(X) and (not frames or is_numbers(X_unlabelled, source=Path(MORE))):
        return None
    if X_unlabelled is not None and not frames:
        raise ValueError(
            "X_unlabelled must be a data frame with the columns of X; got "
            f"{type(X_unlabelled).__name__}."
        )
    return read_frame(X)


def _warn_of_identifiers(*given: Any) -> None:
    """Warn about columns of data frames of numbers that may only tell the rows apart."""
    frames = [one for one in given if is_frame(one)]
    names = [*dict.fromkeys(name for one in frames for name in identifiers(one))]
    if names:
        warnings.warn(
            "X: whole numbers without a repeat, as row numbers and identifiers are, in "
            f"{few([quoted(str(name)) for name in names])}. New rows have others, but a model may "
            "learn from them how the table was sorted: "
            f"{frame_advice(frames[0]).identifiers(names)}. If their size matters, as that of a "
            "year or a rank, add 0.5 to silence this.",
            UserWarning,
            stacklevel=4,  # at the call of fit
        )


def _not_numbers(frame: Frame) -> ValueError:
    """The error for a frame that needs an encoding although training had only numbers."""
    names = [name for name in frame.arrow.column_names if not frame.only(name).all_numbers]
    return ValueError(
        "this classifier was trained on numbers without missing values; got text, dates, booleans "
        f"or missing values in {few([quoted(name) for name in names])}. Impute or convert these "
        "cells, or train on a data frame that has such columns."
    )
