"""The pool: its members, the gain from unlabelled rows, and how good the teachers are."""

from dessl.evaluation.metrics.vocabulary import NONE, interval_text, metric_text
from dessl.evaluation.verdict import of_groups
from dessl.report.html import Child, Markup, element, named, section, table
from dessl.results.facts import RunFacts
from dessl.results.taught import REJECTED, STUDENT, WITH_ANSWERS, WITHOUT
from dessl.results.trial import TWIN
from dessl.teachers import PoolReport
from dessl.teachers.choice import Choice, Interval
from dessl.teachers.pool import ANCHOR
from dessl.teachers.taught_report import ADJUSTED, TeacherQuality

LOSS = metric_text("cross_entropy")
HEADINGS = ("member", "weight", f"{LOSS} alone", "difference from networks", "unlabelled rows")
STEPS = ("on held-out labels", LOSS, "change ± standard error")
TEACHERS = ("teacher", "answered", "accuracy (95 % interval)", "confidence", "calibration error")

ANSWERS = "gold labels, unlabelled rows, corrected answers"
USES = {
    WITHOUT: "gold labels, unlabelled rows",
    STUDENT: ANSWERS,
    REJECTED: ANSWERS,
    WITH_ANSWERS: f"{ANSWERS}; the teachers' answers to new rows",
}


def pool_section(facts: RunFacts) -> Markup | None:
    """The two parts of the gain, then the members."""
    pool = facts.pool
    if pool is None:
        return None
    explained = (
        f"From {pool.n:,} labels{of_groups(pool.n_groups)}, each predicted by networks, teachers "
        f"and weights that were not trained on it: {unlabelled_effect(pool)}. Lower is better."
    )
    supervised = "with other predictors trained on the labelled rows"
    steps: list[tuple[Child, ...]] = [
        ("networks alone", f"{pool.anchor:.3f}", NONE),
        (supervised, f"{pool.without_unlabelled:.3f}", pool.ensembling.change),
        ("with the unlabelled rows too (the pool)", f"{pool.pooled:.3f}", pool.unlabelled.change),
    ]
    members: list[tuple[Child, ...]] = [
        (
            named(one.shown_name),
            f"{one.weight:.2f}",
            f"{one.score:.3f}",
            NONE if one.name == ANCHOR else one.gain.change,
            "used" if one.uses_unlabelled else NONE,
        )
        for one in pool.members
    ]
    members_explained = (
        "The pool multiplies its members' probabilities, each to the power of its weight. A weight "
        "of 0 means that a member is not used."
    )
    return section(
        "Pool",
        element("p", explained, class_="note"),
        table(STEPS, steps, label="Gain from the pool", class_="metrics"),
        element("p", members_explained, class_="note"),
        table(HEADINGS, members, label="Members of the pool", class_="metrics"),
    )


def unlabelled_effect(pool: PoolReport) -> str:
    """The effect of the unlabelled rows, in words; clear means two standard errors from 0.

    >>> from dessl.teachers import Gain
    >>> gains = Gain(0.1, 0.02), Gain(0.01, 0.02), Gain(0.1, 1)
    >>> unlabelled_effect(PoolReport(9, (), 0.5, 0.4, 0.39, *gains))
    'no clear effect of the unlabelled rows'
    """
    if not pool.unlabelled.clear:
        return "no clear effect of the unlabelled rows"
    way = "lowered" if pool.unlabelled.mean > 0 else "raised"
    return f"the unlabelled rows clearly {way} the {LOSS}"


def taught_section(facts: RunFacts) -> Markup | None:
    """A table of the teachers, then the weights of the pool."""
    report = facts.taught
    if report is None:
        return None
    older = facts.methods[0].name == TWIN  # as dessl 0.1.0.dev0 called it
    without = f"{'The complete case' if older else '“Without answers”'} is the best model"
    note = (
        f"From {report.n_gold:,} gold labels, each predicted by networks, corrections and weights "
        f"that were not trained on it. {without} from gold labels and unlabelled rows alone."
    )
    if report.with_answers is not None:
        note += (
            " “Corrected answers” weights the answers for each pair of classes, and “one weight” "
            "all of them in the same way."
        )
    return section(
        "Teachers",
        element("p", note, class_="note"),
        table(TEACHERS, map(_teacher, report.teachers), label="The teachers", class_="metrics"),
        *(_choice(title, choice) for title, choice in report.choices.items()),
    )


def _teacher(teacher: TeacherQuality) -> tuple[Child, ...]:
    return (
        named(teacher.name),
        f"{teacher.answered:.0%}",
        NONE if teacher.accuracy is None else _shown(teacher.accuracy),
        NONE if teacher.confidence is None else f"{teacher.confidence:.1%}",
        NONE if teacher.calibration_error is None else _shown(teacher.calibration_error),
    )


def _shown(interval: Interval) -> str:
    return " to ".join(interval_text("accuracy", interval.low, interval.high)) + " %"


def _choice(title: str, choice: Choice) -> Markup:
    rows = (
        (named(name), f"{weight:.2f}")
        for name, weight in zip(choice.members, choice.used, strict=True)
    )
    level = f"95 % interval, {ADJUSTED}" if choice.averaging else "95 % interval"
    return element(
        "div",
        element("h4", title),
        element("p", f"{choice.why} Accuracy: {_shown(choice.accuracy)} ({level})."),
        table(("member", "weight"), rows, label=title, class_="metrics"),
    )
