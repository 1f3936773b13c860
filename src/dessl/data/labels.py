"""Labels of any kind as whole numbers 0, ..., K - 1, with -1 for a missing one."""

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from numbers import Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dessl._checks import ArrayLike, quoted
from dessl.data.errors import did_you_mean, few

MISSING = -1
RECODE = "-1 means unlabelled: if it is a class, recode it (-1 and 1, for example, as 0 and 1)."
MINUS_ONES = ("-1", "-1.0")  # as text, also of a float
TWO_MARKS = (
    "-1 and NaN (or None) both occur, and both count as unlabelled. If -1 is a class, recode it as "
    "another number; if not, mark all unlabelled rows in one way to silence this."
)
MARKS = frozenset(
    (
        *("na", "n/a", "n.a.", "n.a", "#n/a", "#na", "<na>", "(na)", "nan", "-nan", "<nan>", "nat"),
        *("null", "(null)", "<null>", "#null!", "none", "(none)", "<none>", "nil", "undefined"),
        *("#value!", "#ref!", "#div/0!", "#num!", "#name?", "not available", "no label"),
        *("?", "??", "???", "-", "--", "---", "\N{EN DASH}", "\N{EM DASH}", ".", "..", "...", "*"),
        *("unlabelled", "unlabeled", "not labelled", "not labeled", "unknown"),
        *("missing", "(missing)", "<missing>"),
    )
)


