r"""A teacher from outside: few gold labels, and answers that may be wrong in many ways.

A teacher hears the truth through a noisy channel, z_c = μ 1[c = y] + N(0, 1), and answers with
softmax(μ z), which is calibrated, unless its kind says otherwise:

good, noisy       μ = 2.2, μ = 1
overconfident     softmax(4 μ z), μ = 1
shuffled          the answers to other rows
permuted          the answer for class c in the column of class c + 1
inverted          probabilities ∝ 1 / q
biased s          softmax(μ z + 6 s e_0), s = 0.2, …, 1: one class too often; an offset corrects it
region s          rows in the upper half-share s of a direction of x get the answer of class
                  y + 1: a correction of the answers alone cannot mend it
hard              the most likely class of "biased 0.6", without probabilities

The constants of the method come from its first measurement, on other data sets. Students of 600
steps for 200, and a debiased student of the corrected answers in the pool, were chosen after a look
at draw 0 of overlap, moons, digits, breast_cancer and hostile; wine, blobs and checkers had not
been seen. How many standard errors the gate needs is chosen by the same five sets and confirmed on
these three.

Every cell also has the verdict of the judge that was used before: held-out rows predicted at the
step that they themselves selected.

One JSON file a cell (data set, gold labels, teacher, draw) in --cells; a cell that has its file is
not run again, so that a run can be cut and taken up. Then all files are summed up in --out.

    PYTHONPATH=src python benchmarks/outside_teacher.py --jobs 16 --cells CELLS --minutes 9 \
        --out benchmarks/results
"""

import argparse
import dataclasses
import json
import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from torch import Tensor

from dessl._files import write_whole
from dessl.data import SemiData
from dessl.teachers import Taught
from dessl.teachers.debiased_student import debiased_lessons
from dessl.teachers.fold_networks import (
    FOLDS,
    Lesson,
    NetworkSetting,
    Trained,
    ensemble_log_p,
    network_log_p,
    trained_networks,
)
from dessl.teachers.school import Parts, School
from dessl.teachers.student import taught_by
from dessl.teachers.student_pool import evaluated
from outside_teacher_gaps import LISTENING, OURS
from outside_teacher_report import page, summary

SETS = {
    "digits": (100, 300),
    "breast_cancer": (100, 300),
    "wine": (60,),
    "overlap": (100, 300),
    "blobs": (100, 300),
    "moons": (100, 300),
    "hostile": (100, 300),
    "checkers": (100, 300),
}
STRENGTHS = (0.2, 0.4, 0.6, 0.8, 1.0)
TEACHERS = (
    "good",
    "noisy",
    "overconfident",
    "shuffled",
    "permuted",
    "inverted",
    *(f"biased {s}" for s in STRENGTHS),
    "region 0.4",
    "region 0.8",
    "hard",
)
DRAWS = 10
SYNTHETIC_ROWS, MOST_TEST = 4_000, 1_000


class Cell(NamedTuple):
    """One data set, number of gold labels, teacher and draw."""

    data: str
    n_gold: int
    teacher: str
    draw: int

    @property
    def file(self) -> str:
        """Its file's name."""
        return f"{self.data}-{self.n_gold}-{self.teacher.replace(' ', '-')}-{self.draw}.json"


def rows_of(name: str) -> tuple[Tensor, Tensor]:
    """All rows (n, features) of a data set, and their classes (n,)."""
    from sklearn import datasets

    g = np.random.default_rng(7)
    if name in ("digits", "breast_cancer", "wine"):
        x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    elif name == "overlap":
        x, y = datasets.make_classification(
            SYNTHETIC_ROWS, 20, n_informative=8, n_redundant=4, n_classes=4, class_sep=0.8,
            flip_y=0.1, random_state=7,
        )  # fmt: skip
    elif name == "blobs":
        x, y = datasets.make_blobs(SYNTHETIC_ROWS, 10, centers=5, cluster_std=5.0, random_state=7)
    elif name == "moons":
        x, y = datasets.make_moons(SYNTHETIC_ROWS, noise=0.25, random_state=7)
        x = np.hstack([x, g.normal(size=(len(x), 6))])
    else:
        x = g.uniform(-2, 2, size=(SYNTHETIC_ROWS, 4))
        if name == "hostile":  # classes meet in the middle of one even cloud
            score = np.sin(3 * x[:, 0]) + x[:, 1]
            y = (g.random(len(x)) < 1 / (1 + np.exp(-3 * score))).astype(int)
        else:
            y = (np.floor(x[:, 0]) + np.floor(x[:, 1])).astype(int) % 3
    return torch.as_tensor(x).float(), torch.as_tensor(y).long()


