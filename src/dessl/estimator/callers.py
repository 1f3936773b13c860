"""Warnings about what scikit-learn does outside an estimator, found by inspecting the callers.

An estimator sees neither the labels that a scorer compares its predictions with, nor the original
labels that a meta-estimator has encoded, nor the steps of a pipeline before it. All are found in
the frames of the callers. Calls from other processes (``n_jobs``) and metrics that the user calls
with predictions cannot be seen.
"""

import sys
import warnings
from collections.abc import Iterator
from types import FrameType
from typing import Any

import numpy as np

from dessl.data.labels import is_minus_one, is_missing

METRICS = "sklearn.metrics"
NUMBERING = ("sklearn.calibration", "sklearn.ensemble.", "sklearn.multiclass")
VALIDATION = "sklearn.model_selection._validation"
PIPELINE = "sklearn.pipeline"
FAR = 2.0  # standard deviations between the means of a column in the same unit: a large shift
WIDER = 3.0  # ratio of the standard deviations of a column in the same unit: a large one


def warn_of_scored() -> None:
    """Warn the caller of the estimator's method if a scorer compares with missing labels."""
    for frame in _callers(METRICS):
        labels = frame.f_locals.get("y_true", frame.f_locals.get("y"))
        if labels is None:
            continue
        missing = n_missing(labels)
        if missing:
            warnings.warn(
                f"{missing} of {len(labels)} rows to score have no label, and this scorer treats "
                "that as a separate class. Pass cv=dessl.sklearn.SemiSupervisedSplit(), or "
                "scoring=dessl.sklearn.semi_supervised_scorer(...).",
                UserWarning,
                stacklevel=3,
            )
        return  # those farther away may have labels that this one leaves out


def warn_of_numbered() -> None:
    """Warn if a meta-estimator has turned missing labels into a class before it calls ``fit``."""
    for frame in _callers("sklearn."):
        name = _numbers_labels(frame)
        if name:
            warnings.warn(
                f"{name} treats the missing labels in y as a class. Fit it on the labelled rows "
                "only, with dessl.sklearn.WithUnlabelled(classifier, X_unlabelled) as its "
                "estimator.",
                UserWarning,
                stacklevel=3,
            )
            return


def warn_of_untransformed(X: Any, more: Any) -> None:
    """Warn if a pipeline has transformed X and apparently not the unlabelled rows.

    Args:
        X: Labelled rows (n, columns), as the last step of a pipeline gets them.
        more: Unlabelled rows, which no pipeline sees.
    """
    for frame in _callers(PIPELINE):
        steps = getattr(frame.f_locals.get("self"), "steps", [])[:-1]
        names = [name for name, step in steps if step not in (None, "passthrough")]
        if names and most_columns_far(X, more):
            warnings.warn(
                f"the pipeline's {' and '.join(map(repr, names))} transformed X, but most columns "
                "of X_unlabelled are far from those of X, so it was probably not transformed. Put "
                "the preprocessing inside: "
                "WithUnlabelled(make_pipeline(..., DeSSLClassifier()), X_unlabelled).",
                UserWarning,
                stacklevel=3,
            )
            return


def most_columns_far(X: Any, more: Any) -> bool:
    """Whether more than half of the columns seem to have another unit; False if not numeric.

    A column's means then differ by more than two standard deviations of X, or its standard
    deviations by more than a factor of three. Columns that are constant in X do not count.

    >>> rows = np.arange(12.0).reshape(4, 3)
    >>> most_columns_far(rows, rows + 5), most_columns_far(rows, 10 * rows)
    (False, True)
    """
    try:
        own, other = (np.asarray(rows, dtype=np.float64) for rows in (X, more))
    except (TypeError, ValueError):
        return False
    if own.ndim != 2 or other.shape[1:] != own.shape[1:] or not (own.size and other.size):
        return False
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        spread = own.std(0)
        ratio = other.std(0) / spread
        far = np.abs(other.mean(0) - own.mean(0)) > FAR * spread
        counted = np.where(spread > 0, far | (ratio > WIDER) | (ratio < 1 / WIDER), False)
    return bool(2 * counted.sum() > (spread > 0).sum())


def n_missing(labels: Any) -> int:
    """Return how many labels mark an unlabelled row; 0 if they are not a column.

    >>> n_missing([0, -1, 1]), n_missing(["a", None]), n_missing([[1, 0], [0, -1]])
    (1, 1, 0)
    """
    values = np.asarray(labels)
    if values.ndim != 1:
        return 0
    if values.dtype.kind in "iuf":
        return int((np.isnan(values) | (values == -1)).sum())
    if values.dtype.kind == "U":
        return int((values == "").sum())
    if values.dtype != object:
        return 0
    return sum(is_missing(value) or is_minus_one(value) for value in values)


def _numbers_labels(frame: FrameType) -> str | None:
    """The name of a caller that encodes labels, if some of them are missing."""
    module, local = frame.f_globals["__name__"], frame.f_locals
    if module.startswith(NUMBERING) and n_missing(local.get("y", 0)):
        return _class_of(frame)
    if module == VALIDATION and frame.f_code.co_name == "cross_val_predict":
        numbered = getattr(local.get("le"), "classes_", ())
        return "cross_val_predict" if n_missing(numbered) else None
    return None


def _class_of(frame: FrameType) -> str:
    """The class that a function works for; its module if the class is in another process."""
    module = frame.f_globals["__name__"]
    outer: FrameType | None = frame
    while outer is not None:
        if "self" in outer.f_locals and outer.f_globals.get("__name__") == module:
            return type(outer.f_locals["self"]).__name__
        outer = outer.f_back
    return ".".join(part for part in module.split(".") if not part.startswith("_"))


def _callers(module: str) -> Iterator[FrameType]:
    """Frames of functions in modules with a given prefix, the nearest first."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(module):
            yield frame
        frame = frame.f_back
