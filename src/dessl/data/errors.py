"""The one error of reading data: which file, what was expected, what was found, what to do."""

from collections.abc import Sequence
from pathlib import Path

from dessl._checks import shortened

LONGEST = 2000  # characters of what was expected, and of what came


class DataError(ValueError):
    """A file that is missing, truncated, malformed, mislabelled or too large.

    Every reader of :mod:`dessl.data` raises this, and nothing else, for a bad file.

    >>> raise DataError.of("y.bin", expected="labels 0 to 9", got="label 17", do="Fetch it again.")
    Traceback (most recent call last):
        ...
    dessl.data.errors.DataError: y.bin: expected labels 0 to 9; got label 17. Fetch it again.
    """

    @classmethod
    def of(cls, path: str | Path, *, expected: str, got: str, do: str) -> "DataError":
        """Word the error in the order that helps: file, expected, got, what to do."""
        expected, got = (shortened(part, most=LONGEST) for part in (expected, got))
        return cls(f"{path}: expected {expected}; got {got}. {do}")


def few(entries: Sequence[str], *, most: int = 8) -> str:
    """The first entries and how many more there are; a long entry is cut.

    >>> few(["a", "b"]), few(["a", "b", "c"], most=1)
    ('a, b', 'a and 2 more')
    """
    more = f" and {len(entries) - most:,} more" if len(entries) > most else ""
    return ", ".join(shortened(entry, most=100) for entry in entries[:most]) + more
