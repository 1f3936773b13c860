"""The report on learning from a teacher's answers: how good it is, and what they gained."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from dessl._html import GREEN, GREY, card
from dessl.teachers.choice import Choice, Interval

ADJUSTED = "adjusted for averaging over folds"  # an accuracy that is not that of single networks
CORRECTED = ("corrected answers", "corrected answers (one weight)")  # members: with D, without
RENAMED = {"corrected answers, one number": CORRECTED[1]}  # members in earlier reports


@dataclass(frozen=True)
class TeacherQuality:
    """How good a teacher is, measured on gold rows.

    Attributes:
        name: Name of the teacher.
        answered: Share of all rows that it answered.
        accuracy: Accuracy of its most likely class on gold rows that it answered, None for fewer
            than three; unlabelled rows narrow the interval if its probabilities predict its hits.
        calibration_error: Expected calibration error (:func:`dessl.evaluation.estimate_ece`); None
            for answers without probabilities, or too few rows.
        confidence: Its mean probability of its most likely class; None for answers without
            probabilities.
        trust: t of the correction, mean over the folds; negative if its answers count against a
            class.
    """

    name: str
    answered: float
    accuracy: Interval | None
    calibration_error: Interval | None
    confidence: float | None
    trust: float

    def __str__(self) -> str:
        words = f"{self.name}: "
        words += f"accuracy {self.accuracy}" if self.accuracy else "too few answers"
        words += " on gold rows"
        if self.confidence is not None and self.calibration_error is not None:
            error = self.calibration_error
            words += f"; mean confidence {self.confidence:.3f}, "
            if error.low > 0:
                words += f"calibration error {error}"
            else:
                words += f"no clear miscalibration (calibration error at most {error.high:.3f})"
        if self.answered < 1:
            words += f"; it answered {self.answered:.1%} of the rows"
        return words + "."


@dataclass(frozen=True)
class TaughtReport:
    """The result of learning from the answers, and how it was decided.

    Attributes:
        n_gold: Number of gold rows.
        n_unlabelled: Number of rows without a gold label.
        teachers: How good each teacher is.
        student: The decision about the student that needs no teacher.
        with_answers: The decision about the predictor with answers as input, if requested.
    """

    n_gold: int
    n_unlabelled: int
    teachers: tuple[TeacherQuality, ...]
    student: Choice
    with_answers: Choice | None

    def __str__(self) -> str:
        hint = [self.hint] if self.hint else []
        return "\n".join([*self._beginning, *_lines(self.choices), *hint])

    @property
    def hint(self) -> str:
        """What to do with good answers that are not used; "" if nothing."""
        known = [(one.accuracy.value, one.name) for one in self.teachers if one.accuracy]
        reached = self.student.accuracy.value
        used = self.student.kept if self.with_answers is None else self.with_answers.kept
        if used or not known or max(known)[0] <= reached:
            return ""
        best, name = max(known)
        who = "the teacher" if name == "teacher" else name
        result = "the student alone" if self.student.kept else "the model without answers"
        said = (
            f"The answers themselves may be good: on gold rows, the accuracy is {best:.3f} for "
            f"{who} and about {reached:.3f} for {result}. "
        )
        if self.with_answers is None:
            return said + (
                "If new rows get answers too, use them there: --teacher-at-prediction, in Python "
                "at_prediction=True."
            )
        return said + (
            f"{self.with_answers.n} gold rows do not show how far to trust them: label more rows."
        )

    @property
    def choices(self) -> dict[str, Choice]:
        """The decisions by their title; first the one on what predicts rows with answers."""
        found = {"Without the teacher at prediction time": self.student}
        if self.with_answers is None:
            return found
        with_them = {"With the teacher at prediction time": self.with_answers}
        return with_them | found if self.with_answers.kept else found | with_them

    @property
    def used_members(self) -> tuple[str, ...]:
        """Names of the members with a weight in what was kept."""
        kept = [self.student, *([self.with_answers] if self.with_answers else [])]
        used = (zip(one.members, one.used, strict=True) for one in kept)
        return tuple(dict.fromkeys(name for each in used for name, weight in each if weight))

    @property
    def about_teachers(self) -> tuple[str, ...]:
        """Sentences about the rows, each teacher, and the second decision, if there is one."""
        return (*self._beginning, *_lines(dict(list(self.choices.items())[1:])))

    @property
    def _beginning(self) -> tuple[str, ...]:
        rows = f"{self.n_gold:,} gold labels, {self.n_unlabelled:,} rows without one."
        return (rows, *map(str, self.teachers))

    def _repr_html_(self) -> str:
        first, *lines = str(self).splitlines()
        return card(
            first,
            note=" ".join(lines),
            colour=GREEN if next(iter(self.choices.values())).kept else GREY,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON can represent it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """Rebuild from the result of :meth:`as_dict`, also after JSON."""
        teachers = tuple(map(_quality, found["teachers"]))
        more = None if found["with_answers"] is None else _choice(found["with_answers"])
        counts = (found["n_gold"], found["n_unlabelled"])
        return cls(*counts, teachers, _choice(found["student"]), more)


def _quality(found: Mapping[str, Any]) -> TeacherQuality:
    own = {
        name: Interval(**found[name]) if isinstance(found[name], Mapping) else None
        for name in ("accuracy", "calibration_error")  # earlier calibration errors had no interval
    }
    return TeacherQuality(**{**found, **own})


def _lines(choices: Mapping[str, Choice]) -> list[str]:
    return [
        line
        for title, one in choices.items()
        for line in (f"{title}: {one.why}", f"The accuracy of the result is about {one.accuracy}.")
    ]


def renewed(found: Mapping[str, Any]) -> dict[str, Any]:
    """The report of format 1, which compared the answers with the gold-only networks."""
    choices = {}
    for name in ("student", "with_answers"):
        choice = found[name]
        if choice is not None:
            alone = [1.0] + [0.0] * (len(choice["weights"]) - 1)
            own = {"weights_without": alone, "without_loss": choice["gold_only_loss"]}
            choice = {**choice, **own, "n": found["n_gold"]}
        choices[name] = choice
    return {**found, **choices}


def _choice(found: Mapping[str, Any]) -> Choice:
    lists = ("members", "weights", "weights_without")
    own: dict[str, Any] = {name: tuple(found[name]) for name in lists}
    own["members"] = tuple(RENAMED.get(name, name) for name in own["members"])
    own |= {name: Interval(**found[name]) for name in ("accuracy", "accuracy_gold_rows")}
    return Choice(**{**found, **own})
