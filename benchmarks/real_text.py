r"""The default on vectors of real texts, and learning from answers of real teachers.

Six sets of texts, their vectors by a sentence encoder, and teachers that answered for them: a
person, three dictionaries of sentiment, and the encoder without training (real_text_sets.py, which
was written before the first result). Two parts, told apart by the teacher of a cell:

no teacher    ``dessl fit`` with its defaults, its complete case and the methods of
              gains_methods.py, with 30, 100 and 300 labels
others        ``learn_from_answers`` as it is shipped, with 100 and 300 gold labels, as in
              outside_teacher_fresh.py

One JSON file a cell in --cells; a cell that has its file is not run again.

    PYTHONPATH=src python benchmarks/real_text.py --cells CELLS --part 1/2
    PYTHONPATH=src python benchmarks/real_text.py --cells CELLS --minutes 0 \
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

from dessl._files import write_whole
from dessl.evaluation import ShiftWarning, mean_interval
from gains import scored
from gains_methods import METHODS, answers
from gains_sets import Table, draw
from machine import machine
from outside_teacher import Cell
from outside_teacher_fresh import PAIRS, compared
from outside_teacher_gaps import Gap, Gaps, better, difference, mean_over, of_teachers, worse
from outside_teacher_pool import add_options, run_missing
from real_text_sets import NO_ANSWER, PREPARED, SENTIMENT, SETS, text_set
from tree_students import before_answers

NONE, ALL = "no teacher", "all"
DICTIONARIES = ("VADER", "TextBlob", "AFINN")
TEACHERS = ("annotator", *DICTIONARIES, "zero-shot", ALL)
LABELS, GOLD_LABELS, DRAWS = (30, 100, 300), (100, 300), 5
OURS, TWIN = METHODS[:2]


def measured(cell: Cell, prepared: Path) -> dict[str, Any]:
    """Cross-entropy and accuracy of each method on test rows."""
    find = by_default if cell.teacher == NONE else with_answers
    return {**cell._asdict(), **find(cell, prepared)}


def by_default(cell: Cell, prepared: Path) -> dict[str, Any]:
    """The default and the other methods, without answers."""
    began, found = time.perf_counter(), text_set(cell.data, prepared)
    table = Table(found.x.numpy(), found.y.numpy())
    drawn = draw(table, cell.n_gold, cell.draw)
    if drawn is None:
        raise SystemExit(f"{cell.data} has too few rows for {cell.n_gold} labels.")
    task, y = drawn
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        each = {method: scored(answer, y) for method, answer in answers(task).items()}
    scores = {
        method: {"cross_entropy": its["log_loss"], "accuracy": its["accuracy"]}
        for method, its in each.items()
    }
    return {"scores": scores, "seconds": time.perf_counter() - began}


def with_answers(cell: Cell, prepared: Path) -> dict[str, Any]:
    """Students of a teacher's answers, and how good these are on test rows."""
    x, y, school = before_answers(cell._replace(teacher=""), prepared)
    every = text_set(cell.data, prepared).answers
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(1000 + cell.draw))
    named = every if cell.teacher == ALL else {cell.teacher: every[cell.teacher]}
    said = {name: its[order] for name, its in named.items()}
    facts: dict[str, Any] = compared(school, x, y, said)
    if cell.teacher != ALL:
        test = slice(len(x) - len(school.x))
        own, truth = said[cell.teacher][test], y[test]
        classes = own.argmax(1) if own.ndim == 2 else own
        given = classes != NO_ANSWER
        right = (classes == truth)[given].float().mean()
        facts["teacher_alone"] = {"answered": float(given.float().mean()), "right": float(right)}
    return facts


def teachers_of(name: str) -> tuple[str, ...]:
    """The teachers of a set."""
    return TEACHERS if name in SENTIMENT else ("zero-shot",)


def cells(draws: int) -> list[Cell]:
    """All cells, draw after draw."""
    return [
        cell
        for number in range(draws)
        for name in SETS
        for cell in (
            *(Cell(name, n, NONE, number) for n in LABELS),
            *(Cell(name, n, teacher, number) for n in GOLD_LABELS for teacher in teachers_of(name)),
        )
    ]


