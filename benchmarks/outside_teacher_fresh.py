r"""Learning from a teacher's answers on real tables that had no part in any choice.

``learn_from_answers`` as it is shipped, on eight tables of gains_fresh.py that were named before
the first run, with the teachers of outside_teacher.py: four that must do no harm, one that names
one class too often at five strengths, and one that is wrong in a region. *Gold only* are networks
trained on the gold labels, *teacher only* networks that imitate the teacher, and *without answers*
is what the student would be if the gate had kept no answers.

What no teacher changes is trained once for all teachers of a table, number of gold labels and draw.
One JSON file a cell in --cells; a cell that has its file is not run again.

    PYTHONPATH=src python benchmarks/gains.py --prepare                 # once; the tables
    PYTHONPATH=src python benchmarks/outside_teacher_fresh.py --cells CELLS --part 1/2
    PYTHONPATH=src python benchmarks/outside_teacher_fresh.py --cells CELLS --minutes 0 \
        --out benchmarks/results
"""

import argparse
import json
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import Tensor

from dessl._files import write_whole
from dessl.evaluation import ShiftWarning
from dessl.teachers.fold_networks import ensemble_log_p
from dessl.teachers.school import School
from dessl.teachers.student import decided, students_of
from dessl.teachers.tree_student import tree_students
from machine import machine
from outside_teacher import Cell, answers_of, scores_of
from outside_teacher_gaps import (
    CORRECTABLE,
    GOLD,
    HARMLESS,
    Gap,
    Gaps,
    better,
    difference,
    mean_over,
    of_teachers,
    worse,
)
from outside_teacher_pool import add_options, asked, run_missing, without_answers
from outside_teacher_pool_report import ANSWERS, STUDENT, TEACHER, WITHOUT
from tree_students import before_answers

Named = dict[str, Tensor]  # answers by the name of a teacher
TABLES = Path(__file__).parent / "runs" / "gains_tables.npz"
SETS = ("beps", "cells", "chile", "credit", "diamonds", "fishing", "hpc", "telecom")
GOLD_LABELS, DRAWS = (100,), 4
REGION = ("region 0.4",)
TEACHERS = {
    "must do no harm": HARMLESS,
    "biased, five strengths": CORRECTABLE,
    "wrong in a region": REGION,
}
PAIRS = (
    (STUDENT, GOLD),
    (STUDENT, TEACHER),
    (STUDENT, WITHOUT),
    (ANSWERS, GOLD),
    (ANSWERS, TEACHER),
    (ANSWERS, WITHOUT),
)


def measured(cell: Cell, tables: Path) -> dict[str, Any]:
    """Cross-entropy and accuracy of each model on test rows, and what the gate kept."""
    x, y, school = before_answers(cell._replace(teacher=""), tables)
    return {**cell._asdict(), **compared(school, x, y, answers_of(cell.teacher, x, y, cell.draw))}


def compared(school: School, x: Tensor, y: Tensor, said: Tensor | Named) -> dict[str, Any]:
    """The same for rows of which the first are test rows, and answers of one teacher or several."""
    began, n_test = time.perf_counter(), len(x) - len(school.x)
    new = slice(n_test)
    school = asked(school, part(said, slice(n_test, None)))
    lessons, imitators = school.lessons(), school.imitators()
    students, trees = students_of(school, lessons), tree_students(school, lessons)
    taught = decided(school, students, imitators, trees, at_prediction=True)
    rows, heard = school.space(x[new]), taught.report.with_answers
    found = {
        GOLD: ensemble_log_p([one.network for one in school.networks.singles], rows),
        TEACHER: ensemble_log_p(imitators[0], rows),
        WITHOUT: without_answers(taught, school).predict_log_proba(x[new]),
        STUDENT: taught.predict_log_proba(x[new]),
        ANSWERS: taught.predict_log_proba(x[new], part(said, new)),
    }
    kept = {STUDENT: taught.report.student.kept, ANSWERS: bool(heard and heard.kept)}
    seconds = time.perf_counter() - began
    return {"scores": scores_of(found, y[new]), "kept": kept, "seconds": seconds}


