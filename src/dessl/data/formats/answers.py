"""Columns of a table with a teacher's answers: classes, or a probability for each class."""

import shlex
import string
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dessl._checks import quoted
from dessl.data.errors import (
    DataError,
    closest,
    did_you_mean,
    few,
    in_rows,
    missing_label_options,
)
from dessl.data.formats.cells import has_decimal_comma, is_number, numbers
from dessl.data.formats.columns import as_text
from dessl.data.formats.npy import row_places
from dessl.data.formats.tables import Table
from dessl.data.labels import MARKS
from dessl.data.spelling import Spelled, spelled

SHOWN = 3  # options in a message


def teacher_columns(columns: Collection[str], name: str, source: object) -> tuple[str, ...]:
    """Return the column with a teacher's name, or those of its probabilities.

    Args:
        columns: All columns of the table.
        name: A column of classes; or the prefix of columns named ``name(class)``
            or ``name_class``.
        source: Name of the table in error messages.

    Raises:
        DataError: There are no such columns.

    >>> teacher_columns(("llm", "gold"), "llm", "a.csv")
    ('llm',)
    >>> teacher_columns(("p(no)", "p(yes)", "page"), "p", "a.csv")
    ('p(no)', 'p(yes)')
    """
    if name in columns:
        return (name,)
    called = tuple(one for one in columns if one.startswith(f"{name}(") and one.endswith(")"))
    found = called or tuple(one for one in columns if one.startswith(f"{name}_"))
    if not found:
        raise DataError.of(
            str(source),
            expected=f"a teacher's classes in a column {quoted(name)}, or its probabilities in "
            f"columns {quoted(f'{name}(class)')} or {quoted(f'{name}_class')}",
            got=few([quoted(other) for other in columns], most=20),
            do=did_you_mean(name, columns) or "Check the name.",
        )
    return found


def probability_columns(name: str, class_name: str) -> tuple[str, str]:
    """The names that a column of a teacher's probabilities of a class may have.

    >>> probability_columns("p", "yes")
    ('p(yes)', 'p_yes')
    """
    return f"{name}({class_name})", f"{name}_{class_name}"


def read_answers(
    table: Table,
    teachers: Mapping[str, Sequence[str]],
    class_names: Sequence[str],
    missing: Collection[str] = (),
    *,
    fitting: bool = False,
    other_answers: str | None = None,
) -> dict[str, Any]:
    """Return each teacher's answers to all rows: classes as a list, or probabilities as an array.

    Args:
        table: Table with the columns.
        teachers: The columns of each teacher by its name, from :func:`teacher_columns`.
        class_names: The classes in order.
        missing: Texts that mean no answer, besides an empty cell.
        fitting: Whether a student is being trained, so that more such texts may be given.
        other_answers: ``"missing"`` to treat answers that are not a class as no answer.

    Raises:
        DataError: The columns of probabilities are not one for each class, or an answer is no
            class.
    """
    found: dict[str, Any] = {}
    for name, columns in teachers.items():
        if columns == (name,) or list(columns) == [name]:
            column = as_text(table.columns[name])
            texts = column.texts.to_pylist()
            cells = [texts[code] for code in column.codes.tolist()]
            read = spelled(cells, class_names, missing)
            if other_answers is None:
                _check_classes(table.source, name, read, class_names, fitting=fitting)
            read.warn(quoted(name), class_names, stacklevel=2)
            found[name] = read.classes
        else:
            found[name] = _probabilities(table, name, columns, class_names)
    return found


def in_rows_of(table: Table, read: Mapping[str, Any], n_rows: int) -> dict[str, Any]:
    """Return the answers of a table's lines in the order of embeddings' rows.

    Args:
        table: Table with one line for each row, or with row numbers in a column ``row``; rows
            without a line have no answer.
        read: Result of :func:`read_answers`.
        n_rows: Number of rows.
    """
    places, found = row_places(table, n_rows, what="lines"), dict[str, Any]()
    for name, lines in read.items():
        if isinstance(lines, np.ndarray):
            found[name] = np.full((n_rows, lines.shape[1]), np.nan)
            found[name][places] = lines
        else:
            found[name] = [None] * n_rows
            for place, answer in zip(places.tolist(), lines, strict=True):
                found[name][place] = answer
    return found


