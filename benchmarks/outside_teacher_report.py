"""What the cells of outside_teacher.py say: differences, errors of the gate, and a page."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from dessl.evaluation import mean_interval
from machine import machine
from outside_teacher_gaps import (
    CORRECTABLE,
    GOLD,
    HARMLESS,
    LISTENING,
    OURS,
    Record,
    cell_name,
    difference,
    gaps,
    only,
    table,
)
from outside_teacher_verdicts import STEPS, answers

UNSEEN = ("wine", "blobs", "checkers")  # when the default was chosen
GATES = (0.0, 0.5, 1.0, 1.5, 2.0)  # standard errors


def share(hits: Sequence[bool]) -> str:
    """A share with its 95 % Wilson interval."""
    n, p, z = len(hits), sum(hits) / len(hits), 1.96
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return f"{p:.0%} ({max(0, middle - half):.0%} to {min(1, middle + half):.0%})"


def judges(records: Sequence[Record]) -> str:
    """How often each judge finds a gain that a shuffled teacher cannot have brought."""
    ways: dict[str, Callable[[Record], tuple[float, float]]] = {
        "at the kept step, beside gold only (before)": lambda r: (
            r["earlier"]["gold_only_loss"] - r["earlier"]["pooled_loss"],
            r["earlier"]["standard_error"],
        ),
        "at the kept step, beside the best without answers": lambda r: (
            r["earlier"]["without_loss"] - r["earlier"]["pooled_loss"],
            r["earlier"]["standard_error"],
        ),
        "step chosen by other rows, beside the best without answers (now)": lambda r: (
            r["report"]["student"]["without_loss"] - r["report"]["student"]["pooled_loss"],
            r["report"]["student"]["standard_error"],
        ),
    }
    lines = ["| judge | a gain found | by 1 standard error | by 2 | mean gain found |"]
    lines += ["|---|" + "---:|" * 4]
    for name, way in ways.items():
        found = [way(record) for record in records]
        rates = [share([gain > z * error for gain, error in found]) for z in (0, 1, 2)]
        mean = mean_interval([gain for gain, _ in found])
        lines.append(
            f"| {name} | {' | '.join(rates)} | {mean.mean:+.4f} ({mean.low:+.4f} to "
            f"{mean.high:+.4f}) |"
        )
    true = [
        r["scores"][f"{OURS}, without answers"]["cross_entropy"]
        - r["scores"][f"{OURS}, without a gate"]["cross_entropy"]
        for r in records
    ]
    mean = mean_interval(true)
    lines.append(f"| on test rows | | | | {mean.mean:+.4f} ({mean.low:+.4f} to {mean.high:+.4f}) |")
    return "\n".join(lines)


def gates(records: Sequence[Record], method: str, verdict: str) -> str:
    """What gates of other heights would have kept, and its cross-entropy less gold labels alone."""
    lines = ["| standard errors needed | shuffled: used | shuffled: mean | all: used | all: mean |"]
    lines += ["|---:|" + "---:|" * 4]
    for z in GATES:
        entries = [f"{z:g}"]
        for some in (only(records, "shuffled"), records):
            used, change = [], []
            for record in some:
                choice, scores = record["report"][verdict], record["scores"]
                fall = choice["without_loss"] - choice["pooled_loss"]
                used.append(fall > z * choice["standard_error"])
                kept = f"{method}, {'without a gate' if used[-1] else 'without answers'}"
                gold = scores["gold only"]["cross_entropy"]
                change.append(scores[kept]["cross_entropy"] - gold)
            entries += [share(used), f"{sum(change) / len(change):+.4f}"] if some else ["", ""]
        lines.append(f"| {' | '.join(entries)} |")
    return "\n".join(lines)


def page(records: Sequence[Record]) -> str:
    """The summary as Markdown."""
    loss, hits = gaps(records, "cross_entropy"), gaps(records, "accuracy")
    without = f"{OURS}, without answers"
    beside = gaps(records, "cross_entropy", without)
    taught = {m: beside[m] for m in (OURS, "student", "debiased student", LISTENING) if m in beside}
    seen = list(dict.fromkeys(record["teacher"] for record in records))
    harmless, correctable = (
        [one for one in some if one in seen] for some in (HARMLESS, CORRECTABLE)
    )
    unseen = [record for record in records if record["data"] in UNSEEN]
    choices = [record["report"]["student"] for record in records]
    widths = [
        (c["accuracy"]["high"] - c["accuracy"]["low"])
        / (c["accuracy_gold_rows"]["high"] - c["accuracy_gold_rows"]["low"])
        for c in choices
    ]
    parts = [
        "# A teacher from outside",
        head(records, seen),
        *answers(records),
        "## Cross-entropy, all teachers",
        table(loss, seen),
        "## Accuracy, all teachers",
        table(hits, seen, sign=-1),
        "## What the answers brought",
        "Cross-entropy less that of the same method without answers, a pool of the gold-only "
        "networks and of students that these taught:",
        table(taught, seen),
        f"## Cross-entropy, teachers that must do no harm: {', '.join(harmless)}",
        table(loss, harmless),
        f"## Cross-entropy, biased teachers that an offset corrects: {', '.join(correctable)}",
        table(loss, correctable),
        "## On data sets that had not been seen when the defaults were chosen",
        table(gaps(unseen, "cross_entropy"), seen),
        "## Cross-entropy by teacher",
        *(f"### {teacher}\n\n{table(loss, [teacher])}" for teacher in seen),
        "## The judge",
        *judged_parts(records, unseen),
        "## The interval of the student's accuracy",
        "Width with unlabelled rows over width from gold rows alone: mean "
        f"{sum(widths) / len(widths):.2f}, from {min(widths):.2f} to {max(widths):.2f}.",
    ]
    return "\n\n".join(parts) + "\n"


def head(records: Sequence[Record], seen: Sequence[str]) -> str:
    """What was measured, in a paragraph."""
    sets = sorted({f"{record['data']} ({record['n_gold']})" for record in records})
    gold = sum(record["scores"][GOLD]["cross_entropy"] for record in records) / len(records)
    draws = Counter(Counter(map(cell_name, records)).values())
    sizes = ", ".join(f"{cells} with {n}" for n, cells in sorted(draws.items(), reverse=True))
    return (
        f"{len(records)} runs in {sum(draws.values())} cells of data set, gold labels and teacher "
        f"(draws: {sizes}; a cell with one draw has no interval and is not counted below). "
        f"Cross-entropy of gold labels alone is {gold:.3f} on average. Differences are paired over "
        "the draws; *significantly*: the 95 % interval over the draws excludes 0, so of 40 cells "
        "without a difference about one is significantly worse by chance and one better. Few draws "
        "give wide intervals: a cell that is not significantly worse may still be worse.\n\n"
        f"Teachers: {', '.join(seen)}; data sets and gold labels: {', '.join(sets)}. Where λ was 0 "
        "no debiased student was trained; in tables of methods gold labels alone take its place."
    )


def judged_parts(records: Sequence[Record], unseen: Sequence[Record]) -> list[str]:
    """How often a useless teacher is found to help, and what other gates would have kept."""
    useless = only(records, "shuffled")
    parts = []
    if len(useless) > 1:
        words = f"{len(useless)} runs with a shuffled teacher, whose answers cannot help:"
        parts += [words, judges(useless)]
    for name, some in (("all data sets", records), ("data sets not seen before", unseen)):
        for method, verdict in ((OURS, "student"), (LISTENING, "with_answers")):
            if some:
                parts += [f"Other gates, {name}, {method}:", gates(some, method, verdict)]
    return parts


def summary(records: Sequence[Record]) -> dict[str, Any]:
    """All differences, with the machine and the time."""
    return {
        "machine": machine(),
        "runs": len(records),
        "draws": 1 + max(record["draw"] for record in records),
        "seconds": round(sum(record["seconds"] for record in records)),
        "cross_entropy": gaps(records, "cross_entropy"),
        "accuracy": gaps(records, "accuracy"),
        "beside_teacher_only": {
            method: difference(records, method, "teacher only") for method in (OURS, LISTENING)
        },
        "steps": {words: difference(records, *pair) for words, *pair in STEPS},
    }
