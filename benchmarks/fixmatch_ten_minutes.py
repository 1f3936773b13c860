"""DeFixMatch on CIFAR-10 in ten minutes on one H200: one run with the best settings found.

It is trained on all 4,000 labels and evaluated on the test rows after its last step. With
--validation N it holds out N labels and is evaluated on those instead; the test set is then not
used. Each run is evaluated with and without dessl.evaluation.Mirrored, which averages over mirror
images. An interrupted run resumes under --runs. This is also the command for an entry of
docs/speedrun.md: ``seconds_from_command`` is the time from the process's start to the last weights.

    PYTHONPATH=src python benchmarks/fixmatch_ten_minutes.py --device cuda --out FILE
    PYTHONPATH=src python benchmarks/fixmatch_ten_minutes.py --labels 250 --seed 3 --device cuda
    PYTHONPATH=src python benchmarks/fixmatch_ten_minutes.py --mean FILE FILE --out FILE
    PYTHONPATH=src python benchmarks/fixmatch_ten_minutes.py --smoke     # a tiny one, anywhere
"""

import argparse
import dataclasses
import json
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dessl.data import SemiData
from dessl.data.parts import Part
from dessl.evaluation import Mirrored, mean_interval
from dessl.training import TrainResult
from dessl_paper.catalogue import load_experiment
from dessl_paper.sources import experiment_data
from dessl_paper.specification import Cell, Experiment, cells_of
from dessl_paper.training import Diverged, exact_metrics, trained_alone, training_record
from fixmatch_search import DECAYING, ELEVEN, EXPERIMENT, LINEAR, SMOKE_PLAN

BEGAN = time.perf_counter()
# As many steps as ten minutes have, compiling and evaluations included.
SETTINGS: dict[str, dict[str, Any]] = {
    "width-96": {"width": 96, "plan": {"steps": 38_500}},
    "width-96-linear": {
        "width": 96,
        "plan": {"steps": 39_500, "schedule": LINEAR, "momentum": 0.95},
    },
    "width-128": {"width": 128, "plan": {"steps": 27_000}},
}
KEPT = ("n", "accuracy", "worst_class_accuracy", "cross_entropy", "brier", "ece")


def chosen(options: argparse.Namespace) -> Experiment:
    """One method of the paper's experiment with a setting of ours."""
    setting = SETTINGS[options.setting]
    experiment = load_experiment(EXPERIMENT, "smoke" if options.smoke else "fast")
    plan = {**experiment.plan, **DECAYING, **setting["plan"]}
    if options.steps:
        plan["steps"] = options.steps
    model = {**experiment.model, **ELEVEN, "width": setting["width"]}
    own = {"validation": options.validation} | ({} if options.smoke else {"labels": options.labels})
    return dataclasses.replace(
        experiment,
        data=(dataclasses.replace(experiment.data[0], **own),),
        seeds=options.seed + 1,
        curve="validation" if options.validation else "test",
        model=experiment.model if options.smoke else model,
        plan={**plan, **(SMOKE_PLAN | {"steps": 2} if options.smoke else {})},
        methods=(experiment.method(options.method),),
    )


def trained(experiment: Experiment, cell: Cell, data: SemiData, runs: Path) -> dict[str, Any]:
    """A training's record, with what it measures as it is and with mirror images."""
    result = trained_alone(experiment, cell, data, runs / cell.key, progress=True)
    if isinstance(result, Diverged):
        raise SystemExit(result.reason)
    seconds = since_command()
    record = dataclasses.asdict(training_record(experiment, cell, data, result, 1))
    held_out = cell.data.validation > 0
    if held_out:  # a record has the test rows' metrics; here nobody is to see them
        record["metrics"] = {}
    part = data.with_labels(cell.draw(data.y.cpu())).validation if held_out else data.test
    assert part is not None
    return record | {
        "seconds_from_command": round(seconds, 1),
        "judged_on": f"{len(part.y)} {'held-out labels' if held_out else 'test rows'}",
        "as_it_is": measured(experiment, result, part, mirrored=False),
        "mirrored": measured(experiment, result, part, mirrored=True),
    }


def since_command() -> float:
    """Seconds since this process began, imports included, where the system tells (Linux)."""
    stat, uptime = Path("/proc/self/stat"), Path("/proc/uptime")
    if not (stat.exists() and uptime.exists()):
        return time.perf_counter() - BEGAN
    began = int(stat.read_text().rsplit(")", 1)[1].split()[19]) / os.sysconf("SC_CLK_TCK")
    return float(uptime.read_text().split()[0]) - began


def measured(
    experiment: Experiment, result: TrainResult, part: Part, *, mirrored: bool
) -> dict[str, Any]:
    """The metrics that tables show."""
    model = Mirrored(result.model) if mirrored else result.model
    found = exact_metrics(model, part, experiment.views).as_dict()
    return {name: found[name] for name in KEPT}


def over_seeds(files: Sequence[Path]) -> dict[str, Any]:
    """Mean and 95 % t-interval over trainings, as they are and with mirror images."""
    found = [json.loads(file.read_text()) for file in files]
    report: dict[str, Any] = {"method": found[0]["method"], "seeds": [one["seed"] for one in found]}
    for view in ("as_it_is", "mirrored"):
        report[view] = {}
        for metric in KEPT[1:]:
            interval = mean_interval([one[view][metric] for one in found])
            report[view][metric] = {"mean": interval.mean, "half_width": interval.half_width}
    return report


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="a tiny training")
    parser.add_argument("--setting", choices=tuple(SETTINGS), default="width-128")
    parser.add_argument("--labels", type=int, choices=(4000, 250, 40), default=4000)
    parser.add_argument("--method", default="de_fixmatch", help="of the experiment")
    parser.add_argument("--steps", type=int, default=None, help="other than the setting's")
    parser.add_argument("--validation", type=int, default=0, help="labels to hold out and judge by")
    parser.add_argument("--seed", type=int, default=0, help="of the split, and all else")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--runs", type=Path, default=None, help="folder to go on from")
    parser.add_argument("--mean", type=Path, nargs="+", help="train nothing: mean of these files")
    parser.add_argument("--out", type=Path, default=None, help="JSON file of the result")
    options = parser.parse_args(argv)
    if options.seed < 0:
        parser.error(f"--seed must be at least 0; got {options.seed}.")
    return options


def main(argv: Sequence[str] | None = None) -> None:
    """Train, measure twice, print and write."""
    options = arguments(argv)
    if options.mean:
        write(over_seeds(options.mean), options.out)
        return
    experiment = chosen(options)
    cell = cells_of(experiment)[options.seed]
    data = experiment_data(cell.data, curve=experiment.curve).to(options.device)
    with tempfile.TemporaryDirectory() as scratch:
        found = trained(experiment, cell, data, options.runs or Path(scratch))
    seconds = found["training"]["seconds"]
    print(f"{options.method}, {options.setting}: {seconds:.0f} s, on {found['judged_on']}")
    for name in ("as_it_is", "mirrored"):
        numbers = (f"{metric} {found[name][metric]:.4f}" for metric in KEPT[1:])
        print(f"  {name.replace('_', ' ')}: {', '.join(numbers)}")
    write(found, options.out)


def write(found: dict[str, Any], file: Path | None) -> None:
    """The result as JSON, where a file was asked for."""
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
