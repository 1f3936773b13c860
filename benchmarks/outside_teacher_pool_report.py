"""What the cells of outside_teacher_pool.py say: means, differences, and what the gate kept."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dessl.evaluation import mean_interval
from machine import machine
from outside_teacher_gaps import (
    CORRECTABLE,
    HARMLESS,
    Gap,
    Gaps,
    Record,
    better,
    mean_over,
    of_teachers,
    only,
    worse,
)
from outside_teacher_gaps import difference as by_cell
from outside_teacher_report import share

SETS = ("breast_cancer", "hostile", "moons", "overlap")
TRIAL = {"embeddings": 300, "digits-trial": 150}
GOLD, DEFAULT, TEACHER = "gold only", "default", "teacher only"
STUDENT, ANSWERS = "student", "student with answers"
BEFORE, WITHOUT = "networks alone", "student, without answers"
METHODS = (DEFAULT, STUDENT, ANSWERS, f"{STUDENT}, {BEFORE}", f"{ANSWERS}, {BEFORE}")
MORE = (GOLD, TEACHER, WITHOUT)  # in runs of today, not in the earlier ones
PAIRS = (
    *(
        (ours, theirs)
        for ours in (STUDENT, ANSWERS)
        for theirs in (GOLD, TEACHER, DEFAULT, WITHOUT)
    ),
    (WITHOUT, GOLD),
    (DEFAULT, GOLD),
)
FEWEST = 100  # gold labels of a world that is named by its teacher alone


def groups(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Records by world: each trial world, then the cells by teacher, gold labels and data sets."""
    found: dict[str, list[Record]] = {}
    for one in records:
        where = f"teacher: {one['teacher']}"
        if one["data"] not in SETS:
            where += ", other data sets"
        elif one["n_gold"] != FEWEST:
            where += f", {one['n_gold']} gold labels"
        found.setdefault(one["data"] if one["data"] in TRIAL else where, []).append(one)
    return found


def difference(records: Sequence[Record], a: str, b: str) -> dict[str, float]:
    """Cross-entropy of model a minus that of b, mean with a 95 % interval over the runs."""
    each = [
        one["scores"][a]["cross_entropy"] - one["scores"][b]["cross_entropy"] for one in records
    ]
    mean, low, high = float(np.mean(each)), math.nan, math.nan
    if len(each) > 1:
        half = mean_interval(each).half_width
        low, high = mean - half, mean + half
    lower = sum(value < 0 for value in each)
    return {"mean": mean, "low": low, "high": high, "cells": len(each), "lower": lower}


def summary(
    records: Sequence[Record], earlier: Mapping[str, Any] | None = None, where: str = ""
) -> dict[str, Any]:
    """All tables as numbers.

    Args:
        records: The runs.
        earlier: Worlds of an earlier summary, kept where no run replaces them.
        where: The machine of the runs, if it is not this one.
    """
    worlds: dict[str, Any] = {}
    for name, some in groups(records).items():
        worlds[name] = {
            "cells": len(some),
            "cross_entropy": {
                model: float(np.mean([one["scores"][model]["cross_entropy"] for one in some]))
                for model in (*METHODS, *MORE)
                if all(model in one["scores"] for one in some)
            },
            "student - default": difference(some, STUDENT, DEFAULT),
            "networks alone - default": difference(some, f"{STUDENT}, {BEFORE}", DEFAULT),
            "student - networks alone": difference(some, STUDENT, f"{STUDENT}, {BEFORE}"),
            "answers - student": difference(some, ANSWERS, STUDENT),
            "answers - networks alone": difference(some, ANSWERS, f"{ANSWERS}, {BEFORE}"),
        }
        if gate := kept(some):
            worlds[name]["gate"] = gate
    compared = {f"{a} - {b}": by_cell(records, a, b) for a, b in PAIRS}
    before = {name: one for name, one in (earlier or {}).items() if name not in worlds}
    return {
        "machine": {"runs": where, "collected": machine()} if where else machine(),
        "runs": len(records),
        "seconds": round(sum(one.get("seconds", 0) for one in records)),
        "worlds": before | worlds,
        "shuffled": kept(only(records, "shuffled")),
        "compared": compared,
    }


