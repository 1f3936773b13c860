"""Labels of classes that a trained model does not know: the error that counts their rows."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from dessl.data.errors import DataError, did_you_mean, few, in_rows
from dessl.data.labels import MARKS
from dessl.data.spelling import plain


class UnknownClassesError(DataError):
    """Rows have labels that are no class of the model.

    Attributes:
        counts: Number of rows of each such label.
        likely_classes: Whether they look like classes, not like misspelt ones or marks of a
            missing label.

    >>> raise UnknownClassesError.of_labels("x.csv", "in column 'y'", {"cow": 3}, ["cat", "dog"])
    Traceback (most recent call last):
        ...
    dessl.data.unknown_classes.UnknownClassesError: x.csv: expected in column 'y' one of cat, dog; \
got 'cow' in 3 rows. If it is misspelt, correct it. If it is a class that the model does not know, \
the model is wrong on all these rows: label some rows of it in the training data, and fit again. \
Without these labels the accuracy would be too high.
    """

    counts: Mapping[str, int]
    likely_classes: bool

    @classmethod
    def of_labels(
        cls, path: str | Path, where: str, counts: Mapping[str, int], class_names: Sequence[str]
    ) -> "UnknownClassesError":
        """Build the error.

        Args:
            path: The file or folder.
            where: Where labels are, in words.
            counts: Number of rows of each unknown label.
            class_names: The labels that were expected.
        """
        known, words = set(map(plain, class_names)), [plain(name) for name in counts]
        marks = any(word in MARKS for word in words)
        advice = [
            did_you_mean(next(iter(counts)), class_names),
            "If it is misspelt, correct it.",
            "If it marks a missing label, remove it." if marks else "",
            "If it is a class that the model does not know, the model is wrong on all these rows: "
            "label some rows of it in the training data, and fit again. Without these labels the "
            "accuracy would be too high.",
        ]
        found = cls(
            f"{path}: expected {where} one of {few(class_names, most=20)}; got {in_rows(counts)}. "
            + " ".join(filter(None, advice))
        )
        found.counts = dict(counts)
        found.likely_classes = not marks and not any(word in known for word in words)
        return found
