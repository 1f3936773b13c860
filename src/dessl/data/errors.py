"""The error of reading data: which file, what was expected, what was found, what to do."""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from dessl._checks import quoted, shortened

LONGEST = 2000  # characters of the expected and the actual text


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
        """Build the message: file, expected, got, what to do."""
        expected, got = (shortened(part, most=LONGEST) for part in (expected, got))
        return cls(f"{path}: expected {expected}; got {got}. {do.lstrip()}")


class Unusable:
    """Collects errors of single files, so that one error names all of them."""

    def __init__(self) -> None:
        self._found: list[tuple[Path, DataError]] = []

    @contextmanager
    def noted(self, path: Path) -> Iterator[None]:
        """Note an error of this file instead of raising it."""
        try:
            yield
        except DataError as error:
            self._found.append((path, error))

    @property
    def paths(self) -> list[Path]:
        """The files with an error."""
        return [path for path, _ in self._found]

    def refuse(self, do: str = "") -> None:
        """Raise the first error noted, with the names of the other files and what else to do."""
        if not self._found:
            return
        (_, first), *rest = self._found
        if not rest:
            raise DataError(f"{first} {do}".rstrip()) from first
        files = "file" if len(rest) == 1 else "files"
        names = few([str(path) for path, _ in rest])
        raise DataError(
            f"{first} {len(rest):,} more {files} cannot be used: {names}. {do}".rstrip()
        ) from first


def few(entries: Sequence[str], *, most: int = 8) -> str:
    """The first entries and how many more there are; a long entry is shortened.

    >>> few(["a", "b"]), few(["a", "b", "c"], most=1)
    ('a, b', 'a and 2 more')
    """
    more = f" and {len(entries) - most:,} more" if len(entries) > most else ""
    return ", ".join(shortened(entry, most=100) for entry in entries[:most]) + more


def in_rows(counts: Mapping[str, int]) -> str:
    """Cells and how many rows have them, the most frequent first.

    >>> in_rows({"?": 1, "not sure": 1200})
    "'not sure' in 1,200 rows, '?' in 1 row"
    """
    ordered = sorted(counts.items(), key=lambda one: -one[1])
    return few([f"{quoted(cell)} in {n:,} row{'s' * (n > 1)}" for cell, n in ordered])


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Suggest the known word closest to a misspelt one; "" if none is close.

    >>> did_you_mean("Diagnosis", ("age", "diagnosis")), did_you_mean("minst", ("mnist", "toy"))
    ("Did you mean 'diagnosis'?", "Did you mean 'mnist'?")
    >>> did_you_mean("colour", ("age", "town"))
    ''
    """
    near = closest(word, known)
    return "" if near is None else f"Did you mean {quoted(near)}?"


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word closest to a misspelt one; None if none is close.

    >>> closest("minst", ("mnist", "toy")), closest("colour", ("age", "town"))
    ('mnist', None)
    """
    plain = {_plain(name): name for name in known}
    near = difflib.get_close_matches(_plain(word), plain, n=1)
    return plain[near[0]] if near else None


def missing_label_options(marks: Iterable[str]) -> str:
    """Options for marks of a missing label, quoted for a shell: a sentence may end after them.

    >>> print(missing_label_options(["NA", "don't know"]))
    --missing-label 'NA' --missing-label 'don'"'"'t know'
    """
    each = ("'" + mark.replace("'", "'\"'\"'") + "'" for mark in marks)
    return " ".join(f"--missing-label {mark}" for mark in each)


def _plain(name: str) -> str:
    return "".join(name.casefold().split())[:100]
