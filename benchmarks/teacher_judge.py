"""How often a teacher that knows nothing is found to help: the judge before, and the judge now.

Three overlapping classes in four columns, 60 gold labels, 540 rows without one, and a teacher whose
answers are those to other rows. Networks are small and short (16 units, 60 steps), so that many
runs can be made: the false gains of outside_teacher.py's default are rarer or more frequent, but
for the same reasons. The gate's one standard error was chosen by the first 25 runs.

    PYTHONPATH=src python benchmarks/teacher_judge.py --first 0 --runs 50 --file RUNS --out FOLDER

Appends one line of JSON per run to RUNS; runs that are already there are skipped.
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from dessl._files import write_whole
from dessl.data import SemiData
from dessl.teachers import NetworkSetting
from dessl.teachers.fold_networks import ensemble_log_p
from dessl.teachers.school import School
from dessl.teachers.student import taught_by
from outside_teacher import answers_of, earlier_verdict, with_gate
from outside_teacher_gaps import OURS
from outside_teacher_report import gates, judges

SETTING = NetworkSetting(
    hidden=(16,), steps=60, student_steps=60, unlabelled_batch=64, debiased=False
)
ROWS, TRAINED, GOLD = 900, 600, 60


def measured(seed: int) -> dict[str, Any]:
    """One run: both verdicts, and cross-entropies of test rows."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(3, (ROWS,), generator=g)
    x = torch.randn(3, 4, generator=g)[y] + 1.5 * torch.randn(ROWS, 4, generator=g)
    answers = answers_of("shuffled", x, y, seed)
    labels = torch.where(torch.arange(TRAINED) < GOLD, y[:TRAINED], -1)
    data = SemiData(x[:TRAINED], labels, class_names=["0", "1", "2"])
    school = School.of(data, answers[:TRAINED], SETTING, seed, models=())
    taught = taught_by(school, at_prediction=False)
    test, truth = x[TRAINED:], y[TRAINED:, None]
    predictions = {
        "gold only": ensemble_log_p(taught.networks["complete_case"], school.space(test)),
        OURS: taught.predict_log_proba(test),
        f"{OURS}, without answers": with_gate(taught, float("inf")).predict_log_proba(test),
        f"{OURS}, without a gate": with_gate(taught, -float("inf")).predict_log_proba(test),
    }
    losses = {name: float(-p.gather(1, truth).mean()) for name, p in predictions.items()}
    return {
        "seed": seed,
        "teacher": "shuffled",
        "scores": {name: {"cross_entropy": loss} for name, loss in losses.items()},
        "report": taught.report.as_dict(),
        "earlier": earlier_verdict(school, taught),
    }


def all_runs(
    place: Path,
    seeds: Iterable[int],
    measured: Callable[[int], dict[str, Any]],
    minutes: float = math.inf,
) -> list[dict[str, Any]]:
    """The runs in a file of JSON lines, after those of other seeds are measured and appended."""
    lines = place.read_text().splitlines() if place.exists() else []
    records = {record["seed"]: record for record in map(json.loads, lines)}
    end = time.monotonic() + 60 * minutes
    for seed in seeds:
        if seed not in records and time.monotonic() < end:
            records[seed] = measured(seed)
            with place.open("a") as file:
                file.write(json.dumps(records[seed]) + "\n")
    return list(records.values())


def main() -> None:
    """Run what is not there yet, then sum up."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--first", type=int, default=0, help="seed of the first run")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--file", type=Path, required=True, help="JSON lines, one a run")
    parser.add_argument("--out", type=Path, help="folder of the summary")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = all_runs(options.file, range(options.first, options.first + options.runs), measured)
    text = f"# A teacher that knows nothing\n\n{len(found)} runs.\n\n{judges(found)}\n\n"
    text += f"What gates of other heights would have kept:\n\n{gates(found, OURS, 'student')}\n"
    print(text)
    if options.out:
        write_whole(options.out / "teacher_judge.md", text)
        kept = [{k: r[k] for k in ("seed", "scores", "earlier")} for r in found]
        for short, record in zip(kept, found, strict=True):
            names = ("gold_only_loss", "without_loss", "pooled_loss", "standard_error")
            short["now"] = {name: record["report"]["student"][name] for name in names}
        write_whole(options.out / "teacher_judge.json", json.dumps(kept) + "\n")


if __name__ == "__main__":
    main()
