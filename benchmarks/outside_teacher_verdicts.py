"""What outside_teacher.py was asked, answered from its cells: harm, gain, and what brought it."""

from collections.abc import Sequence
from typing import NamedTuple

from outside_teacher_gaps import (
    CORRECTABLE,
    GOLD,
    HARMLESS,
    LISTENING,
    OURS,
    Gaps,
    Record,
    better,
    difference,
    mean_over,
    of_teachers,
    only,
    worse,
)

AS_LONG = "gold only, as long"
MOST_NAMED = 12
UNGATED, UNTAUGHT = f"{OURS}, without a gate", f"{OURS}, without answers"
KINDS = {
    "good, noisy": ("good", "noisy"),
    "overconfident": ("overconfident",),
    "shuffled": ("shuffled",),
    "permuted, inverted": ("permuted", "inverted"),
    "biased": CORRECTABLE,
    "wrong in a region": ("region 0.4", "region 0.8"),
    "hard": ("hard",),
}
# What a step adds: the method with it, beside the method without it.
STEPS = (
    ("longer training, no teacher", AS_LONG, GOLD),
    ("self-training, no teacher", "self-taught student", AS_LONG),
    ("believing: gold labels and answers mixed", "usual mix", AS_LONG),
    ("debiasing that mix, λ = n_u/n", "debiased, n_u/n", "usual mix"),
    ("debiasing that mix, λ by the relative slope", "debiased, relative slope", "usual mix"),
    ("what answers bring when debiased", "debiased, relative slope", AS_LONG),
    ("what answers bring when corrected", "student", "self-taught student"),
    ("correcting rather than debiasing", "student", "debiased, relative slope"),
    ("debiasing the corrected answers", "debiased student", "student"),
    ("pooling with the gold-only networks", UNGATED, "student"),
    ("the gate", OURS, UNGATED),
    ("what answers bring the whole method", OURS, UNTAUGHT),
    ("hearing the teacher at prediction time", LISTENING, OURS),
)


def answers(records: Sequence[Record]) -> list[str]:
    """The questions of the benchmark and their answers, as parts of a page."""
    return [
        "## Does a bad teacher harm?",
        harm(records),
        "## Does a biased teacher help, at five strengths?",
        gain(records),
        "## When did debiasing, correcting or pooling bring the gain?",
        steps(records),
    ]


def harm(records: Sequence[Record]) -> str:
    """Cells of teachers that must do no harm which are significantly worse than gold labels."""
    found = {
        method: of_teachers(difference(records, method, GOLD), HARMLESS)
        for method in (OURS, LISTENING)
    }
    cells = found[OURS]
    if not cells:
        return "No cell of these teachers has two draws yet."
    longer = worse(of_teachers(difference(records, OURS, AS_LONG), HARMLESS))
    worst = {method: worse(every) for method, every in found.items()}
    lines = [
        f"**Significantly worse than gold labels alone: {len(worst[OURS])} of {len(cells)} cells** "
        f"({named(worst[OURS])}); with the teacher at prediction time {len(worst[LISTENING])} "
        f"({named(worst[LISTENING])}). If no cell differed, {0.025 * len(cells):.1f} would be "
        f"expected by chance. Beside gold labels trained as long as the students: {len(longer)} "
        f"({named(longer)}).",
        "",
        "| teacher | cells | sig. worse | sig. better | mean (95 % over cells) | at prediction "
        "time: sig. worse | sig. better | mean (95 % over cells) |",
        "|---|" + "---:|" * 7,
    ]
    for teacher in HARMLESS:
        both = [of_teachers(found[method], (teacher,)) for method in (OURS, LISTENING)]
        if not both[0]:
            continue
        entries = [
            f"{len(worse(every))} | {len(better(every))} | {mean_over(every)}" for every in both
        ]
        lines.append(f"| {teacher} | {len(both[0])} | {' | '.join(entries)} |")
    return "\n".join(lines)


class Both(NamedTuple):
    """A method less gold labels alone, and less the imitation of the teacher, in the same cells."""

    gold: Gaps
    teacher: Gaps

    @property
    def surely(self) -> list[str]:
        """Cells that are significantly better than both."""
        return [key for key in better(self.gold) if self.teacher[key].high < 0]

    @property
    def not_lower(self) -> Gaps:
        """Cells whose mean is not below both."""
        lower = {k for k, gap in self.gold.items() if gap.mean < 0 and self.teacher[k].mean < 0}
        return {key: gap for key, gap in self.gold.items() if key not in lower}

    def of(self, teacher: str) -> "Both":
        """The cells of one teacher."""
        return Both(*(of_teachers(every, (teacher,)) for every in self))


