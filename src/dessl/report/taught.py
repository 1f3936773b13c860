"""Teachers: how good each is by gold labels, and what became of their answers."""

from dessl.evaluation.metrics.vocabulary import NONE, interval_text
from dessl.report.html import Child, Markup, element, named, section, table
from dessl.results.facts import RunFacts
from dessl.teachers.taught import Choice, Interval, TeacherQuality

TEACHERS = ("teacher", "answered", "accuracy (95 % interval)", "confidence", "calibration error")


def taught_section(facts: RunFacts) -> Markup | None:
    """A table of the teachers, then the weights of what was pooled."""
    report = facts.taught
    if report is None:
        return None
    note = (
        f"By {report.n_gold:,} gold labels. Each of them judged networks, corrections and weights "
        "that did not see it. On this page the complete case is what is used without the answers."
    )
    return section(
        "Teachers",
        element("p", note, class_="note"),
        table(TEACHERS, map(_row, report.teachers), label="The teachers", class_="metrics"),
        _choice("Without the teachers at prediction time", report.student),
        _choice("With the teachers at prediction time", report.with_answers),
    )


def _row(teacher: TeacherQuality) -> tuple[Child, ...]:
    return (
        named(teacher.name),
        f"{teacher.answered:.0%}",
        NONE if teacher.accuracy is None else _shown(teacher.accuracy),
        NONE if teacher.confidence is None else f"{teacher.confidence:.1%}",
        NONE if teacher.calibration_error is None else f"{teacher.calibration_error:.1%}",
    )


def _shown(interval: Interval) -> str:
    return " to ".join(interval_text("accuracy", interval.low, interval.high)) + " %"


def _choice(title: str, choice: Choice | None) -> Markup | None:
    if choice is None:
        return None
    rows = (
        (named(name), f"{weight:.2f}")
        for name, weight in zip(choice.members, choice.used, strict=True)
    )
    return element(
        "div",
        element("h4", title),
        element("p", f"{choice.why} Accuracy: {_shown(choice.accuracy)} (95 % interval)."),
        table(("member", "weight"), rows, label=title, class_="metrics"),
    )
