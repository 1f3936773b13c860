r"""When are a teacher's answers to new rows used, and how far are they doubted?

The pool with answers as input has to be better than the model without answers, and than what is
kept without them, by some standard errors of the out-of-fold cross-entropy. That of 100 gold rows
has heavy tails: two errors of a teacher that is right on 98 % of them cost more than the rest. So
predictions are mixed with another, a share ε = 1/(n + 2) for n gold rows: as it is, with equal
probabilities (*uniform*), or with what is kept without answers (*doubted*).

Which mixture and how many standard errors was chosen by these runs: five sets of outside_teacher.py
with 100 gold labels, four draws, its teachers and *right s*, which names the right class with
probability s and any other one otherwise. Draw 0 of the tweets of real_text.py, where the problem
was first seen, was looked at as well. outside_teacher_fresh.py and real_text.py confirm it.

One JSON file a cell in --cells; a cell that has its file is not run again.

    PYTHONPATH=src python benchmarks/answers_gate.py --cells CELLS --part 1/2
    PYTHONPATH=src python benchmarks/answers_gate.py --cells CELLS --minutes 0 \
        --out benchmarks/results
"""

import argparse
import json
import math
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import Tensor

from dessl._files import write_whole
from dessl.evaluation import ShiftWarning
from dessl.teachers import Taught
from dessl.teachers.choice import passes
from dessl.teachers.pool import LEAST_WEIGHT, losses, mixed
from dessl.teachers.school import School
from dessl.teachers.student import decided, students_of
from dessl.teachers.tree_student import NAME, tree_students
from dessl.teachers.trees import joined
from machine import machine
from outside_teacher import Cell, answers_of
from outside_teacher_pool import add_options, asked, run_missing
from tree_students import before_answers

SETS, N_GOLD, DRAWS = ("overlap", "moons", "digits", "breast_cancer", "hostile"), 100, 4
TEACHERS = (
    "shuffled", "right 0.98", "right 0.9", "right 0.75", "hard", "overconfident", "noisy",
    "permuted", "good",
)  # fmt: skip
AS_IT_IS, UNIFORM, DOUBTED = FORMS = ("as it is", "uniform", "doubted")
BARS = ((1.0, 1.0), (1.0, 0.5), (1.0, 0.0), (0.5, 0.5), (0.0, 0.0), (-math.inf, -math.inf))


class Predictions(NamedTuple):
    """Log-probabilities without answers, of what is kept without them, and of the pool with them.

    That of the pool is not mixed with another.
    """

    without: Tensor
    alone: Tensor
    heard: Tensor
    y: Tensor


def said(kind: str, x: Tensor, y: Tensor, draw: int) -> Tensor:
    """A teacher's answers to all rows."""
    name, _, share = kind.partition(" ")
    if name != "right":
        return answers_of(kind, x, y, seed=draw)
    g, classes = torch.Generator().manual_seed(draw + 50), int(y.max()) + 1
    wrong = (y + torch.randint(1, classes, (len(y),), generator=g)) % classes
    return torch.where(torch.rand(len(y), generator=g) < float(share), y, wrong)


def measured(cell: Cell) -> dict[str, Any]:
    """The gain out of fold of each form, and the cross-entropy of test rows."""
    x, y, school = before_answers(cell._replace(teacher=""), None)
    answers, n_test = said(cell.teacher, x, y, cell.draw), len(x) - len(school.x)
    school = asked(school, answers[n_test:])
    lessons = school.lessons()
    students, trees = students_of(school, lessons), tree_students(school, lessons)
    taught = decided(school, students, school.imitators(), trees, at_prediction=True)
    others = {NAME: joined(trees)} if trees else {}
    new = on_new_rows(taught, school, others, x[:n_test], answers[:n_test], y[:n_test])
    choice = taught.report.with_answers
    weight = 0.0 if choice is None or choice.answers_weight is None else choice.answers_weight
    return {**cell._asdict(), **facts(out_of_fold(taught), new, weight)}


def out_of_fold(taught: Taught) -> Predictions:
    """Gold rows; the mixture is undone, (p − ε p_alone)/(1 − ε)."""
    seen, choice = taught.evaluated, taught.report.with_answers
    if seen is None or seen.with_answers is None or choice is None:
        raise TypeError("a student just trained, with answers as input, is needed.")
    n = taught.report.n_gold
    alone = (seen.taught if taught.report.student.kept else seen.without)[:n]
    p = (seen.with_answers[:n].exp() - choice.doubt * alone.exp()) / (1 - choice.doubt)
    return Predictions(seen.without[:n], alone, p.clamp(min=1e-15).log(), seen.y[:n])


def on_new_rows(
    taught: Taught, school: School, trees: Mapping[str, Any], x: Tensor, answers: Tensor, y: Tensor
) -> Predictions:
    """New rows, whatever the gates said."""
    report = taught.report
    if report.with_answers is None:
        raise TypeError("a student with answers as input is needed.")
    never, always = {"needed": math.inf}, {"needed": -math.inf, "needed_over_alone": -math.inf}
    without = replace(report, student=replace(report.student, **never), with_answers=None)
    choice = replace(report.with_answers, **always, doubt=0.0, answers_weight=None)
    heard = replace(report, with_answers=choice)
    found = []
    for one in (without, replace(report, with_answers=None), heard):
        others = {**trees, **school.others_fitted(one.used_members)}
        found.append(replace(taught, report=one, others=others))
    first, alone, last = found
    return Predictions(
        first.predict_log_proba(x),
        alone.predict_log_proba(x),
        last.predict_log_proba(x, answers),
        y,
    )