def gain(records: Sequence[Record]) -> str:
    """Cells of biased teachers that are better than gold labels and than the imitation."""
    biased = only(records, *CORRECTABLE)
    found = {
        method: Both(difference(biased, method, GOLD), difference(biased, method, "teacher only"))
        for method in (OURS, LISTENING)
    }
    if not found[OURS].gold:
        return "No cell of these teachers has two draws yet."
    lines = []
    for method, both in found.items():
        name = "The student alone" if method == OURS else "With the teacher at prediction time"
        n = len(both.gold)
        lines += [
            f"- {name}: lower cross-entropy than both gold labels alone and the imitation of the "
            f"teacher in **{n - len(both.not_lower)} of {n} cells**, significantly lower than both "
            f"in **{len(both.surely)}**. Significantly worse than gold labels: "
            f"{named(worse(both.gold))}; than the imitation: {named(worse(both.teacher))}. Mean "
            f"not below both: {named(both.not_lower)}."
        ]
    lines += [
        "",
        "| teacher | cells | sig. better than gold | than its imitation | than both | mean less "
        "gold (95 % over cells) | at prediction time: than both | mean less gold |",
        "|---|" + "---:|" * 7,
    ]
    for teacher in CORRECTABLE:
        student, listening = (found[method].of(teacher) for method in (OURS, LISTENING))
        if student.gold:
            lines.append(
                f"| {teacher} | {len(student.gold)} | {len(better(student.gold))} | "
                f"{len(better(student.teacher))} | {len(student.surely)} | "
                f"{mean_over(student.gold)} | {len(listening.surely)} | "
                f"{mean_over(listening.gold)} |"
            )
    return "\n".join(lines)


def steps(records: Sequence[Record]) -> str:
    """What each step of the method adds to the one before it, by kind of teacher."""
    kinds = {
        name: some
        for name, teachers in KINDS.items()
        if difference(some := only(records, *teachers), OURS, GOLD)
    }
    lines = [
        "Cross-entropy with a step less that without it: mean over cells (cells significantly "
        "worse / better / all).",
        "",
        f"| step | all teachers | {' | '.join(kinds)} |",
        "|---|" + "---:|" * (1 + len(kinds)),
    ]
    for words, method, beside in STEPS:
        every = [difference(some, method, beside) for some in (records, *kinds.values())]
        lines.append(f"| {words} | {' | '.join(map(counted, every))} |")
    return "\n".join([*lines, "", *summed(records)])


def summed(records: Sequence[Record]) -> list[str]:
    """The three steps in words."""
    words = {
        "Debiasing": ("what answers bring when debiased", "a student of the answers as they are"),
        "Correcting": ("what answers bring when corrected", "a student of corrected answers"),
        "Pooling": ("pooling with the gold-only networks", "the pool"),
        "The gate": ("the gate", "what is kept"),
    }
    lines = []
    for name, (step, what) in words.items():
        method, beside = next((m, b) for known, m, b in STEPS if known == step)
        found = difference(records, method, beside)
        if found:
            lines.append(
                f"- **{name}** ({what}, beside {beside!r}): significantly better in "
                f"{len(better(found))} of {len(found)} cells, worse in {len(worse(found))}; mean "
                f"{mean_over(found)}."
            )
    return lines


def counted(found: Gaps) -> str:
    """A mean with the number of cells that are significantly worse and better."""
    if not found:
        return ""
    mean = sum(gap.mean for gap in found.values()) / len(found)
    return f"{mean:+.3f} ({len(worse(found))} / {len(better(found))} / {len(found)})"


def named(found: Gaps) -> str:
    """The names of cells with their means, the largest first."""
    order = sorted(found.items(), key=lambda entry: -entry[1].mean)
    texts = [f"{key} {gap.mean:+.3f}" for key, gap in order[:MOST_NAMED]]
    more = [f"{len(order) - MOST_NAMED} more"] if len(order) > MOST_NAMED else []
    return "; ".join(texts + more) or "none"
