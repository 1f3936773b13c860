"""Class names that are likely no class: marks of a missing label, and other spellings of one."""

import warnings
from collections.abc import Iterable

from dessl._checks import quoted
from dessl.data.errors import few

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


def marks_among(class_names: Iterable[str]) -> list[str]:
    """Return which class names look like a mark for a missing label, in sorted order.

    "-" beside "+" is a class, and so is -1 beside 1 alone; among other whole numbers -1 is a mark.

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
    """Warn of class names read from a file that are likely no class, or one class twice.

    Args:
        class_names: All classes.
        where: What holds the labels, to begin the warnings with.
        do: As of :func:`warn_of_marks`.
        stacklevel: As of ``warnings.warn``, were that called in the place of this.
    """
    names = tuple(class_names)
    warn_of_marks(names, where=where, do=do, stacklevel=stacklevel + 1)
    warn_of_spellings(names, where=where, stacklevel=stacklevel + 1)


def warn_of_marks(class_names: Iterable[str], *, where: str, do: str, stacklevel: int = 2) -> None:
    """Warn where a class is named by a mark for a missing label.

    Args:
        class_names: All classes.
        where: What holds the labels, to begin the warning with.
        do: How to leave a label out there, to end it with.
        stacklevel: As of ``warnings.warn``, were that called in the place of this.
    """
    marks = marks_among(class_names)
    if marks:
        warnings.warn(
            f"{where}: {few([quoted(mark) for mark in marks])} is taken for a class. If it marks a "
            f"missing label, {do}.",
            UserWarning,
            stacklevel=stacklevel + 1,
        )


def warn_of_spellings(class_names: Iterable[str], *, where: str, stacklevel: int = 2) -> None:
    """Warn where classes differ in upper and lower case or in spaces alone, as Yes and yes do.

    Args:
        class_names: All classes.
        where: What holds the labels, to begin the warning with.
        stacklevel: As of ``warnings.warn``, were that called in the place of this.
    """
    alike: dict[str, list[str]] = {}
    for name in class_names:
        alike.setdefault(" ".join(name.casefold().split()), []).append(quoted(name))
    pairs = [" and ".join(names) for names in alike.values() if len(names) > 1]
    if pairs:
        warnings.warn(
            f"{where}: {few(pairs)} are taken for different classes. Where they are one, spell "
            "them alike.",
            UserWarning,
            stacklevel=stacklevel + 1,
        )