def kept(records: Sequence[Record]) -> dict[str, Any]:
    """How often the gate used the answers, and how often it said that they help."""
    if not all("sure" in one["choices"][STUDENT] for one in records if "choices" in one):
        return {}
    found = {}
    for name in (STUDENT, ANSWERS):
        every = [one["choices"][name] for one in records if "choices" in one]
        if every:
            used, sure = ([bool(one[word]) for one in every] for word in ("kept", "sure"))
            found[name] = {
                "runs": len(every),
                "used": sum(used),
                "help": sum(sure),
                "used_share": share(used),
                "help_share": share(sure),
                "mean_gain": float(np.mean([one["gain"][0] for one in every])),
            }
    return found


def run(one: Record) -> dict[str, Any]:
    """One run as a line of a table: its cross-entropies and the gate's numbers."""
    line = {name: one[name] for name in ("data", "n_gold", "teacher", "draw")}
    line["seconds"] = round(one["seconds"])
    line |= {name: round(each["cross_entropy"], 5) for name, each in one["scores"].items()}
    for name in (STUDENT, ANSWERS):
        gate = one["choices"][name]
        line[f"{name}: verdict"] = (
            "help" if gate["sure"] else "used" if gate["kept"] else "not used"
        )
        line[f"{name}: gain"] = f"{gate['gain'][0]:.4g}"
        line[f"{name}: standard error"] = f"{gate['standard_error']:.4g}"
        line[f"{name}: weight of answers"] = round(gate["answers_weight"], 3)
    return line


def table_of_runs(records: Sequence[Record]) -> str:
    """All runs as CSV."""
    lines = [run(one) for one in records]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def page(found: dict[str, Any]) -> str:
    """The tables as Markdown."""
    earlier = [where for where, one in found["worlds"].items() if "gate" not in one]
    lines = [
        "# The default without answers, and a student of a teacher's answers",
        "",
        "`benchmarks/outside_teacher_pool.py`; cross-entropy of test rows, means over the runs.",
        "How the model without answers is chosen was changed after a look at draws 0 and 1 of the",
        "cells by teacher. By default a teacher has 100 gold labels of each of four data sets;",
        "others are wine with 60, and blobs, checkers and digits with 100 and 300 gold labels,",
        "with fewer draws, and not the same number for all teachers: compare within a line.",
    ]
    if earlier:
        lines += [f"The default of {', '.join(earlier)} is that of commit c0ca0c5."]
    lines += ["", *means(found), "", *differences(found)]
    if any(found["compared"].values()):
        lines += ["", *gate(found), "", *verdicts(found)]
    return "\n".join([*lines, ""])


def means(found: dict[str, Any]) -> list[str]:
    """The cross-entropy of each model."""
    shown = [DEFAULT, STUDENT, ANSWERS, f"{STUDENT}, {BEFORE}", *MORE]
    lines = [
        "| world or teacher | runs | default | student | with answers | student, networks alone | "
        "gold only | teacher only | student, without answers |",
        "|---|" + "---:|" * (1 + len(shown)),
    ]
    for where, one in found["worlds"].items():
        ce = one["cross_entropy"]
        numbers = " | ".join(f"{ce[name]:.3f}" if name in ce else "" for name in shown)
        lines.append(f"| {where} | {one['cells']} | {numbers} |")
    return lines


