"""Converts y, with its markers for missing labels, to class numbers with -1, and the classes."""

import warnings
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    column_or_1d,
)

from dessl import _checks
from dessl.data.labels import (
    RECODE,
    TWO_MARKS,
    is_minus_one,
    is_missing,
    texts,
    warn_of_doubtful,
)
from dessl.safety.propensity import check_probabilities
from dessl.teachers import Answers
from dessl.teachers.answers import named_answers
from dessl.teachers.refused import refused_groups, refused_propensity

UNLABELLED = -1
INSTEAD = 'write None (in an array of dtype object) or "" instead'


def codes_and_classes(y: Any) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return class numbers (n,) with -1 for unlabelled rows, and the sorted classes.

    A row is unlabelled if y is -1 among numbers, "" among text, or None, NaN or masked for any
    type.

    >>> codes_and_classes(np.array(["dog", None, "cat"], dtype=object))
    (array([ 1, -1,  0]), array(['cat', 'dog'], dtype=object))
    """
    missing, present, minus_ones = known_labels(y)
    if not len(present):
        raise ValueError(
            f'y has no labelled rows: all {len(missing)} are unlabelled (-1, None, NaN, "" or '
            "masked). At least two classes need labels."
        )
    check_classification_targets(present)
    classes, numbers = np.unique(present, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"a classifier needs labels of at least 2 classes; y has only 1 class, {classes[0]}."
            + (f" {RECODE}" if minus_ones else "")
        )
    codes = np.full(len(missing), UNLABELLED, np.int64)
    codes[~missing] = numbers
    return codes, classes


def labelled_accuracy(y: Any, predicted: NDArray[Any], sample_weight: Any = None) -> float:
    """Return the accuracy on the rows that have a label in y.

    Args:
        y: (n,) labels, as :func:`codes_and_classes` reads them.
        predicted: (n,) classes.
        sample_weight: (n,) weights.

    >>> labelled_accuracy([0, -1, 1, 1], np.array([0, 0, 1, 0]), [1, 5, 1, 2])
    0.5
    """
    missing, present, _ = known_labels(y)
    check_consistent_length(missing, predicted)
    if not len(present):
        raise ValueError(
            f"a score needs labelled rows; all {len(missing)} of y are unlabelled. Pass labelled "
            "rows; in cross-validation, use folds that each have some."
        )
    if sample_weight is not None:
        _checks.unmasked("sample_weight", sample_weight)
        sample_weight = _check_sample_weight(sample_weight, predicted)[~missing]
    return float(accuracy_score(present, predicted[~missing], sample_weight=sample_weight))


def class_texts(classes: NDArray[Any]) -> tuple[str, ...]:
    """Return the classes as in a table: whole numbers without a decimal point.

    >>> class_texts(np.array([0.0, 1.0, 2.5])), class_texts(np.array([False, True]))
    (('0', '1', '2.5'), ('False', 'True'))
    """
    if classes.dtype.kind == "f":
        return tuple(np.format_float_positional(value, trim="-") for value in classes)
    return tuple(str(name) for name in classes)


class KnownLabels(NamedTuple):
    """Which rows of y are unlabelled, (n,), the labels of the others, and how many of y are -1."""

    missing: NDArray[np.bool_]
    present: NDArray[Any]
    minus_ones: int


def known_labels(y: Any) -> KnownLabels:
    """Return which rows of y are unlabelled, and the labels of the others.

    Warns if two kinds of marks could mean two things.
    """
    if y is None:
        raise ValueError(
            "A classifier requires y to be passed, but the target y is None. Pass one label for "
            "each row, -1 for unlabelled rows."
        )
    if np.ma.is_masked(y):
        y = y.tolist()  # None where masked
    elif hasattr(getattr(y, "dtype", None), "na_value"):
        y = np.asarray(y, dtype=object)  # scikit-learn would make floats of pandas' own kinds
    elif hasattr(y, "null_count"):  # Polars and PyArrow; NumPy would make floats of integers
        y = np.array(y.to_pylist() if hasattr(y, "to_pylist") else y.to_list(), dtype=object)
    values = _column(y)
    known = _known(values)
    if values.dtype.kind == "U" and isinstance(y, list | tuple):
        # NumPy has made the text "nan" of NaN
        missing = np.array([is_missing(value) for value in y], np.bool_)
        known = KnownLabels(missing, values[~missing], 0)
    present = known.present
    text = present.dtype == object and any(isinstance(value, str) for value in present)
    if text or present.dtype.kind == "U":
        read = texts("y", present.tolist())
        # at the call of fit or score
        warn_of_doubtful(sorted(set(read.tolist())), where="y", do=INSTEAD, stacklevel=4)
        return known._replace(present=read if text else present)
    if 0 < known.minus_ones < known.missing.sum():
        warnings.warn(f"y: {TWO_MARKS}", UserWarning, stacklevel=4)
    return known


def _column(y: Any) -> NDArray[Any]:
    """The labels as an array (n,); labels that are tuples are refused."""
    try:
        values: NDArray[Any] = column_or_1d(y, warn=True)
    except ValueError:
        kinds = {type(label).__name__ for label in y} if isinstance(y, list | tuple) else set()
        if not kinds.intersection(("tuple", "list")):
            raise
        raise ValueError(
            "y must hold one number, text or boolean for each row; got "
            f"{' and '.join(sorted(kinds))}. Name the classes with text, such as 'x 1' for "
            "('x', 1), and use None for missing labels."
        ) from None
    return values


def _known(values: NDArray[Any]) -> KnownLabels:
    """Labels of any type; -1 among text is left in place."""
    none = np.zeros(len(values), np.bool_)
    if values.dtype.kind == "f":
        if np.isinf(values).any():
            raise ValueError("Input y contains infinity; a label is a class, -1 or NaN.")
        return _without(values, np.isnan(values), values == UNLABELLED)
    if values.dtype.kind in "iu":
        return _without(values, none, values == UNLABELLED)
    if values.dtype.kind in "bSU":
        blank = np.char.strip(values) == "" if values.dtype.kind == "U" else none
        return _without(values, blank, none)
    if values.dtype != object:
        raise ValueError(
            f"y must hold numbers, text or booleans; got {values.dtype}. Unknown label type: "
            "name the classes with text, and use None for missing labels."
        )
    blank = np.array([is_missing(value) for value in values], np.bool_)
    if any(isinstance(value, str) for value in values[~blank]):
        return _without(values, blank, none)
    minus = np.array([is_minus_one(value) for value in values], np.bool_)
    known = _without(values, blank, minus)
    kinds = {_kind(value) for value in known.present}
    if len(kinds) > 1 or "" in kinds:
        names = sorted({type(value).__name__ for value in known.present})
        raise ValueError(
            f"y must hold only numbers, only text or only booleans; got {' and '.join(names)}. "
            "Unknown label type: name the classes with text, and use None for missing labels."
        )
    return known._replace(present=np.array(known.present.tolist()))


def _without(
    values: NDArray[Any], blank: NDArray[np.bool_], minus: NDArray[np.bool_]
) -> KnownLabels:
    return KnownLabels(blank | minus, values[~(blank | minus)], int(minus.sum()))


def _kind(value: object) -> str:
    """The kind of a label that is not text, or "" if it is no label."""
    if isinstance(value, bool | np.bool_):
        return "boolean"
    return "number" if isinstance(value, Real) else ""


def teachers_answers(
    teachers: Any, class_names: Sequence[str], X: Any = None, X_unlabelled: Any = None
) -> list[Answers]:
    """Read the answers of one teacher, or of each in a list or dict.

    Args:
        teachers: Columns of classes, tables of probabilities or Answers: a list, or a dict by name;
            or one of them.
        class_names: The classes, as text.
        X: The rows, whose index that of the answers must match if both have one.
        X_unlabelled: More rows, which follow.

    >>> [one.name for one in teachers_answers([["a", "b"], [[0.2, 0.8], [0.5, 0.5]]], ("a", "b"))]
    ['teacher 1', 'teacher 2']
    """
    given = teachers
    if _one_list(teachers, X, X_unlabelled):
        given = [teachers]
    elif not isinstance(given, Mapping):
        given = list(teachers) if isinstance(teachers, list | tuple) else [teachers]
    each = list(given.values() if isinstance(given, Mapping) else given)
    if not each or any(np.ndim(one) == 0 and not isinstance(one, Answers) for one in each):
        raise ValueError(
            "teachers must be a list with one entry for each teacher, classes (n,) or "
            f"probabilities (n, classes); got {teachers!r:.60}. Put a single teacher's answers in "
            "a list: teachers=[answers]."
        )
    for one in each:
        _check_index(one, X, X_unlabelled)
    read = named_answers(given, class_names)
    for one in read if X is not None else ():
        _check_length(one, X, X_unlabelled)
    return read


def _one_list(teachers: Any, X: Any, X_unlabelled: Any) -> bool:
    """Whether a list has the answers of one teacher, as many as there are rows."""
    if not isinstance(teachers, list | tuple) or X is None:
        return False
    rows = len(X) + (0 if X_unlabelled is None else len(X_unlabelled))
    scalars = (np.ndim(one) == 0 and not isinstance(one, Answers) for one in teachers)
    return len(teachers) == rows and all(scalars)


def _check_length(answers: Answers, X: Any, X_unlabelled: Any) -> None:
    """Refuse answers that are not one for each row."""
    n, more = len(X), 0 if X_unlabelled is None else len(X_unlabelled)
    if len(answers) == n + more:
        return
    also = f" and then the {more} of X_unlabelled" if more else ""
    do = "A row without an answer has None."
    if not more and len(answers) > n:  # as in a fold
        do = (
            "For cross-validation, pass one teacher's array itself, not in a list, so that it is "
            "split with X."
        )
    raise ValueError(
        f"the answers of {answers.name} must cover the {n} rows of X{also}; got {len(answers)}. "
        f"{do}"
    )


def _check_index(answers: Any, X: Any, X_unlabelled: Any) -> None:
    """Refuse a series or frame of answers whose index is not that of the rows."""
    own, wanted = _index(answers), _index(X)
    if own is None or wanted is None or len(own) < len(wanted) or own.equals(wanted):
        return  # other lengths have a message of their own
    if X_unlabelled is not None:
        more = _index(X_unlabelled)
        if more is None or own.equals(wanted.append(more)):
            return
        if own.tolist() == list(range(len(own))):  # as of a new series
            return
    raise ValueError(
        "the index of a teacher's answers differs from that of X, so they may belong to other "
        "rows. Pass answers.loc[X.index]; or, if they are in the order of the rows, "
        "answers.to_numpy()."
    )


def warn_of_order(X: Any, **columns: Any) -> None:
    """Warn if a series has the index of X in another order: rows are matched by position.

    Args:
        X: The rows.
        columns: What was given for them, by argument; only pandas' series and frames have an index.
    """
    rows = _index(X)
    for name, column in columns.items():
        own = _index(column)
        if rows is None or own is None or len(own) != len(rows) or own.equals(rows):
            continue
        if rows.is_unique and own.is_unique and own.isin(rows).all():
            warnings.warn(
                f"{name} has the index of X in another order, but rows are matched by position. "
                f"Pass {name}.loc[X.index]; or, if {name} is in the order of the rows of X, "
                f"{name}.to_numpy().",
                UserWarning,
                stacklevel=3,  # at the call of fit or score
            )


def _index(rows: Any) -> Any:
    """The index of pandas' series and frames; None for anything else."""
    index = getattr(rows, "index", None)
    return index if hasattr(index, "equals") else None