def answers_of(kind: str, x: Tensor, y: Tensor, seed: int) -> Tensor:
    """A teacher's probabilities (n, classes), or its classes (n,)."""
    g = torch.Generator().manual_seed(seed)
    classes = int(y.max()) + 1
    name, _, strength = kind.partition(" ")
    mu = 1.0 if name in ("noisy", "overconfident") else 2.2
    truth = y
    if name == "region":
        along = x @ torch.randn(x.shape[1], generator=g) / x.std(0).clamp(min=1e-6).mean()
        there = along >= along.quantile(1 - float(strength) / 2)
        truth = torch.where(there, (y + 1) % classes, y)
    z = torch.randn(len(y), classes, generator=g) + mu * torch.eye(classes)[truth]
    logits = mu * z * (4 if name == "overconfident" else 1)
    if name in ("biased", "hard"):
        logits[:, 0] += 6 * (0.6 if name == "hard" else float(strength))
    q = logits.softmax(1)
    if name == "shuffled":
        q = q[torch.randperm(len(q), generator=g)]
    if name == "permuted":
        q = q.roll(1, dims=1)
    if name == "inverted":
        q = (1 / q.clamp(min=1e-3)) / (1 / q.clamp(min=1e-3)).sum(1, keepdim=True)
    return q.argmax(1) if name == "hard" else q


