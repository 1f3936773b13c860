r"""How often the interval of a student's accuracy has the accuracy of new rows.

Every run has its own rows: overlapping classes (Gaussian clouds in four columns), gold labels, 500
rows with answers alone, and 4,000 test rows, whose accuracy stands for the truth. The teacher is
"biased 0.6" or "shuffled" of outside_teacher.py. Networks are small and short (teacher_judge.py),
with the default pool's models beside them. Intervals of 95 % are those of the report, and the
same without the correction for the mean over the folds.

    PYTHONPATH=src python benchmarks/student_accuracy.py --runs 200 --file RUNS \
        --out benchmarks/results

Appends one line of JSON per run to RUNS; runs that are already there are skipped.
"""

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from scipy.stats import binomtest

from dessl._files import write_whole
from dessl.data import SemiData
from dessl.teachers import learn_from_answers
from machine import machine
from outside_teacher import answers_of
from teacher_judge import SETTING, all_runs

COLUMNS, CLASSES, UNLABELLED, TEST = 4, 3, 500, 4_000
GOLD, TEACHERS = (60, 200), ("biased 0.6", "shuffled")
MODELS = ("student", "student with answers")


def measured(seed: int) -> dict[str, Any]:
    """One run: intervals and truth of both models; gold labels and teacher follow the seed."""
    gold, teacher = GOLD[seed % 2], TEACHERS[seed // 2 % 2]
    g, rows = torch.Generator().manual_seed(seed), gold + UNLABELLED + TEST
    y = torch.randint(CLASSES, (rows,), generator=g)
    centres = torch.randn(CLASSES, COLUMNS, generator=g)
    x = centres[y] + 1.5 * torch.randn(rows, COLUMNS, generator=g)
    answers = answers_of(teacher, x, y, seed)
    known = torch.where(torch.arange(rows) < gold, y, -1)
    data = SemiData(x[:-TEST], known[:-TEST], class_names=[str(k) for k in range(CLASSES)])
    taught = learn_from_answers(
        data, answers[:-TEST], at_prediction=True, seed=seed, setting=SETTING
    )
    report, test = taught.report, (x[-TEST:], y[-TEST:])
    heard = taught.predict_log_proba(test[0], answers[-TEST:])
    found = {}
    for name, choice, log_p in (
        (MODELS[0], report.student, taught.predict_log_proba(test[0])),
        (MODELS[1], report.with_answers, heard),
    ):
        interval = choice.accuracy
        found[name] = {
            "accuracy": float((log_p.argmax(1) == test[1]).double().mean()),
            "interval": [interval.value, interval.low, interval.high],
            "averaging": choice.averaging,
        }
    return {"seed": seed, "gold": gold, "teacher": teacher, "models": found}


def coverage(records: Sequence[dict[str, Any]], name: str, *, corrected: bool) -> dict[str, Any]:
    """Of one model: how many intervals have the truth, how wide they are, and the mean error."""
    inside, below, errors, widths = 0, 0, [], []
    for record in records:
        one = record["models"][name]
        value, low, high = (
            end - (0.0 if corrected else one["averaging"]) for end in one["interval"]
        )
        inside += low <= one["accuracy"] <= high
        below += high < one["accuracy"]
        errors.append(value - one["accuracy"])
        widths.append(high - low)
    n = len(records)
    low, high = binomtest(inside, n).proportion_ci(method="wilson")
    return {
        "runs": n,
        "inside": inside,
        "coverage": [inside / n, low, high],
        "below the truth": below,
        "mean error": math.fsum(errors) / n,
        "mean width": math.fsum(widths) / n,
    }


def summary(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each model, with each number of gold labels and teacher, then over all runs."""
    groups: list[tuple[str, str, list[dict[str, Any]]]] = [
        (str(gold), teacher, [r for r in records if (r["gold"], r["teacher"]) == (gold, teacher)])
        for gold in GOLD
        for teacher in TEACHERS
    ]
    groups.append(("all", "all", list(records)))
    return [
        {"gold": gold, "teacher": teacher, "model": name, "corrected": corrected}
        | coverage(some, name, corrected=corrected)
        for gold, teacher, some in groups
        if some
        for name in MODELS
        for corrected in (True, False)
    ]


def page(found: Sequence[dict[str, Any]]) -> str:
    """The table as Markdown."""
    lines = [
        "# The interval of a student's accuracy",
        "",
        "`benchmarks/student_accuracy.py`: 95 % intervals of independent runs, and the accuracy of",
        f"{TEST:,} test rows. In brackets: a 95 % interval of the share, over the runs. *Before*:",
        "without the correction for the mean over the folds.",
        "",
        "| gold labels | teacher | model | runs | inside | below the truth | mean error | "
        "mean width | inside, before |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for one, before in zip(found[::2], found[1::2], strict=True):
        share, low, high = (f"{100 * part:.1f}" for part in one["coverage"])
        lines.append(
            f"| {one['gold']} | {one['teacher']} | {one['model']} | {one['runs']} | "
            f"{share} % ({low} to {high}) | {one['below the truth']} | {one['mean error']:+.4f} | "
            f"{one['mean width']:.3f} | {100 * before['coverage'][0]:.1f} % |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run what is not there yet, then sum up."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--first", type=int, default=0, help="seed of the first run")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--file", type=Path, required=True, help="JSON lines, one a run")
    parser.add_argument("--out", type=Path, help="folder of the summary")
    options = parser.parse_args()
    torch.set_num_threads(1)
    seeds = range(options.first, options.first + options.runs)
    records = all_runs(options.file, seeds, measured, options.minutes)
    found = summary(records)
    print(page(found))
    if options.out:
        write_whole(options.out / "student_accuracy.md", page(found))
        entries = {"machine": machine(), "summary": found, "runs": records}
        write_whole(options.out / "student_accuracy.json", json.dumps(entries) + "\n")


if __name__ == "__main__":
    main()