def given_propensity(propensity: Any, codes: NDArray[np.int64], n_more: int) -> Any:
    """Return the propensities of all rows, checked; a name is returned unchanged.

    Args:
        propensity: (n,) of X, or (n + n_more,) of X and then X_unlabelled; NaN is used for those of
            X_unlabelled if they are not given.
        codes: (n + n_more,) class numbers, -1 for unlabelled.
        n_more: Number of rows of X_unlabelled.

    >>> given_propensity([0.5, 0.25], np.array([0, 1, -1]), n_more=1)
    array([0.5 , 0.25,  nan])
    """
    if isinstance(propensity, str):
        return propensity
    given = np.asarray(_checks.numbers("propensity", propensity), np.float64)
    every, n, labels = len(codes), len(codes) - n_more, int((codes != UNLABELLED).sum())
    if given.shape not in ((n,), (every,)):
        both = f", or also of X_unlabelled, shape ({every},)" if n_more else ""
        raise ValueError(
            f"propensity must have one probability for each row of X, shape ({n},){both}; got "
            f"{given.shape}. "
            + (
                "That is one for each label: pass one for each row, NaN for unlabelled rows."
                if given.shape == (labels,)
                else "Pass NaN for unlabelled rows where it is unknown."
            )
        )
    whole = np.pad(given, (0, every - len(given)), constant_values=np.nan)
    check_probabilities(torch.from_numpy(whole), torch.from_numpy(codes != UNLABELLED))
    return whole