def facts(gold: Predictions, new: Predictions, weight: float) -> dict[str, Any]:
    """What gold rows said of each form, and what it costs on new rows."""
    epsilon = 1 / (len(gold.y) + 2)
    forms = {
        form: {
            "over without": _gain(gold.without, log_p, gold.y),
            "over alone": _gain(gold.alone, log_p, gold.y),
            "new rows": float(losses(_form(form, new, epsilon), new.y).mean()),
        }
        for form in FORMS
        for log_p in (_form(form, gold, epsilon),)
    }
    alone = float(losses(new.alone, new.y).mean())
    scores = {"alone": {"cross_entropy": alone}}  # what is printed while it runs
    return {"forms": forms, "alone": alone, "weight": weight, "scores": scores, "seconds": 0.0}


def _form(form: str, found: Predictions, epsilon: float) -> Tensor:
    """The prediction with answers in one form."""
    if form == AS_IT_IS:
        return found.heard
    equal = torch.full_like(found.alone, -math.log(found.alone.shape[1]))
    return mixed(found.heard, equal if form == UNIFORM else found.alone, epsilon)


def _gain(before: Tensor, after: Tensor, y: Tensor) -> tuple[float, float]:
    """The mean fall of the cross-entropy and its standard error."""
    falls = losses(before, y) - losses(after, y)
    return float(falls.mean()), float(falls.std()) / math.sqrt(len(falls))


def kept(record: Mapping[str, Any], form: str, bars: tuple[float, float]) -> bool:
    """Whether answers are used: better than the model without them, and than what is kept."""
    gains = (record["forms"][form][which] for which in ("over without", "over alone"))
    enough = all(passes(*gain, bar) for gain, bar in zip(gains, bars, strict=True))
    return enough and record["weight"] >= LEAST_WEIGHT


def rules(records: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """What each form and bar does to the cross-entropy of new rows, by teacher."""
    for form in FORMS:
        for bars in BARS:
            changes: dict[str, list[float]] = {}
            for record in records:
                used = kept(record, form, bars)
                change = (record["forms"][form]["new rows"] - record["alone"]) if used else 0.0
                changes.setdefault(record["teacher"], []).append(change)
            every = [change for its in changes.values() for change in its]
            yield {
                "form": form,
                "bars": ["none" if math.isinf(bar) else bar for bar in bars],
                "mean": round(sum(every) / len(every), 5),
                "harm": round(sum(max(change, 0.0) for change in every) / len(every), 5),
                "worst": round(max(every), 4),
                "teachers": {
                    name: {
                        "mean": round(sum(its) / len(its), 4),
                        "used": sum(change != 0 for change in its),
                        "runs": len(its),
                    }
                    for name, its in sorted(changes.items())
                },
            }


def page(found: Mapping[str, Any]) -> str:
    """The rules as Markdown."""
    names = list(found["rules"][0]["teachers"])
    lines = [
        "# When answers to new rows are used", "",
        f"{found['runs']} runs of `benchmarks/answers_gate.py`, which says what was compared. Each "
        "row is a rule: the form of the prediction with answers, and by how many standard errors "
        "it must be better than the model without answers, and than what is kept without them. "
        "Change of the cross-entropy of new rows against what is kept without answers; *harm* is "
        "the mean of its positive part. The last columns are the mean by teacher, and in how many "
        "of its runs answers were used.", "",
        f"| form | over without | over alone | mean | harm | worst | {' | '.join(names)} |",
        "|---|---:|---:|" + "---:|" * (3 + len(names)),
    ]  # fmt: skip
    for one in found["rules"]:
        each = [f"{its['mean']:+.3f} ({its['used']} of {its['runs']})"
                for its in one["teachers"].values()]  # fmt: skip
        first, second = (bar if isinstance(bar, str) else f"{bar:g}" for bar in one["bars"])
        numbers = f"{one['mean']:+.4f} | {one['harm']:.4f} | {one['worst']:+.3f}"
        lines.append(f"| {one['form']} | {first} | {second} | {numbers} | {' | '.join(each)} |")
    return "\n".join(lines) + "\n"


def cells(draws: int) -> list[Cell]:
    """All cells, draw after draw."""
    return [
        Cell(name, N_GOLD, teacher, draw)
        for draw in range(draws)
        for name in SETS
        for teacher in TEACHERS
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Run what is not there yet, then sum all up."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cells", type=Path, required=True, help="folder of one file a cell")
    parser.add_argument("--out", type=Path, help="folder of the summary")
    parser.add_argument("--draws", type=int, default=DRAWS)
    add_options(parser)
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", ShiftWarning)  # 5 % of draws look unlike the other rows
    records = run_missing(cells(options.draws), options, measured)
    if records and options.out:
        found = {"machine": machine(threads=1), "runs": len(records), "rules": [*rules(records)]}
        write_whole(options.out / "answers_gate.json", json.dumps(found, indent=1) + "\n")
        write_whole(options.out / "answers_gate.md", page(found))


if __name__ == "__main__":
    main()
