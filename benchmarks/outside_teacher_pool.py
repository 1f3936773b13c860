r"""Is a model with a teacher's answers better than gold labels, the default, and the teacher?

Models from the same gold labels and unlabelled rows: the gold-only networks (complete case), the
default (DeSSLClassifier: networks pooled with graph, linear, trees, kernel and Gaussians), networks
that imitate the teacher and see no gold label (teacher only), the student of
``learn_from_answers``, and the student with the teacher's answers to test rows. The student has the
default's models in its pool; *networks alone* is the same student without them, from the same
networks, and *without answers* is what it would be if the gate had kept no answers.

Worlds: two of a trial user, *embeddings* (Gaussian classes in 32 columns, 300 gold labels) and
*digits-trial* (150), whose teachers name classes and confuse some; and cells of outside_teacher.py.

That the pool without answers is kept unless the networks alone are better by one standard error was
chosen after a look at draws 0 and 1 of the cells (before, the lower out-of-fold loss decided: the
student of hostile, shuffled, draw 1 had .428, now .382); the other draws came later. *Networks
alone* follows the same rule.

Ten draws of four data sets with 100 gold labels come first, then as many with 300, then more draws
of shuffled answers, for the rate at which the gate keeps them, then other data sets. What no
teacher changes is trained once for the teachers of a data set, number of gold labels and draw.

One JSON file a cell in --cells; a cell that has its file is not run again. --part 2/10 runs every
tenth draw of a data set, from the second. --out keeps the tables of worlds without a file.

    PYTHONPATH=src python benchmarks/outside_teacher_pool.py --cells CELLS --minutes 9 \
        --part 1/10
    PYTHONPATH=src python benchmarks/outside_teacher_pool.py --cells CELLS --minutes 0 \
        --out benchmarks/results
"""

import argparse
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from torch import Tensor

from dessl import DeSSLClassifier
from dessl._files import write_whole
from dessl.data import SemiData
from dessl.teachers import Taught
from dessl.teachers.answers import as_answers
from dessl.teachers.choice import Choice
from dessl.teachers.fold_networks import NetworkSetting, ensemble_log_p
from dessl.teachers.school import School
from dessl.teachers.student import decided, students_of
from outside_teacher import MOST_TEST, Cell, answers_of, rows_of, scores_of
from outside_teacher_gaps import CORRECTABLE, HARMLESS
from outside_teacher_pool_report import (
    ANSWERS,
    BEFORE,
    DEFAULT,
    GOLD,
    SETS,
    STUDENT,
    TEACHER,
    TRIAL,
    WITHOUT,
    page,
    summary,
    table_of_runs,
)

GOLD_LABELS = (100, 300)
OTHER_SETS = (("wine", 60), *((n, k) for k in GOLD_LABELS for n in ("blobs", "checkers", "digits")))
TEACHERS = (*HARMLESS, *CORRECTABLE, "good")
DRAWS, SHUFFLED_DRAWS = 10, 30


