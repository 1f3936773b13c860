"""The label column of a table: which classes it holds, and what can be none."""

from collections.abc import Collection

import numpy as np

from dessl._checks import quoted
from dessl.data.errors import DataError
from dessl.data.formats.columns import as_text
from dessl.data.formats.number_cells import is_number
from dessl.data.formats.tables import Table
from dessl.data.label_marks import marks_among, warn_of_doubtful

MAX_CLASSES = 1000
NO_CLASSES = "Is it the right column? Numbers to predict are not classes."


def class_names(table: Table, label: str, *, stacklevel: int = 2) -> tuple[str, ...]:
    """The labels that occur: numbers in the order of their size, else in that of the alphabet.

    Args:
        table: The table.
        label: The column of the labels.
        stacklevel: As of ``warnings.warn``, were that called in the place of this.

    Raises:
        DataError: There are too few classes, or too many; or the labels are measurements, or text
            among which -1 stands.
    """
    column = as_text(table.columns[label])
    counts = dict(zip(column.texts.to_pylist(), np.bincount(column.codes).tolist(), strict=True))
    counts.pop("", None)
    if not 2 <= len(counts) <= MAX_CLASSES:
        raise DataError.of(
            table.source,
            expected=f"2 to {MAX_CLASSES} classes in the label column {quoted(label)}",
            got=f"{len(counts)}",
            do=NO_CLASSES,
        )
    marks = marks_among(counts)
    sure = {text: count for text, count in counts.items() if text not in marks}
    _check_minus_one(table, label, sure)
    _check_repeated(table, label, sure)
    warn_of_doubtful(
        counts,
        where=f"{table.source}, label column {quoted(label)}",
        do="empty the cell",
        stacklevel=stacklevel + 1,
    )
    return tuple(sorted(counts, key=float if all(map(is_number, counts)) else None))


def _check_minus_one(table: Table, label: str, texts: Collection[str]) -> None:
    """Refuse -1 beside text, as :func:`dessl.data.labels.texts` does."""
    words = sorted(text for text in texts if not is_number(text))
    if "-1" in texts and words:
        raise DataError.of(
            table.source,
            expected=f"one kind of labels in column {quoted(label)}",
            got=f"'-1' together with text such as {quoted(words[0])}; -1 marks a missing label "
            "only among numbers",
            do="Empty the cell if the label is missing; rename the class if it is one.",
        )


def _check_repeated(table: Table, label: str, counts: dict[str, int]) -> None:
    """Refuse numbers with a fraction of which most occur once: they are measurements."""
    n_rows = sum(counts.values())
    if not all(map(is_number, counts)) or len(counts) <= n_rows / 2:
        return
    broken = sorted(text for text in counts if not float(text).is_integer())
    if broken:
        raise DataError.of(
            table.source,
            expected=f"classes in the label column {quoted(label)}",
            got=f"{len(counts)} different numbers in {n_rows} labelled rows, such as "
            f"{quoted(broken[0])}",
            do=NO_CLASSES,
        )
