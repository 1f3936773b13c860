"""The rows that ``dessl evaluate`` measures a model on, some of them with a label."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from dessl.cli.groups import NamedRows
from dessl.cli.new_rows import Expected, check_labels_present, new_rows
from dessl.cli.options import Reading
from dessl.cli.output import noted_warnings, say
from dessl.cli.sources import fingerprint
from dessl.data import DataError, Part
from dessl.data.errors import in_rows
from dessl.data.unknown_classes import UnknownClassesError
from dessl.saved import SavedModel

LEAST_LABELS = 3


class LabelledRows(NamedTuple):
    """Rows of DATA with labels.

    Attributes:
        named: The rows.
        class_names: The model's classes, and then those that only DATA has.
        trained_on: Whether the model was trained on rows of DATA.
        unknown: The classes that the model does not know, with their numbers of rows, in words.
    """

    named: NamedRows
    class_names: tuple[str, ...]
    trained_on: bool
    unknown: str

    @property
    def rows(self) -> Part:
        """Features and class numbers."""
        return self.named.rows

    def refuse_unknown_classes(self, option: str) -> None:
        """Refuse an option that needs labels of the model's classes only."""
        if self.unknown:
            raise ValueError(
                f"{option} needs labels of the model's classes only; got {self.unknown}. Omit "
                f"{option}, or label some rows of each class in the training data and fit again."
            )


def labelled_rows(
    model: SavedModel,
    data: str,
    *,
    labels: str | None,
    label: str | None,
    reading: Reading,
    skip_damaged: bool,
) -> LabelledRows:
    """Read DATA with its labels, and say which of them bias the metrics.

    Args:
        model: The model to evaluate.
        data: The DATA argument.
        labels: File with the labels, for npy files.
        label: Column with the labels in that file.
        reading: How a table is read.
        skip_damaged: Whether to leave out images that cannot be read.

    Raises:
        DataError: Labels are missing or too few, or none is a class of the model.
    """

    def read(expected: Expected) -> NamedRows:
        rows, names = new_rows(
            data, expected, labels_file=labels, label=label, reading=reading,
            skip_damaged=skip_damaged,
        )  # fmt: skip
        return NamedRows(data, rows, names, labels)

    expected = Expected.of(model)
    with noted_warnings():
        named, class_names, unknown = _with_unknown_classes(read, expected)
    check_labels_present(data, named.rows, expected, reading=reading)
    n_labelled = int(named.rows.labelled.sum())
    if n_labelled < LEAST_LABELS:
        raise DataError.of(
            data,
            expected=f"at least {LEAST_LABELS} labelled rows",
            got=f"{n_labelled}",
            do="Label some rows, or use dessl predict.",
        )
    if unknown:
        _note_unknown(unknown, named.rows, len(model.class_names))
    trained_on = _is_trained_on(model, data)
    return LabelledRows(named, class_names, trained_on, unknown)


def _with_unknown_classes(
    read: Callable[[Expected], NamedRows], expected: Expected
) -> tuple[NamedRows, tuple[str, ...], str]:
    """The rows, their classes, and those that the model does not know, in words.

    A misspelt label, or a mark of a missing one, is refused; so are labels that have no class in
    common with the model, which are probably written differently.
    """
    try:
        return read(expected), expected.class_names, ""
    except UnknownClassesError as error:
        if not error.likely_classes:
            raise
        more = expected.with_classes(error.counts)
        named = read(more)
        if not bool((named.rows.labelled & (named.rows.y < len(expected.class_names))).any()):
            raise
        return named, more.class_names, in_rows(error.counts)


def padded(p: Tensor, class_names: tuple[str, ...]) -> Tensor:
    """Probabilities (n, classes) with zeros for the classes that the model does not know.

    >>> padded(torch.tensor([[0.25, 0.75]]), ("a", "b", "c")).tolist()
    [[0.25, 0.75, 0.0]]
    """
    return torch.nn.functional.pad(p, (0, len(class_names) - p.shape[1]))


def _note_unknown(unknown: str, rows: Part, n_known: int) -> None:
    """Say how rows of classes that the model does not know are counted."""
    n, labelled = int((rows.y >= n_known).sum()), int(rows.labelled.sum())
    say(
        f"Note: {n:,} of the {labelled:,} labelled rows are of a class that the model does not "
        f"know: {unknown}. They count as wrong, with a probability of 0 for their class. If a "
        "label is misspelt, correct it; to predict the class, label some rows of it in the "
        "training data and fit again.",
        style="yellow",
    )


def _is_trained_on(model: SavedModel, data: str) -> bool:
    """Whether DATA is what the model was trained on, which is said."""
    known = fingerprint(data)  # reads all of DATA
    if known is None or known != model.details.get("data_sha256"):
        return False
    say(
        f"Note: the model was trained on rows of {data}, so these metrics are optimistic.",
        style="yellow",
    )
    return True
