"""A teacher's answers: one class, or one probability for each class, for every row of the data.

The teacher is anything that does not know the gold labels: a language model, a crowd, an older
model. Its classes alone do not show how sure it is, so they are calibrated first, on gold rows that
the result is not evaluated on: with N[r, c] the gold rows of class c answered r, π the shares of
the gold classes and h the smoothed hit rate,

    q(c | r) = ( N[r, c] + s (h 1[c = r] + (1 − h) π_c) ) / ( N[r] + s ),   s = 3 pseudo-counts.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, Self, TypeGuard

import numpy as np
import torch
from torch import Tensor

from dessl import _checks
from dessl._checks import ArrayLike, quoted
from dessl.data.errors import few, in_rows
from dessl.data.labels import MISSING, codes_by_name
from dessl.data.parts import teacher_names
from dessl.data.spelling import column_order, spelled

BELIEF = 3.0  # pseudo-counts of the prior that all answers are equally often correct
TOLERANCE = 1e-3  # of row sums, which should be one
OTHERS = (
    "Map other spellings to the classes, and anything else to None (no answer), or pass "
    'other_answers="missing" to Answers.of. If it is a class, no gold label has this class: label '
    "some rows of it."
)
SEVERAL = "Pass several teachers as a dict of columns by name."
FEWEST = 10  # gold rows to tell answers from chance
ROUNDED = 0.02 + 1e-6  # of row sums, if probabilities were rounded to two digits


@dataclass(frozen=True)
class Answers:
    """One teacher's answers, a row for each row of the data, labelled ones included.

    Make them with :meth:`of`.

    Attributes:
        values: Class numbers (n,), −1 for no answer; or probabilities (n, classes), equal ones in a
            row without an answer.
        n_classes: How many classes there are.
        name: Name of the teacher in reports.
    """

    values: Tensor
    n_classes: int
    name: str = "teacher"

    @classmethod
    def of(
        cls,
        values: ArrayLike,
        class_names: Sequence[str],
        *,
        name: str = "teacher",
        other_answers: Literal["missing"] | None = None,
    ) -> Self:
        """Read a column of classes or a table of probabilities.

        Args:
            values: Classes (n,) by name, or by number if the classes are numbers, with None, NaN or
                "" for no answer; or probabilities (n, classes) with a row of NaN for no answer: a
                data frame whose columns are named after the classes, or an array in the order of
                ``class_names``. A class may differ in case or in spaces at its ends.
            class_names: The data's classes.
            name: Name of the teacher in reports.
            other_answers: ``"missing"`` to treat answers that are not a class as no answer. By
                default they are an error.

        >>> answers = Answers.of(["spam", None, "ham"], ("ham", "spam"))
        >>> answers.values.tolist(), answers.is_hard, answers.answered.tolist()
        ([1, -1, 0], True, [True, False, True])
        """
        if other_answers is not None:
            _checks.one_of("other_answers", other_answers, ("missing",))
        if _dimensions(values, name) == 2:
            table = _table(values, class_names, name)
            return cls(_probabilities(table, len(class_names), name), len(class_names), name)
        missing = other_answers == "missing"
        return cls(_classes(values, class_names, name, missing), len(class_names), name)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def is_hard(self) -> bool:
        """Whether the answers are classes, without probabilities."""
        return self.values.ndim == 1

    @property
    def answered(self) -> Tensor:
        """Which rows have an answer, boolean (n,)."""
        if self.is_hard:
            return self.values != MISSING
        return self.values.amax(1) - self.values.amin(1) > 0

    @property
    def probabilities(self) -> Tensor:
        """The answers as given, (n, classes): a class is a probability of one."""
        return self.calibrated(None)

    def taken(self, rows: Tensor) -> "Answers":
        """The answers to some of the rows."""
        return Answers(self.values[rows], self.n_classes, self.name)

    def calibrated(self, confusion: Tensor | None) -> Tensor:
        """Return probabilities (n, classes); classes become their row of a confusion, if given.

        Args:
            confusion: Result of :func:`calibrated_confusion`. Probabilities stay unchanged.
        """
        if not self.is_hard:
            return self.values
        table = torch.eye(self.n_classes) if confusion is None else confusion.float()
        equal = torch.full((1, self.n_classes), 1 / self.n_classes)
        return torch.cat([table, equal]).to(self.values.device)[self.values]  # −1 is the last


def calibrated_confusion(answers: Answers, y: Tensor) -> Tensor | None:
    """Return the probability of each class c given each answer r, (classes, classes), float64.

    None for a teacher that gives probabilities. For an unbiased evaluation, pass only gold rows
    that the result is not evaluated on.

    Args:
        answers: The answers to gold rows, (m,).
        y: Their gold labels, (m,).

    >>> answers = Answers.of(["b", "b", "b", "b", "a"], ("a", "b"))
    >>> calibrated_confusion(answers, torch.tensor([0, 0, 0, 0, 1]))
    tensor([[0.5663, 0.4337],
            [0.8338, 0.1662]], dtype=torch.float64)
    """
    if not answers.is_hard:
        return None
    classes, there = answers.n_classes, answers.answered
    said, gold = answers.values[there].cpu(), y[there.to(y.device)].cpu()
    counts = torch.bincount(said * classes + gold, minlength=classes**2).double()
    counts = counts.view(classes, classes)
    shares = (torch.bincount(y.cpu(), minlength=classes) + 1).double() / (len(y) + classes)
    hit_rate = float((counts.trace() + 1) / (counts.sum() + 2))
    belief = hit_rate * torch.eye(classes, dtype=torch.float64) + (1 - hit_rate) * shares
    return (counts + BELIEF * belief) / (counts.sum(1, keepdim=True) + BELIEF)


def _classes(values: ArrayLike, class_names: Sequence[str], name: str, missing: bool) -> Tensor:
    entries = values.tolist() if hasattr(values, "tolist") else list(values)
    if missing or str(MISSING) not in class_names:  # else −1 could be that class, or no answer
        numbers = {one for one in entries if type(one) in (int, float)}
        texts = {one: _number_text(one) for one in numbers}  # once each: there may be a million
        entries = [texts[one] if type(one) in (int, float) else _number_text(one)
                   for one in entries]  # fmt: skip
    if any(isinstance(one, str) for one in entries):
        found = spelled([one if isinstance(one, str) else None for one in entries], class_names)
        if found.other and not missing:
            raise ValueError(
                f"the answers of {name} must be classes of the gold labels, "
                f"{few([quoted(one) for one in class_names], most=20)}; got "
                f"{in_rows(found.other)}. {_positions(entries, class_names)}{OTHERS}"
            )
        found.warn(name, class_names, stacklevel=4)
        entries = [one if isinstance(old, str) else old
                   for one, old in zip(found.classes, entries, strict=True)]  # fmt: skip
    try:
        return codes_by_name(f"the answers of {name}", entries, class_names)
    except ValueError as error:
        error.add_note(f"A teacher's answers must be classes of the gold labels. {OTHERS}")
        raise


def _number_text(entry: Any) -> Any:
    """A number as the text of its class; −1 and NaN are no answer."""
    if isinstance(entry, str) or entry is None:
        return entry
    number = entry.item() if getattr(entry, "shape", None) == () else entry
    if isinstance(number, bool) or not isinstance(number, Real):
        return entry
    if math.isnan(number) or number == MISSING:
        return None
    whole = math.isfinite(number) and number == math.trunc(number)
    return str(math.trunc(number)) if whole else f"{number:.15g}"


def _positions(entries: Sequence[Any], class_names: Sequence[str]) -> str:
    """What to do if all answers are numbers below that of the classes; else ""."""
    numbers = [str(number) for number in range(len(class_names))]
    if any(one is not None and one not in numbers for one in entries):
        return ""
    return "If they are positions in this list, pass the classes at these positions. "


def _dimensions(values: ArrayLike, name: str) -> int:
    """How many dimensions the answers have: one for classes, two for probabilities."""
    try:
        found = np.ndim(values)
        got = "" if found <= 2 else f"{found} dimensions"
    except ValueError:  # NumPy makes no array of them
        found, got = 0, "a list whose entries have different shapes"
    if got:
        raise ValueError(
            f"the answers of {name} must be a column of classes (n,) or a table of probabilities "
            f"(n, classes); got {got}. {SEVERAL}"
        )
    return found


def _table(values: ArrayLike, class_names: Sequence[str], name: str) -> Tensor:
    """A copy of probabilities in the order of the classes, (n, columns)."""
    if isinstance(values, Tensor):
        return values.double()
    try:
        table = torch.from_numpy(np.array(values, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the answers of {name} have several columns, so they must be probabilities; got "
            f"{error}. Pass classes as one column. {SEVERAL}"
        ) from error
    columns = getattr(values, "columns", None)
    if columns is None or len(columns) != len(class_names):
        return table
    try:
        order = column_order(list(columns), class_names)
    except ValueError as error:
        raise ValueError(f"the answers of {name} {error}") from error
    return table if order is None else table[:, order]


def _probabilities(table: Tensor, classes: int, name: str) -> Tensor:
    q, called = table.double(), f"the answers of {name}"
    if q.shape[1] != classes:
        raise ValueError(
            f"{called} must have a column of probabilities for each of the {classes} classes; got "
            f"{q.shape[1]}. Order them like class_names; pass classes as one column. {SEVERAL}"
        )
    missing = torch.isnan(q).all(1)
    q = torch.where(missing[:, None], 1 / classes, q)
    total = q.sum(1)
    off = (total - 1).abs()
    wrong = ~torch.isfinite(q).all(1) | (q < 0).any(1) | (off > ROUNDED)
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise ValueError(
            f"{called} must be probabilities, at least 0 and adding up to 1 in each row; "
            f"{int(wrong.sum()):,} of {len(q):,} rows are not, such as row {row}: "
            f"{[round(float(v), 4) for v in q[row]]}, with the sum {float(total[row]):.4g}. "
            "Divide percentages by 100, or each row by its sum; turn logits into softmax(logits). "
            "A row without an answer is empty (NaN) in all columns."
        )
    rounded = off > TOLERANCE
    if bool(rounded.any()):
        ends = (f"{float(end):.3g}" for end in total[rounded].aminmax())
        warnings.warn(
            f"{int(rounded.sum()):,} of {len(q):,} rows of the probabilities of {name} add up to "
            f"{' to '.join(dict.fromkeys(ends))}, as rounded ones do. Each row was divided by its "
            "sum.",
            UserWarning,
            stacklevel=4,
        )
    return (q / total[:, None]).float()


def answered_by_any(answers: Sequence[Answers]) -> Tensor:
    """Which rows have an answer of at least one teacher, boolean (n,).

    >>> said = [Answers.of(column, ("a", "b")) for column in (["a", None, None], [None, "b", None])]
    >>> answered_by_any(said).tolist()
    [True, True, False]
    """
    return torch.stack([one.answered for one in answers]).any(0)


def warn_of_chance(answers: Sequence[Answers], y: Tensor) -> None:
    """Warn if probabilities are no better than chance, as with columns in another order.

    Args:
        answers: The teachers' answers to all rows.
        y: Gold labels (n,), −1 for rows without one.
    """
    for one in answers:
        known = one.answered & (y != MISSING)
        n, hits = int(known.sum()), int((one.probabilities.argmax(1) == y)[known].sum())
        if one.is_hard or n < FEWEST or hits * one.n_classes > n:
            continue
        warnings.warn(
            f"the most likely class of {one.name} is right on {hits} of {n} gold rows, no better "
            "than chance. Check that its columns of probabilities are in the order of the classes.",
            UserWarning,
            stacklevel=3,
        )


def as_answers(
    values: "Answers | ArrayLike | Sequence[Any]", class_names: Sequence[str], rows: int
) -> tuple[Answers, ...]:
    """Return one teacher or several of them as :class:`Answers` for all rows of the data.

    Args:
        values: Answers, or one column or table as accepted by :meth:`Answers.of`; or several of
            them, as a dict by name or as a list. As many lists of as many numbers as there are rows
            are one table.
        class_names: The data's classes.
        rows: Number of rows of the data.
    """
    if not isinstance(values, Mapping):
        values = list(values) if _several(values, rows) else [values]
    read = tuple(named_answers(values, class_names))
    for answers in read:
        if len(answers) != rows or answers.n_classes != len(class_names):
            raise ValueError(
                f"the answers of {answers.name} must cover the {rows} rows and "
                f"{len(class_names)} classes of the data; got {len(answers)} rows and "
                f"{answers.n_classes} classes. Pass one answer for each row, None for no answer."
            )
    return read


def named_answers(
    given: Mapping[str, Any] | Sequence[Any], class_names: Sequence[str]
) -> list[Answers]:
    """Read the answers of several teachers, by name or numbered.

    >>> [one.name for one in named_answers([["a"], ["b"]], ("a", "b"))]
    ['teacher 1', 'teacher 2']
    >>> is_numbered("teacher 2"), is_numbered("gpt")
    (True, False)
    """
    if not isinstance(given, Mapping):
        given = dict(zip(teacher_names(len(given)), given, strict=True))
    return [
        one if isinstance(one, Answers) else Answers.of(one, class_names, name=str(name))
        for name, one in given.items()
    ]


def is_numbered(name: str) -> bool:
    """Whether a teacher has the name that it gets if the user gives none."""
    first, _, number = name.partition(" ")
    return first == "teacher" and (number == "" or number.isdecimal())


def _several(values: Any, rows: int) -> TypeGuard[Sequence[Any]]:
    """Whether a list is one of teachers, not of rows."""
    if not isinstance(values, list | tuple) or not values:
        return False
    if not all(isinstance(one, Answers) or _length(one) == rows for one in values):
        return False
    if len(values) != rows or not all(isinstance(one, list | tuple) for one in values):
        return True
    return any(isinstance(entry, str | list | tuple) for one in values for entry in one)


def _length(one: Any) -> int | None:
    """The length of a column or table; None for anything else, such as a single answer."""
    if isinstance(one, list | tuple):
        return len(one)
    shape = getattr(one, "shape", None)
    return int(shape[0]) if shape else None