def _check_classes(
    source: Path, name: str, read: Spelled, class_names: Sequence[str], *, fitting: bool
) -> None:
    if not read.other:
        return
    advice = _advice(read.other, class_names, fitting=fitting)
    if fitting and _are_probabilities(read):
        advice = _columns_advice(name, class_names)
    raise DataError.of(
        source,
        expected=f"the classes {few([quoted(one) for one in class_names], most=20)}, or empty "
        f"cells, in column {quoted(name)}",
        got=in_rows(read.other),
        do=advice,
    )


def _are_probabilities(read: Spelled) -> bool:
    """Whether all answers but marks are numbers from 0 to 1, some of them between.

    >>> _are_probabilities(spelled(["0.15", "1", "NA"], ("0", "1")))
    True
    >>> _are_probabilities(spelled(["0", "0.5"], ("0", "0.5", "1")))
    False
    """
    texts = {one.replace(",", ".") for one in read.other if one.strip().lower() not in MARKS}
    if not {*read.classes} <= {None, "0", "1"} or not all(map(is_number, texts)):
        return False
    values = [float(one) for one in texts]
    return all(0 <= one <= 1 for one in values) and any(0 < one < 1 for one in values)


def _columns_advice(name: str, class_names: Sequence[str]) -> str:
    """How to give probabilities, for a column that has only those of one class."""
    endings = (ending for one in class_names for ending in probability_columns("", one))
    teacher = next((name.removesuffix(one) for one in endings if name.endswith(one)), "") or name
    columns = [quoted(probability_columns(teacher, one)[1]) for one in class_names]
    return (
        "These look like probabilities of one class. Give one column for each class, named after "
        f"the classes, in place of {quoted(name)}: {few(columns, most=20)}; and pass --teacher "
        f"{shlex.quote(teacher)}."
    )


def _advice(odd: Counter[str], class_names: Sequence[str], *, fitting: bool) -> str:
    """What to do about answers that are no class."""
    meant, marks = _meant(odd, class_names)
    do = "Empty these cells, write the classes as in training, or pass --other-answers missing."
    if fitting and marks:
        shown = missing_label_options(marks[:SHOWN]) + (" ..." if len(marks) > SHOWN else "")
        named = few([quoted(one) for one in marks], most=SHOWN)
        do = (
            f"If {named} mean{'s' * (len(marks) == 1)} no answer, pass {shown}, or "
            "--other-answers missing for all such answers. If it is a class, correct its spelling; "
            "if no gold label has this class, label some rows of it."
        )
    elif fitting:
        do = "Write the classes as in the gold labels, or pass --other-answers missing."
    asked = [
        f"Did you mean {quoted(near)} by {few([quoted(one) for one in own], most=SHOWN)}?"
        for near, own in list(meant.items())[:SHOWN]
    ]
    return " ".join([*asked, do])


def _meant(odd: Counter[str], class_names: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Answers that resemble a class, by class, and the others; the most frequent first.

    >>> _meant(Counter(["A.", "(A)", "N/A", "eh"]), ("A", "B"))
    ({'A': ['A.', '(A)']}, ['N/A', 'eh'])
    """
    meant: dict[str, list[str]] = {}
    others = []
    for one, _ in odd.most_common():
        near = None
        if one.strip().lower() not in MARKS:  # NA resembles a class A, but is a mark
            bare = one.strip(string.punctuation + string.whitespace)
            near = closest(one, class_names) or closest(bare, class_names)
        if near is None:
            others.append(one)
        else:
            meant.setdefault(near, []).append(one)
    return meant, others


def _probabilities(
    table: Table, name: str, columns: Sequence[str], class_names: Sequence[str]
) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """(n, classes), NaN for an empty cell."""
    ordered = []
    for one in class_names:
        both = [column for column in probability_columns(name, one) if column in columns]
        if not both:
            raise DataError.of(
                table.source,
                expected=f"a column {' or '.join(map(quoted, probability_columns(name, one)))} of "
                "the teacher's probabilities, as for each class",
                got=few([quoted(column) for column in columns], most=20),
                do="Name the columns like the classes of the label column, or remove the class.",
            )
        ordered.append(table.columns[both[0]])
    if len(columns) > len(ordered):
        known = {column.name for column in ordered}
        odd = [quoted(column) for column in columns if column not in known]
        raise DataError.of(
            table.source,
            expected=f"one column of {quoted(name)} for each of the classes {few(class_names)}",
            got=f"{few(odd)} as well",
            do="Rename the columns that are not the teacher's probabilities.",
        )
    return np.stack(
        [numbers(table.source, column, comma=has_decimal_comma(column)) for column in ordered],
        axis=1,
    )