def part(said: Tensor | Named, rows: slice) -> Tensor | Named:
    """The answers to some rows."""
    if isinstance(said, Tensor):
        return said[rows]
    return {name: its[rows] for name, its in said.items()}


def cells(draws: int) -> list[Cell]:
    """All cells, draw after draw."""
    return [
        Cell(name, n, teacher, draw)
        for draw in range(draws)
        for n in GOLD_LABELS
        for name in SETS
        for teachers in TEACHERS.values()
        for teacher in teachers
    ]


def summary(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Paired differences in each cell, and how often answers at random were used."""
    rows = [dict(record) for record in records]
    shuffled = [record for record in rows if record["teacher"] == "shuffled"]
    used = {m: sum(record["kept"][m] for record in shuffled) for m in (STUDENT, ANSWERS)}
    return {
        "machine": machine(threads=1),
        "runs": len(rows),
        "draws": len({record["draw"] for record in rows}),
        "differences": {f"{one} − {other}": difference(rows, one, other) for one, other in PAIRS},
        "shuffled": {"runs": len(shuffled), "used": used},
    }


def page(found: Mapping[str, Any]) -> str:
    """The counts as Markdown, and every cell."""
    gaps: dict[str, Gaps] = {
        pair: {name: Gap(*gap) for name, gap in every.items()}
        for pair, every in found["differences"].items()
    }
    lines = [
        "# Learning from a teacher's answers on fresh tables", "",
        f"{found['runs']} runs of `benchmarks/outside_teacher_fresh.py`, which says what was "
        f"measured: {len(SETS)} tables, {' and '.join(map(str, GOLD_LABELS))} gold labels, "
        f"{found['draws']} draws. Differences of the cross-entropy of test rows, paired; negative "
        "is better. *Significantly* means that the 95 % interval over the draws excludes 0.", "",
        "| teachers | compared | cells | mean (95 %, cells) | lower | sig. worse | sig. better |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    for title, teachers in TEACHERS.items():
        for pair, every in gaps.items():
            own = of_teachers(every, teachers)
            if own:
                lower = sum(gap.mean < 0 for gap in own.values())
                counts = f"{lower} | {len(worse(own))} | {len(better(own))}"
                lines.append(f"| {title} | {pair} | {len(own)} | {mean_over(own)} | {counts} |")
    shuffled = found["shuffled"]
    shares = ", ".join(f"{method} {n}" for method, n in shuffled["used"].items())
    lines += ["", f"Of {shuffled['runs']} runs with shuffled answers, these used them: {shares}."]
    return "\n".join([*lines, "", *_every_cell(gaps)]) + "\n"


def _every_cell(gaps: Mapping[str, Gaps]) -> list[str]:
    lines = [f"| cell | {' | '.join(gaps)} |", "|---|" + "---:|" * len(gaps)]
    for name in next(iter(gaps.values()), {}):
        each = [every[name] for every in gaps.values()]
        row = [f"{gap.mean:+.3f} ({gap.low:+.3f} to {gap.high:+.3f})" for gap in each]
        lines.append(f"| {name} | {' | '.join(row)} |")
    return lines


def main(argv: Sequence[str] | None = None) -> None:
    """Run what is not there yet, then sum all up."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cells", type=Path, required=True, help="folder of one file a cell")
    parser.add_argument("--tables", type=Path, default=TABLES, help="what gains.py --prepare wrote")
    parser.add_argument("--out", type=Path, help="folder of the summary")
    parser.add_argument("--draws", type=int, default=DRAWS)
    add_options(parser)
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", ShiftWarning)  # 5 % of draws look unlike the other rows
    records = run_missing(cells(options.draws), options, partial(measured, tables=options.tables))
    if records and options.out:
        found = summary(records)
        write_whole(options.out / "outside_teacher_fresh.json", json.dumps(found, indent=1) + "\n")
        write_whole(options.out / "outside_teacher_fresh.md", page(found))


if __name__ == "__main__":
    main()