def world(name: str, draw: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, their classes, and the classes that the teacher names, of a trial world."""
    g = np.random.default_rng(1000 + draw)
    if name == "embeddings":
        y = g.choice(4, 9000, p=[0.4, 0.3, 0.2, 0.1])
        centres = np.random.default_rng(1).normal(size=(4, 32)) * 0.45
        x = centres[y] + g.normal(size=(len(y), 32))
        confusion = np.array(
            [
                [0.85, 0.10, 0.00, 0.05],
                [0.35, 0.55, 0.02, 0.08],
                [0.02, 0.05, 0.90, 0.03],
                [0.25, 0.25, 0.10, 0.40],
            ]
        )
        said = np.array([g.choice(4, p=confusion[c]) for c in y])
    else:
        from sklearn.datasets import load_digits

        x, y = load_digits(return_X_y=True)
        order = g.permutation(len(y))
        x, y = x[order], y[order]
        said, chance = y.copy(), g.random(len(y))
        said[(y == 3) & (chance < 0.6)] = 8
        said[(y == 9) & (chance < 0.5)] = 4
        guessed = g.random(len(y)) < 0.1
        said[guessed] = g.integers(0, 10, guessed.sum())
    return torch.as_tensor(x).float(), torch.as_tensor(y).long(), torch.as_tensor(said).long()


def cell_rows(cell: Cell) -> tuple[Tensor, Tensor, Tensor, int]:
    """Rows, classes and answers, test rows first, and the number of test rows."""
    if cell.data in TRIAL:
        x, y, said = world(cell.data, cell.draw)
        return x, y, said, 5000 if cell.data == "embeddings" else 450
    x, y = rows_of(cell.data)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(1000 + cell.draw))
    answers = answers_of(cell.teacher, x, y, seed=cell.draw)
    return x[order], y[order], answers[order], min(MOST_TEST, len(y) // 4)


def measured(cell: Cell) -> dict[str, Any]:
    """Cross-entropy and accuracy of all models on test rows, and what the reports said."""
    began = time.perf_counter()
    x, y, said, n_test = cell_rows(cell)
    new = slice(n_test)
    default, school = without_teacher(cell._replace(teacher=""))
    school = asked(school, said[n_test:])
    students, imitators = students_of(school, school.lessons()), school.imitators()
    rows = school.space(x[new])
    found = {
        GOLD: ensemble_log_p([one.network for one in school.networks.singles], rows),
        DEFAULT: default,
        TEACHER: ensemble_log_p(imitators[0], rows),
    }
    reports: dict[str, Choice | None] = {}
    for end, its in (("", school), (f", {BEFORE}", replace(school, others=None))):
        taught = decided(its, students, imitators, at_prediction=True)
        if end:
            taught = without_second_gate(taught)
        else:
            found[WITHOUT] = without_answers(taught, school).predict_log_proba(x[new])
        found[STUDENT + end] = taught.predict_log_proba(x[new])
        found[ANSWERS + end] = taught.predict_log_proba(x[new], said[new])
        reports[STUDENT + end] = taught.report.student
        reports[ANSWERS + end] = taught.report.with_answers
    choices = {name: verdict(one) for name, one in reports.items() if one is not None}
    seconds = time.perf_counter() - began
    facts = {"scores": scores_of(found, y[new]), "choices": choices, "seconds": seconds}
    return {**cell._asdict(), "n_test": n_test, **facts}


def verdict(one: Choice) -> dict[str, Any]:
    """What the gate decided, and by which numbers."""
    more = one.gain_over_alone
    return {
        "kept": one.kept,
        "sure": one.sure,
        "without": one.without_loss,
        "pooled": one.pooled_loss,
        "gain": [one.gain.value, one.gain.low, one.gain.high],
        "standard_error": one.standard_error,
        "gain_over_alone": more and [more.value, more.low, more.high],
        "answers_weight": one.answers_weight,
        "accuracy": [one.accuracy.value, one.accuracy.low, one.accuracy.high],
        "averaging": one.averaging,
        "weights": {n: w for n, w in zip(one.members, one.used, strict=True) if w},
    }


@lru_cache(maxsize=1)
def without_teacher(cell: Cell) -> tuple[Tensor, School]:
    """What no teacher changes: the default's log-probabilities of test rows, and the networks.

    The answers of the school are those of a good teacher; see :func:`asked`.
    """
    named = "confuses classes" if cell.data in TRIAL else "good"
    x, y, said, n_test = cell_rows(cell._replace(teacher=named))
    labels = y[n_test:].clone()
    labels[cell.n_gold :] = -1
    names = [str(number) for number in range(int(y.max()) + 1)]
    default = DeSSLClassifier(random_state=cell.draw).fit(x[n_test:].numpy(), labels.numpy())
    data = SemiData(x[n_test:], labels, class_names=names)
    school = School.of(data, said[n_test:], NetworkSetting(), cell.draw)
    return torch.as_tensor(default.predict_proba(x[:n_test].numpy())).log(), school


def asked(school: School, said: Tensor | dict[str, Tensor]) -> School:
    """The same rows and networks with another teacher's answers."""
    answers = as_answers(said, school.class_names, len(school.x))
    own = tuple(one.taken(school.gold_rows) for one in answers)
    networks = replace(school.networks, gold=replace(school.networks.gold, answers=own))
    return replace(school, answers=answers, networks=networks)


def without_answers(taught: Taught, school: School) -> Taught:
    """The student that would be kept if the gate had kept no answers."""
    student = replace(taught.report.student, needed=math.inf)
    report = replace(taught.report, student=student, with_answers=None)
    others = school.others_fitted(report.used_members)
    return replace(taught, report=report, listening=None, others=others)


def without_second_gate(taught: Taught) -> Taught:
    """The same, with answers to new rows compared only with the model without answers."""
    heard = taught.report.with_answers
    heard = heard and replace(heard, alone_loss=None, alone_error=None)
    return replace(taught, report=replace(taught.report, with_answers=heard))


def cells(draws: int) -> list[Cell]:
    """All cells, draw after draw: few gold labels, many, more of shuffled answers, other sets."""
    trial = [Cell(*one, "confuses classes", draw) for draw in range(draws) for one in TRIAL.items()]
    first = [
        Cell(name, n, teacher, draw)
        for n in GOLD_LABELS
        for draw in range(draws)
        for name in SETS
        for teacher in TEACHERS
    ]
    more = range(DRAWS, SHUFFLED_DRAWS if draws >= DRAWS else DRAWS)
    useless = [Cell(name, GOLD_LABELS[0], "shuffled", draw) for draw in more for name in SETS]
    others = [
        Cell(*one, teacher, draw)
        for draw in range(draws)
        for one in OTHER_SETS
        for teacher in TEACHERS
    ]
    return [*trial, *first, *useless, *others]


def in_part(wanted: list[Cell], part: str) -> Iterator[Cell]:
    """Every n-th draw of a data set with all its teachers, from the i-th, for part i/n."""
    first, n = map(int, part.split("/"))
    draws = groupby(wanted, lambda cell: (cell.data, cell.n_gold, cell.draw))
    for number, (_, some) in enumerate(draws):
        if number % n == first - 1:
            yield from some


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of :func:`run_missing`, but for --cells."""
    parser.add_argument("--part", default="1/1", help="i/n: one of n processes")
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="start no cell after so many minutes"
    )


def run_missing(
    wanted: list[Cell], options: argparse.Namespace, measure: Callable[[Cell], dict[str, Any]]
) -> list[dict[str, Any]]:
    """Measure the cells of this part without a file; return the records of all that have one."""
    options.cells.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * options.minutes
    for cell in in_part(wanted, options.part):
        place = options.cells / cell.file
        if not place.exists() and time.monotonic() < end:
            found = measure(cell)
            write_whole(place, json.dumps(found) + "\n")
            ce = {name: round(one["cross_entropy"], 3) for name, one in found["scores"].items()}
            print(cell.file, f"{found['seconds']:.0f} s", ce, flush=True)
    files = [options.cells / cell.file for cell in wanted]
    return [json.loads(file.read_text()) for file in files if file.exists()]


def main() -> None:
    """Run what is not there yet, then sum all up."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cells", type=Path, required=True, help="folder of one file a cell")
    parser.add_argument("--out", type=Path, help="folder of the summary")
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--only", nargs="*", help="data sets to run")
    parser.add_argument("--where", default="", help="the machine of the runs, if not this one")
    add_options(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    wanted = [c for c in cells(options.draws) if not options.only or c.data in options.only]
    records = run_missing(wanted, options, measured)
    if records and options.out:
        place = options.out / "outside_teacher_pool.json"
        earlier = json.loads(place.read_text())["worlds"] if place.exists() else {}
        found = summary(records, earlier, options.where)
        write_whole(place, json.dumps(found, indent=1) + "\n")
        write_whole(options.out / "outside_teacher_pool.md", page(found))
        write_whole(options.out / "outside_teacher_pool_runs.csv", table_of_runs(records))


if __name__ == "__main__":
    main()
