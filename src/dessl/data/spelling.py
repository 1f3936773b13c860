"""A teacher's words for the classes: other spellings, unknown answers, the names of columns."""

import re
import warnings
from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from dessl._checks import quoted
from dessl.data.errors import few, in_rows

COUNTED = re.compile(r"\D*(\d+)")  # such as x0, x1, ...: names that say nothing


class Spelled(NamedTuple):
    """Answers as classes.

    Attributes:
        classes: A class for each answer; None for no answer, or for one that is no class.
        respelt: Answers that are a class only after :func:`plain`, with their numbers of rows.
        other: Answers that are no class, with their numbers of rows.
    """

    classes: list[str | None]
    respelt: Counter[str]
    other: Counter[str]

    def warn(self, name: str, class_names: Sequence[str], *, stacklevel: int) -> None:
        """Count the answers that were read as something else than what is written."""
        if self.respelt:
            ((first, _),) = self.respelt.most_common(1)
            n = self.respelt.total()
            warnings.warn(
                f"{n:,} answer{' of ' if n == 1 else 's of '}{name} {'was' if n == 1 else 'were'} "
                "read as a class that differs only in upper and lower case or in spaces, such as "
                f"{quoted(first)} as {quoted(folded(class_names)[plain(first)])}.",
                UserWarning,
                stacklevel=stacklevel + 1,
            )
        if self.other:
            n = self.other.total()
            said = f"answer of {name} is not a class and counts"
            if n > 1:
                said = f"answers of {name} are not classes and count"
            warnings.warn(
                f"{n:,} {said} as no answer: {in_rows(self.other)}.",
                UserWarning,
                stacklevel=stacklevel + 1,
            )


def plain(text: str) -> str:
    """A text in lower case, without spaces at its ends."""
    return text.strip().casefold()


def folded(class_names: Sequence[str]) -> dict[str, str]:
    """Classes by their :func:`plain` text, if no other class has the same."""
    counts = Counter(map(plain, class_names))
    return {plain(name): name for name in class_names if counts[plain(name)] == 1}


def spelled(
    answers: Sequence[str | None], class_names: Sequence[str], marks: Collection[str] = ()
) -> Spelled:
    """Read answers as classes, also those that differ only in case or in spaces at the ends.

    Args:
        answers: Texts; None for no answer.
        class_names: The classes.
        marks: Texts that mean no answer, as an empty text does.

    >>> spelled(["ham", " Spam", "?", "", None], ("ham", "spam"))
    Spelled(classes=['ham', 'spam', None, None, None], respelt=Counter({' Spam': 1}), \
other=Counter({'?': 1}))
    """
    classes, similar, none = set(class_names), folded(class_names), {"", *map(plain, marks)}
    meaning: dict[str | None, str | None] = {None: None}
    respelt, other = Counter[str](), Counter[str]()
    for text, count in Counter(answers).items():
        if text is None:
            continue
        meaning[text] = text if text in classes else None
        if text in classes or text in marks:
            continue
        if plain(text) in similar:
            meaning[text] = similar[plain(text)]
            respelt[text] = count
        elif plain(text) not in none:
            other[text] = count
    return Spelled([meaning[text] for text in answers], respelt, other)


def column_order(columns: Sequence[object], class_names: Sequence[str]) -> list[int] | None:
    """Return the position of each class among columns named after the classes.

    The names are the classes, or the classes between the same two texts, such as ``p(yes)`` or
    ``p_yes``. None if they say nothing about the classes: numbers, or a text and a number.

    Raises:
        ValueError: They are names, but not those of all classes.

    >>> column_order(["p_no", "p_yes"], ("yes", "no")), column_order([0, 1], ("yes", "no"))
    ([1, 0], None)
    """
    named, classes = [plain(_text(one)) for one in columns], [plain(one) for one in class_names]
    if len(set(named)) == len(set(classes)) == len(classes) == len(named):
        first = named[0]
        for one in classes:
            for start in (k for k in range(len(first)) if first.startswith(one, k)):
                before, after = first[:start], first[start + len(one) :]
                wanted = [f"{before}{other}{after}" for other in classes]
                if set(wanted) == set(named):
                    return [named.index(name) for name in wanted]
    if list(columns) == list(range(len(classes))):  # as pandas numbers them
        return None
    numbers = [COUNTED.fullmatch(name) for name in named]
    if all(numbers) and not any(name in classes for name in named):
        return None
    raise ValueError(
        f"must have a column for each class, named like the {len(class_names)} classes "
        f"{few([quoted(name) for name in class_names], most=20)}, or like 'p(class)'; got "
        f"{few([quoted(str(name)) for name in columns], most=20)}. Rename the columns; if they are "
        "in the order of the classes, pass an array (.to_numpy())."
    )


def _text(name: object) -> str:
    whole = isinstance(name, float) and name.is_integer()
    return str(int(name)) if isinstance(name, float) and whole else str(name)