def measured(cell: Cell) -> dict[str, Any]:
    """All methods on one cell: cross-entropy and accuracy on test rows."""
    began = time.perf_counter()
    x, y = rows_of(cell.data)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(1000 + cell.draw))
    n_test = min(MOST_TEST, len(y) // 4)
    test, train = order[:n_test], order[n_test:]
    answers = answers_of(cell.teacher, x, y, seed=cell.draw)
    labels = y[train].clone()
    labels[cell.n_gold :] = -1
    names = [str(number) for number in range(int(y.max()) + 1)]
    data = SemiData(x[train], labels, class_names=names)
    # Networks alone; outside_teacher_pool.py measures what the default pool's models add.
    school = School.of(data, answers[train], NetworkSetting(), cell.draw, models=())
    predictions, facts = predicted(school, x[test], answers[test])
    predictions |= alone(school, x[test])
    own = answers[test] if answers.ndim == 2 else torch.eye(len(names))[answers[test]]
    predictions["teacher's own answers"] = own.clamp(min=1e-4).log().log_softmax(1)
    scores = scores_of(predictions, y[test])
    seconds = time.perf_counter() - began
    return {**cell._asdict(), "scores": scores, **facts, "seconds": seconds}


def scores_of(predictions: Mapping[str, Tensor], y: Tensor) -> dict[str, dict[str, float]]:
    """Cross-entropy and accuracy of each model's log-probabilities (n, classes)."""
    return {
        name: {
            "cross_entropy": float(-log_p.gather(1, y[:, None]).mean()),
            "accuracy": float((log_p.argmax(1) == y).double().mean()),
        }
        for name, log_p in predictions.items()
    }


def predicted(
    school: School, x: Tensor, answers: Tensor
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Log-probabilities of test rows by the method and its parts, and what the report said."""
    rows, taught = school.space(x), taught_by(school, at_prediction=True)
    students = dict(zip(taught.report.student.members[1:], kinds_of(taught), strict=False))
    found = {name: ensemble_log_p(kind, rows) for name, kind in students.items()}
    found["teacher only"] = ensemble_log_p(taught.networks["imitators"], rows)
    found |= {OURS: taught.predict_log_proba(x), LISTENING: taught.predict_log_proba(x, answers)}
    for word, needed in (("without answers", math.inf), ("without a gate", -math.inf)):
        other = with_gate(taught, needed)
        found[f"{OURS}, {word}"] = other.predict_log_proba(x)
        found[f"{LISTENING}, {word}"] = other.predict_log_proba(x, answers)
    return found, {"report": taught.report.as_dict(), "earlier": earlier_verdict(school, taught)}


def kinds_of(taught: Taught) -> list[list[torch.nn.Module]]:
    """The students of each kind, one a fold."""
    every = list(taught.networks["students"])
    return [every[first : first + FOLDS] for first in range(0, len(every), FOLDS)]


def with_gate(taught: Taught, needed: float) -> Taught:
    """The same result, with another number of standard errors needed."""
    report = taught.report
    student = dataclasses.replace(report.student, needed=needed)
    more = report.with_answers and dataclasses.replace(report.with_answers, needed=needed)
    return dataclasses.replace(
        taught, report=dataclasses.replace(report, student=student, with_answers=more)
    )


def earlier_verdict(school: School, taught: Taught) -> dict[str, float]:
    """Losses of gold rows at the steps that they themselves selected, as once was judged by."""
    gold = school.networks.gold

    def at_kept(networks: Iterable[torch.nn.Module]) -> tuple[Trained, ...]:
        every = [gold.x[gold.inside(fold)] for fold in range(FOLDS)]
        return tuple(
            Trained(network, network_log_p(network, x))
            for network, x in zip(networks, every, strict=True)
        )

    singles = at_kept(one.network for one in school.networks.singles)
    networks = dataclasses.replace(school.networks, singles=singles)
    names = taught.report.student.members[1:]
    imitators = [taught.networks["imitators"]]
    parts = Parts([at_kept(kind) for kind in kinds_of(taught)], imitators, (), names)
    verdict, _ = evaluated(dataclasses.replace(school, networks=networks), parts)
    return {
        "gold_only_loss": verdict.gold_only_loss,
        "without_loss": verdict.without_loss,
        "pooled_loss": verdict.pooled_loss,
        "standard_error": verdict.standard_error,
    }


def alone(school: School, x: Tensor) -> dict[str, Tensor]:
    """What gold labels alone, the usual mix, and debiasing without a correction give."""
    rows = school.space(x)
    share = len(school.x_pool) / (len(school.x_pool) + len(school.gold_y))
    mix, _ = debiased_lessons(school, lam=1.0)
    lessons = {
        "usual mix": [lesson._replace(risk="ssl") for lesson in mix],
        "debiased, n_u/n": debiased_lessons(school, lam=share)[0],
        "debiased, relative slope": debiased_lessons(school)[0],
    }
    trained = school.students([lesson for kind in lessons.values() for lesson in kind])
    found = {
        name: [one.network for one in trained[number * FOLDS : (number + 1) * FOLDS]]
        for number, name in enumerate(lessons)
    }
    found["gold only"] = [one.network for one in school.networks.singles]
    found["gold only, as long"] = gold_only_as_students(school)
    return {name: ensemble_log_p(networks, rows) for name, networks in found.items()}


def gold_only_as_students(school: School) -> list[torch.nn.Module]:
    """Gold labels alone, trained as long and as loosely as students: what no teacher brought."""
    gold, setting = school.networks.gold, school.setting
    alike = dataclasses.replace(
        setting, steps=setting.student_steps, weight_decay=setting.student_decay
    )
    lessons = [Lesson(gold.outside(fold), gold.inside(fold)) for fold in range(FOLDS)]
    classes = gold.n_classes
    trained = trained_networks(gold.x, gold.y, lessons, alike, n_classes=classes, seed=school.seed)
    return [one.network for one in trained]


def run(cell: Cell, folder: Path) -> str:
    """Measure a cell and write its file."""
    torch.set_num_threads(1)
    found = measured(cell)
    write_whole(folder / cell.file, json.dumps(found) + "\n")
    return f"{cell.file} {found['seconds']:.0f} s"


def cells(
    sets: Sequence[str], sizes: Sequence[int], teachers: Sequence[str], draws: int
) -> list[Cell]:
    """All cells asked for, draw after draw, so that a run that was cut has whole draws.

    A teacher that says nothing comes first in each: how often the gate is wrong about it is a rate,
    which needs the most cells.
    """
    useless_first = sorted(teachers, key=lambda teacher: teacher != "shuffled")
    return [
        Cell(name, n, teacher, draw)
        for draw in range(draws)
        for n in sizes
        for teacher in useless_first
        for name in sets
        if n in SETS[name]
    ]


def main() -> None:
    """Run what is not there yet, then sum all up."""
    sizes = {n for every in SETS.values() for n in every}
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cells", type=Path, required=True, help="folder of one file a cell")
    parser.add_argument("--out", type=Path, help="folder of the summary")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    parser.add_argument("--gold", nargs="*", type=int, default=sorted(sizes), choices=sizes)
    parser.add_argument("--teachers", nargs="*", default=list(TEACHERS), choices=list(TEACHERS))
    parser.add_argument(
        "--minutes",
        type=float,
        default=math.inf,
        help="start no cell after so many minutes; 0 sums up what is there",
    )
    options = parser.parse_args()
    options.cells.mkdir(parents=True, exist_ok=True)
    wanted = cells(options.sets, options.gold, options.teachers, options.draws)
    missing = [cell for cell in wanted if not (options.cells / cell.file).exists()]
    end = time.monotonic() + 60 * options.minutes
    with ProcessPoolExecutor(options.jobs) as workers:
        waiting, running = iter(missing), set()
        while True:
            while len(running) < options.jobs and time.monotonic() < end:
                if (cell := next(waiting, None)) is None:
                    break
                running.add(workers.submit(run, cell, options.cells))
            if not running:
                break
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for one in done:
                print(one.result(), flush=True)
    files = [options.cells / cell.file for cell in wanted]
    records = [json.loads(file.read_text()) for file in files if file.exists()]
    print(f"{len(records)} of {len(wanted)} cells are there.")
    if records and options.out:
        write_whole(options.out / "outside_teacher.json", json.dumps(summary(records)) + "\n")
        write_whole(options.out / "outside_teacher.md", page(records))


if __name__ == "__main__":
    main()