def label_codes(
    columns: Mapping[str, ArrayLike],
    class_names: Sequence[str] | None = None,
    *,
    rows: Mapping[str, int] | None = None,
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """The columns' labels as int64 tensors (n,), and the names of the classes.

    Whole numbers are taken as class numbers, with -1 for missing; each of 0, ..., K - 1 must occur
    in some column unless ``class_names`` lists the classes. Any other labels are mapped by
    ``class_names`` if given, otherwise in the sorted order of their text, so ``"10"`` comes before
    ``"9"``. None, NaN, masked entries, pandas' missing values and the empty string are missing.

    Args:
        columns: Labels (n,) by their name in error messages. All get the same codes.
        class_names: The classes in order, if the labels alone do not determine them.
        rows: How many rows of features each column belongs to, by the same names, if known.

    Example:
        >>> codes, names = label_codes({"y": ["dog", None, "cat", "dog"]})
        >>> codes["y"].tolist(), names
        ([1, -1, 0, 1], ('cat', 'dog'))
    """
    entries = {name: _entries(name, column) for name, column in columns.items()}
    for name, n in (rows or {}).items():  # first: too few labels may also lack classes
        if len(entries[name]) != n:
            raise ValueError(
                f"{name} must have one label for each row of {name.removesuffix('y')}x; got "
                f"{len(entries[name])} labels for {n} rows."
            )
    minus_ones = [name for name, column in entries.items() if _minus_ones(column).any()]
    for name in minus_ones if class_names is None else ():
        if np.isnan(entries[name]).any():
            warnings.warn(f"{name}: {TWO_MARKS}", UserWarning, stacklevel=3)  # at SemiData(...)
    read = {name: _column(name, column) for name, column in entries.items()}
    kinds = {
        name: "text" if column.dtype == object else "whole numbers"
        for name, column in read.items()
        if not _missing(column).all()
    }
    if len(set(kinds.values())) > 1:
        booleans = [name for name in kinds if _are_booleans(entries[name])]
        kinds |= dict.fromkeys(booleans, "booleans")
        listed = ", ".join(f"{kind} in {name}" for name, kind in kinds.items())
        advice = " Convert booleans to 0 and 1, and those without a label to -1."
        raise TypeError(
            f"labels must have the same kind in all parts; got {listed}."
            + (advice if booleans else "")
        )
    names = _names([read[name] for name in kinds]) if class_names is None else tuple(class_names)
    if len(set(names)) < len(names):
        raise ValueError(f"class_names must differ from each other; got {_listed(names)}.")
    if not names:
        raise ValueError(
            "no row has a label. Pass the labels that you have, and class_names= if there are "
            "none yet." + (f" {RECODE}" if minus_ones else "")
        )
    if len(names) < 2:
        raise ValueError(
            f"a classifier needs at least 2 classes; got {len(names)}: {_listed(names)}. "
            "Pass class_names= if other classes exist but have no label here."
            + (f" {RECODE}" if minus_ones else "")
        )
    codes = {name: torch.from_numpy(_codes(name, col, names)) for name, col in read.items()}
    return codes, names


def codes_by_name(
    name: str, y: ArrayLike, class_names: Sequence[str], own_names: Sequence[str] | None = None
) -> Tensor:
    """Labels of new rows as a trained model's class numbers, int64 (n,), -1 for a missing one.

    The numbers in another file need not follow the order of the model's classes, so classes are
    matched by name. A number is a name only if the model's classes are named 0, ..., K - 1.

    Args:
        name: The name of the labels in error messages.
        y: Labels (n,), as accepted by :func:`label_codes`.
        class_names: The model's classes, in its order.
        own_names: The classes that the numbers of ``y`` stand for, if the file gives them.

    Example:
        >>> codes_by_name("y", [0, -1, 1], ("cat", "dog"), own_names=("dog", "cat")).tolist()
        [1, -1, 0]
        >>> codes_by_name("y", [2, -1, 1], ("1", "2")).tolist()
        [1, -1, 0]
    """
    names, column = tuple(class_names), _column(name, _entries(name, y))
    if own_names is not None:
        strange = [own for own in own_names if own not in names]
        if strange or len(set(own_names)) < len(own_names):
            raise ValueError(
                f"class_names must differ, and be among the model's classes {_listed(names)}; got "
                f"{quoted(strange[0]) if strange else _listed(own_names)}. Name the classes as in "
                "training."
            )
    if column.dtype != object and not _missing(column).all():
        column = _named(name, column, names, own_names)
    return torch.from_numpy(_codes(name, column, names))


def _named(
    name: str, column: NDArray[Any], names: tuple[str, ...], own_names: Sequence[str] | None
) -> NDArray[Any]:
    """Class numbers as the names that they stand for, None for a missing one."""
    numbers = np.unique(column[~_missing(column)]).tolist()
    if own_names is not None:
        name_of = dict(enumerate(own_names))
        if numbers[-1] >= len(own_names):
            raise ValueError(
                f"{name} must be class numbers below {len(own_names)}, the number of class "
                f"names; got {numbers[-1]}."
            )
    else:
        name_of = {number: str(number) for number in numbers}
        unknown = [text for text in name_of.values() if text not in names]
        if unknown or "-1" in names:  # -1 could be that class, or no label
            raise ValueError(
                f"{name} must give the class of each row, one of {_listed(names)}; got the number "
                f"{unknown[0] if unknown else -1}. Save the labels as text, or save class_names "
                "with them: the classes in the order of your numbers."
            )
    return np.array([name_of.get(number) for number in column.tolist()], dtype=object)


def _column(name: str, entries: NDArray[Any]) -> NDArray[Any]:
    """Labels as int64 with -1 for missing or, if they are not numbers, as text or None."""
    return texts(name, entries.tolist()) if entries.dtype == object else _whole(name, entries)


def _entries(name: str, y: ArrayLike) -> NDArray[Any]:
    """Labels as numbers with NaN or, if they are not numbers, as objects with None."""
    if isinstance(y, np.ma.MaskedArray):
        y = y.tolist()  # None if masked; asarray would return the value behind the mask
    if isinstance(y, Tensor):
        values = y.detach().cpu().numpy()
    elif isinstance(y, list | tuple):
        values = np.fromiter(
            y, dtype=object, count=len(y)
        )  # asarray would turn NaN among text into "nan"
    else:
        values = np.asarray(y)
    nested = values.dtype == object and any(
        isinstance(v, list | tuple) or getattr(v, "ndim", 0) for v in values.flat
    )
    if values.ndim != 1 or nested:
        raise ValueError(
            f"{name} must have one label for each row, shape (n,); got "
            f"{'rows of labels' if nested else values.shape}. "
            "Flatten a column with .ravel(); turn one-hot rows into classes with .argmax(1)."
        )
    if values.dtype.kind in "iuf":
        return values
    # Items of tensors and arrays are 0-dimensional: use the number inside.
    plain = [value.item() if hasattr(value, "ndim") else value for value in values.tolist()]
    entries = [None if is_missing(value) else value for value in plain]
    given = [entry for entry in entries if entry is not None]
    if given and all(isinstance(value, Real) and not isinstance(value, bool) for value in given):
        return np.array([math.nan if v is None else v for v in entries], np.float64)
    return np.fromiter(entries, dtype=object, count=len(entries))


def _are_booleans(entries: Iterable[Any]) -> bool:
    given = [entry for entry in entries if entry is not None and entry != MISSING]
    return bool(given) and all(isinstance(entry, bool) for entry in given)


def _minus_ones(entries: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray(entries.dtype != object and entries == MISSING)


def is_missing(value: object) -> bool:
    """Whether a label is None, NaN, one of pandas' missing values, or text without characters.

    >>> [is_missing(value) for value in (None, float("nan"), "", "  ", "a b", 0)]
    [True, True, True, True, False, False]
    """
    if isinstance(value, float | np.floating):
        return math.isnan(value)
    if isinstance(value, str):
        return not value.strip()
    # pandas' own marks, known by name so that pandas need not be imported
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def is_minus_one(value: object) -> bool:
    """Whether a label is the number -1."""
    return isinstance(value, int | float | np.number) and bool(value == MISSING)


def _missing(column: NDArray[Any]) -> NDArray[np.bool_]:
    if column.dtype == object:
        return np.array([value is None for value in column], dtype=np.bool_)
    return np.asarray(column == MISSING)


def _whole(name: str, values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), MISSING, values)
        broken = values[values != np.round(values)]
        if broken.size:
            raise ValueError(
                f"{name} must be classes; got the fraction {broken[0]:g}. Class numbers are "
                "whole; for classes that are not numbers, pass them as text."
            )
    for extreme in (values.min(), values.max()) if values.size else ():
        if not MISSING <= float(extreme) < 2**63:
            raise ValueError(
                f"{name} must be -1 (missing) or a class number 0, 1, ...; got {extreme:g}."
            )
    return values.astype(np.int64)


def texts(name: str, entries: Sequence[Any]) -> NDArray[Any]:
    """Labels as text or None; bytes and -1 among text are refused."""
    read = [None if entry is None else str(entry) for entry in entries]
    if any(isinstance(entry, bytes) for entry in entries):
        raise TypeError(
            f"{name} has bytes instead of text. Decode them: numpy.char.decode(labels, 'utf-8')."
        )
    if minus := next((text for text in read if text in MINUS_ONES), None):
        kind = "booleans" if _are_booleans(entries) else "text labels"
        raise ValueError(
            f"{name} mixes {quoted(minus)} with {kind}; -1 marks a missing label only among "
            f"numbers. Use None for a missing label among {kind}; if it is a class, rename it."
        )
    return np.array(read, dtype=object)


def _names(columns: Sequence[NDArray[Any]]) -> tuple[str, ...]:
    """The classes that occur: numbers without gaps, or texts in sorted order."""
    seen = {value for column in columns for value in np.unique(column[~_missing(column)]).tolist()}
    if any(isinstance(value, str) for value in seen):
        return tuple(sorted(seen))
    absent = next(number for number in count() if number not in seen)
    if absent < len(seen):
        signs = seen == {1} and any(_missing(column).any() for column in columns)
        raise ValueError(
            f"class numbers must be 0, ..., K - 1; {max(seen)} occurs but {absent} does not. "
            "If that class exists, pass class_names=; if not, renumber the labels or pass them "
            "as text." + (f" {RECODE}" if signs else "")
        )
    return tuple(str(value) for value in sorted(seen))


def _listed(names: Sequence[str]) -> str:
    """The first class names as a message quotes them."""
    return few([quoted(name) for name in names], most=20)


def _codes(name: str, column: NDArray[Any], names: tuple[str, ...]) -> NDArray[np.int64]:
    if column.dtype == object:
        code = {text: number for number, text in enumerate(names)}
        unknown = sorted({text for text in column if text is not None} - code.keys())
        if unknown:
            raise ValueError(
                f"{name} has {quoted(unknown[0])}, which is not among the class names "
                f"{_listed(names)}. {did_you_mean(unknown[0], names)}".rstrip()
            )
        return np.array([MISSING if t is None else code[t] for t in column], dtype=np.int64)
    if column.size and column.max() >= len(names):
        raise ValueError(
            f"{name} must be class numbers below {len(names)}, the number of class names; "
            f"got {column.max()}."
        )
    return column


def marks_among(class_names: Iterable[str]) -> list[str]:
    """Return which class names look like a mark for a missing label, in sorted order.

    "-" next to "+" is a class, and so is -1 if 1 is the only other; otherwise -1 is a mark.

    >>> marks_among(["yes", "no", "NaN", "#N/A"]), marks_among(["+", "-"])
    (['#N/A', 'NaN'], [])
    """
    names = set(class_names)
    marks = {name for name in names if name.strip().lower() in MARKS}
    if "+" in names:
        marks.discard("-")
    others = names - marks - {"-1"}
    if "-1" in names and others != {"1"} and all(name.isdecimal() for name in others):
        marks.add("-1")
    return sorted(marks)


def warn_of_doubtful(
    class_names: Iterable[str], *, where: str, do: str, stacklevel: int = 2
) -> None:
    """Warn about class names that are probably not a class, or the same class twice.

    Args:
        class_names: All classes.
        where: Location of the labels, at the start of the warnings.
        do: Same as in :func:`warn_of_marks`.
        stacklevel: Same as in ``warnings.warn``, as if called in place of this function.
    """
    names = tuple(class_names)
    warn_of_marks(names, where=where, do=do, stacklevel=stacklevel + 1)
    warn_of_spellings(names, where=where, stacklevel=stacklevel + 1)


def warn_of_marks(class_names: Iterable[str], *, where: str, do: str, stacklevel: int = 2) -> None:
    """Warn if a class name looks like a mark for a missing label.

    Args:
        class_names: All classes.
        where: Location of the labels, at the start of the warning.
        do: How to mark a missing label there, at the end of the warning.
        stacklevel: Same as in ``warnings.warn``, as if called in place of this function.
    """
    marks = marks_among(class_names)
    if marks:
        warnings.warn(
            f"{where}: {few([quoted(mark) for mark in marks])} is treated as a class. If it marks "
            f"a missing label, {do}.",
            UserWarning,
            stacklevel=stacklevel + 1,
        )


def warn_of_spellings(class_names: Iterable[str], *, where: str, stacklevel: int = 2) -> None:
    """Warn if classes differ only in case or spaces, as Yes and yes do.

    Args:
        class_names: All classes.
        where: Location of the labels, at the start of the warning.
        stacklevel: Same as in ``warnings.warn``, as if called in place of this function.
    """
    alike: dict[str, list[str]] = {}
    for name in class_names:
        alike.setdefault(" ".join(name.casefold().split()), []).append(quoted(name))
    pairs = [" and ".join(names) for names in alike.values() if len(names) > 1]
    if pairs:
        warnings.warn(
            f"{where}: {few(pairs)} count as different classes. If they are the same "
            "class, spell them the same way.",
            UserWarning,
            stacklevel=stacklevel + 1,
        )