def summary(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Paired differences in each cell, means of methods, and how good the teachers are."""
    alone = [record for record in records if record["teacher"] == NONE]
    taught = [record for record in records if record["teacher"] != NONE]
    methods = [m for m in METHODS if all(m in record["scores"] for record in alone)]
    return {
        "machine": machine(threads=1),
        "runs": len(records),
        "draws": len({record["draw"] for record in records}),
        "methods": {m: {k: means(alone, m, k) for k in MEASURES} for m in methods},
        "default": {m: {k: difference(alone, OURS, m, k) for k in MEASURES}
                    for m in methods if m != OURS},
        "differences": {f"{one} − {other}": difference(taught, one, other)
                        for one, other in PAIRS},
        "accuracies": {f"{one} − {other}": difference(taught, one, other, "accuracy")
                       for one, other in PAIRS},
        "teachers": teachers_alone(taught),
    }  # fmt: skip


MEASURES = ("cross_entropy", "accuracy")


def means(records: Sequence[Mapping[str, Any]], method: str, measure: str) -> dict[str, float]:
    """A method's mean over the draws, by set and number of labels."""
    found: dict[str, list[float]] = {}
    for record in records:
        key = f"{record['data']}, {record['n_gold']}"
        found.setdefault(key, []).append(record["scores"][method][measure])
    return {key: round(sum(every) / len(every), 4) for key, every in sorted(found.items())}


def teachers_alone(records: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """The share of test rows that a teacher answered and of right answers, over draws and sets."""
    found: dict[str, list[Mapping[str, float]]] = {}
    for record in records:
        if "teacher_alone" in record:
            key = f"{record['data']}, {record['teacher']}"
            found.setdefault(key, []).append(record["teacher_alone"])
    return {
        key: {what: round(mean_interval([one[what] for one in every]).mean, 4)
              for what in ("answered", "right")}
        for key, every in sorted(found.items())
    }  # fmt: skip


def page(found: Mapping[str, Any]) -> str:
    """The numbers as Markdown."""
    lines = [
        "# Real texts and real teachers", "",
        f"{found['runs']} runs of `benchmarks/real_text.py`; `benchmarks/real_text_sets.py` says "
        f"what the sets and teachers are. {found['draws']} draws of each cell; differences are of "
        "test rows, paired over draws, with 95 % intervals, and *significantly* means that the "
        "interval excludes 0. Draws share one set, so intervals speak of these sets alone.", "",
        "## The default on vectors", "",
        "Cross-entropy of test rows (accuracy in %).", "",
    ]  # fmt: skip
    return "\n".join([*lines, *_by_default(found), "", *_taught(found)]) + "\n"


def _by_default(found: Mapping[str, Any]) -> list[str]:
    methods = found["methods"]
    lines = [f"| set, labels | {' | '.join(methods)} | default − complete case |"]
    lines.append("|---|" + "---:|" * (len(methods) + 1))
    twin = {cell.removesuffix(f", {NONE}"): Gap(*gap)
            for cell, gap in found["default"][TWIN]["cross_entropy"].items()}  # fmt: skip
    for cell in methods[OURS]["cross_entropy"]:
        scores = [
            f"{its['cross_entropy'][cell]:.3f} ({100 * its['accuracy'][cell]:.1f})"
            for its in methods.values()
        ]
        lines.append(f"| {cell} | {' | '.join(scores)} | {_shown(twin[cell])} |")
    lines += ["", "The default against each, over all sets and numbers of labels:", ""]
    lines += [
        "| compared with | cross-entropy (95 %, cells) | sig. worse | sig. better | accuracy |"
    ]
    lines += ["|---|---:|---:|---:|---:|"]
    for method, gaps in found["default"].items():
        losses, hits = ({k: Gap(*v) for k, v in gaps[one].items()} for one in MEASURES)
        counts = f"{len(worse(losses))} of {len(losses)} | {len(better(losses))}"
        lines.append(f"| {method} | {mean_over(losses)} | {counts} | {mean_over(hits)} |")
    return lines


def _taught(found: Mapping[str, Any]) -> list[str]:
    differences: dict[str, Gaps] = {
        pair: {name: Gap(*gap) for name, gap in every.items()}
        for pair, every in found["differences"].items()
    }
    hits: dict[str, Gaps] = {
        pair: {name: Gap(*gap) for name, gap in every.items()}
        for pair, every in found["accuracies"].items()
    }
    lines = [
        "## Learning from answers", "",
        "| teacher | compared | cells | cross-entropy (95 %, cells) | sig. worse | sig. better | "
        "accuracy |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    for teacher in TEACHERS:
        for pair, every in differences.items():
            if own := of_teachers(every, (teacher,)):
                accuracy = mean_over(of_teachers(hits[pair], (teacher,)))
                counts = f"{len(own)} | {mean_over(own)} | {len(worse(own))} | {len(better(own))}"
                lines.append(f"| {teacher} | {pair} | {counts} | {accuracy} |")
    lines += ["", "The teachers alone, on test rows:", ""]
    lines += ["| set, teacher | answered, % | right, % |", "|---|---:|---:|"]
    lines += [
        f"| {name} | {100 * one['answered']:.1f} | {100 * one['right']:.1f} |"
        for name, one in found["teachers"].items()
    ]
    lines += ["", f"| cell | {' | '.join(differences)} |", "|---|" + "---:|" * len(differences)]
    for name in next(iter(differences.values()), {}):
        row = [_shown(every[name]) for every in differences.values()]
        lines.append(f"| {name} | {' | '.join(row)} |")
    return lines


def _shown(gap: Gap) -> str:
    return f"{gap.mean:+.3f} ({gap.low:+.3f} to {gap.high:+.3f})"


def main(argv: Sequence[str] | None = None) -> None:
    """Run what is not there yet, then sum all up."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cells", type=Path, required=True, help="folder of one file a cell")
    parser.add_argument("--texts", type=Path, default=PREPARED, help="of real_text_sets.py")
    parser.add_argument("--out", type=Path, help="folder of the summary")
    parser.add_argument("--draws", type=int, default=DRAWS)
    add_options(parser)
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", ShiftWarning)  # 5 % of draws look unlike the other rows
    records = run_missing(cells(options.draws), options, partial(measured, prepared=options.texts))
    if records and options.out:
        found = summary(records)
        write_whole(options.out / "real_text.json", json.dumps(found, indent=1) + "\n")
        write_whole(options.out / "real_text.md", page(found))


if __name__ == "__main__":
    main()