def check_alone(classifier: Any, **weights: Any) -> None:
    """Reject arguments that learning from a teacher's answers does not use."""
    given = [name for name, value in weights.items() if value is not None]
    if "propensity" in given:
        raise ValueError(refused_propensity())
    if "groups" in given:
        raise ValueError(refused_groups())
    if given:
        raise ValueError(
            f"{given[0]} cannot be used with teachers' answers: all gold labels count the same. "
            f"Omit {given[0]}, or omit teachers."
        )
    defaults = {"surrogate": None, "lam": "auto", "risk": "debiased", "module": None,
                "networks": None, "safe": True}  # fmt: skip
    odd = [name for name, value in defaults.items() if getattr(classifier, name) is not value
           and getattr(classifier, name) != value]  # fmt: skip
    if odd or not (classifier.teachers is None or isinstance(classifier.teachers, str)):
        raise ValueError(
            f"{', '.join(odd or ['teachers'])} of DeSSLClassifier cannot be used with teachers' "
            "answers. Keep the default."
        )


def check_predictors(teachers: Any) -> None:
    """Reject answers among the predictors of DeSSLClassifier."""
    each = teachers if isinstance(teachers, list | tuple) else [teachers]
    if any(isinstance(one, Answers) or hasattr(one, "shape") for one in each):
        raise ValueError(
            "teachers of DeSSLClassifier are predictors to pool; got answers. Answers belong in "
            "fit(X, y, teachers=[answers])."
        )