def differences(found: dict[str, Any]) -> list[str]:
    """Paired differences with their intervals over the runs."""
    lines = [
        "## Differences",
        "",
        "Mean (95 % over the runs; how many are lower). *Networks alone* is the student without",
        "the default pool's models.",
        "",
        "| world or teacher | student − default | networks alone − default | student − networks "
        "alone | with answers − student | with answers − networks alone with answers |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for where, one in found["worlds"].items():
        names = (
            "student - default",
            "networks alone - default",
            "student - networks alone",
            "answers - student",
            "answers - networks alone",
        )
        lines.append(f"| {where} | {' | '.join(_shown(one[name]) for name in names)} |")
    return lines


def gate(found: dict[str, Any]) -> list[str]:
    """How often the gate used the answers."""
    lines = [
        "## What the gate kept",
        "",
        "*Used*: the answers have a weight, and a gain of more than one standard error in gold",
        "rows. *Help*: the 95 % interval of this gain excludes 0. Shares have a 95 % interval.",
        "",
        "| world or teacher | runs | student: used | student: help | with answers: used | "
        "with answers: help |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for where, one in found["worlds"].items():
        if "gate" in one:
            both = [one["gate"][name] for name in (STUDENT, ANSWERS)]
            shares = " | ".join(f"{g['used_share']} | {g['help_share']}" for g in both)
            lines.append(f"| {where} | {both[0]['runs']} | {shares} |")
    if found["shuffled"]:
        every = [found["shuffled"][name] for name in (STUDENT, ANSWERS)]
        shares = " | ".join(f"{g['used_share']} | {g['help_share']}" for g in every)
        lines.append(f"| all runs with shuffled answers | {every[0]['runs']} | {shares} |")
    return lines


def verdicts(found: dict[str, Any]) -> list[str]:
    """Cells that are significantly worse or better, by kind of teacher."""
    compared = {
        name: {cell: Gap(*gap) for cell, gap in every.items()}
        for name, every in found["compared"].items()
    }
    seen = sorted({cell.split(", ")[2] for cell in next(iter(compared.values()))})
    kinds = {
        "all teachers": seen,
        f"teachers that must do no harm ({', '.join(HARMLESS)})": HARMLESS,
        "biased teachers, five strengths": CORRECTABLE,
        **{teacher: (teacher,) for teacher in seen},
    }
    lines = [
        "## Cells",
        "",
        "A cell is a data set, a number of gold labels and a teacher; differences are paired over",
        "its draws. *Significantly*: the 95 % interval over the draws excludes 0, so of 40 cells",
        "without a difference about one is significantly worse by chance and one better.",
    ]
    for kind, teachers in kinds.items():
        lines += [
            "",
            f"### {kind[0].upper()}{kind[1:]}",
            "",
            "| cross-entropy | cells | mean (95 % over cells) | lower | sig. worse | sig. better | "
            "worst cell |",
            "|---|" + "---:|" * 6,
        ]
        for name, every in compared.items():
            cells = of_teachers(every, teachers)
            if cells:
                lines.append(f"| {name.replace(' - ', ' − ')} | {_counted(cells)} |")
    lines += ["", "### Better than both", "", *both(compared)]
    named = [
        f"- {name.replace(' - ', ' − ')}: {cell} "
        f"({gap.mean:+.4f}, {gap.low:+.4f} to {gap.high:+.4f})"
        for name, every in compared.items()
        for cell, gap in worse(every).items()
    ]
    return [*lines, "", "### Cells that are significantly worse", "", *(named or ["None."])]


def both(compared: Mapping[str, Gaps]) -> list[str]:
    """Cells of biased teachers where a model is better than the gold labels and the teacher."""
    lines = []
    for ours in (STUDENT, ANSWERS):
        pair = [of_teachers(compared[f"{ours} - {one}"], CORRECTABLE) for one in (GOLD, TEACHER)]
        lower = [{cell for cell, gap in every.items() if gap.mean < 0} for every in pair]
        clear = [set(better(every)) for every in pair]
        others = [pair[0][cell].mean for cell in set(pair[0]) - set.intersection(*lower)]
        lines.append(
            f"- Biased teachers, {ours}: lower than gold only and teacher only in "
            f"{len(set.intersection(*lower))} of {len(pair[0])} cells, significantly lower than "
            f"both in {len(set.intersection(*clear))}; the others differ from gold only by at most "
            f"{max(others, default=0.0):+.4f}."
        )
    return lines


def _counted(cells: Gaps) -> str:
    lower = sum(gap.mean < 0 for gap in cells.values())
    worst = max(gap.mean for gap in cells.values())
    counts = f"{lower} | {len(worse(cells))} | {len(better(cells))}"
    return f"{len(cells)} | {mean_over(cells)} | {counts} | {worst:+.3f}"


def _shown(one: dict[str, float]) -> str:
    mean, low, high = (f"{one[part]:+.3f}".replace("-", "−") for part in ("mean", "low", "high"))
    return f"{mean} ({low} to {high}; {one['lower']} of {one['cells']})"
