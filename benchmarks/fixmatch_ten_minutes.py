"""One run of a semi-supervised method on CIFAR-10, in a setting for a few minutes on one H200.

By default: DeFixMatch, all 4,000 labels and ten minutes of training, with the best settings found.
Methods are those of the paper's table 1 and of image_labels.py, where "softmatch" is DeSoftMatch.
The run is evaluated on the test rows after its last step. With --validation N it holds out N labels
and is evaluated on those instead; the test set is then not used. Each run is evaluated with and
without dessl.evaluation.Mirrored, which averages over mirror images. An interrupted run resumes
under --runs.

This is also the command for an entry of docs/speedrun.md: ``seconds_from_command`` is the time from
the start of the process to the last weights, with every kernel compiled anew, unless the run was
resumed; ``gpu_gib_of_others`` is the GPU memory that was not this run's, before or after it.

    PYTHONPATH=src python benchmarks/fixmatch_ten_minutes.py --device cuda --out FILE
    PYTHONPATH=src python benchmarks/fixmatch_ten_minutes.py --labels 250 --method softmatch
    PYTHONPATH=src python benchmarks/fixmatch_ten_minutes.py --mean FILE FILE --out FILE
    PYTHONPATH=src python benchmarks/fixmatch_ten_minutes.py --smoke     # a tiny one, anywhere
"""

from clock import since_command  # first, for its time

# isort: split
import argparse
import dataclasses
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

import contrastive
from dessl.data import SemiData
from dessl.data.parts import Part
from dessl.evaluation import Mirrored, mean_interval
from dessl.training import TrainResult
from dessl_paper.catalogue import load_experiment
from dessl_paper.sources import experiment_data
from dessl_paper.specification import Cell, Experiment, Method, cells_of
from dessl_paper.training import (
    Diverged,
    exact_metrics,
    network,
    trained_alone,
    training_record,
)
from fixmatch_search import DECAYING, ELEVEN, EXPERIMENT, LINEAR, SMOKE_PLAN
from image_labels import FORMS, STEPS

# DeFixMatch's steps per second by width, alone on an H200, and the seconds before the first step:
# imports and loading about 15, compiling up to 49 (tests compare them with the logs).
STEPS_PER_SECOND = {96: 74.8, 128: 51.9}
SECONDS_BEFORE = 75


def steps_within(minutes: float, width: int) -> int:
    """The steps that fit into the time from the command, in five hundreds.

    >>> steps_within(5, 96)
    16500
    """
    return int((60 * minutes - SECONDS_BEFORE) * STEPS_PER_SECOND[width] // 500 * 500)


def timed(minutes: float, width: int) -> dict[str, Any]:
    """A setting for the time from the command, evaluated only after the last step."""
    steps = steps_within(minutes, width)
    return {"width": width, "plan": {"steps": steps, "evaluate_every": steps}}


TWO_MINUTES = {"width": 64, "plan": {"steps": STEPS, "evaluate_every": STEPS}}
SETTINGS: dict[str, dict[str, Any]] = {
    # Ten minutes of training, compiling and evaluations included.
    "width-96": {"width": 96, "plan": {"steps": 38_500}},
    "width-96-linear": {
        "width": 96,
        "plan": {"steps": 39_500, "schedule": LINEAR, "momentum": 0.95},
    },
    "width-128": {"width": 128, "plan": {"steps": 27_000}},
    # The time from the command. Width 96 was the best of this time on held-out labels.
    "ten-minutes": timed(10, 96),
    "five-minutes": timed(5, 96),
    # The network and steps of image_labels.py, about two minutes.
    "width-64": TWO_MINUTES,
    # The same from weights that are learnt without labels; the number of steps was not searched.
    "contrastive": TWO_MINUTES | {"contrastive_steps": 5_000},
}
DEFAULT = {4000: "width-128", 250: "five-minutes", 40: "five-minutes"}
KEPT = ("n", "accuracy", "worst_class_accuracy", "cross_entropy", "brier", "ece")


def chosen(options: argparse.Namespace) -> Experiment:
    """One method in a setting of ours, on the data of the paper's experiment."""
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
        methods=(methods(experiment)[options.method],),
    )


def methods(experiment: Experiment) -> dict[str, Method]:
    """The experiment's methods, and the forms of image_labels.py that it does not have."""
    forms = {
        name: Method(name, form.title, form.risk, (form.lam,), form.surrogate, form.plan)
        for name, form in FORMS.items()
        if not form.epsilon  # a method's settings cannot describe a smoothed term
    }
    return forms | {method.name: method for method in experiment.methods}


def trained(
    experiment: Experiment, cell: Cell, data: SemiData, runs: Path, *, start: int = 0
) -> dict[str, Any]:
    """A training's record, with what it measures as it is and with mirror images.

    Args:
        experiment: What to run.
        cell: Its run of this seed.
        data: Rows, on the device.
        runs: Folder of the checkpoints.
        start: Steps without labels before it.
    """
    # The start changes the first weights, which a resumed training does not check.
    folder = runs / (f"{cell.key}-contrastive-{start}" if start else cell.key)
    before = gib_of_others(data.device)
    resumed = folder.exists()
    with fresh_kernels():
        build = started(experiment, cell, data, start) if start else None
        result = trained_alone(experiment, cell, data, folder, progress=True, build=build)
    timed = {} if resumed else {"seconds_from_command": round(since_command(), 1)}
    others = max(before, gib_of_others(data.device), key=lambda gib: gib or 0)
    record = dataclasses.asdict(training_record(experiment, cell, data, result, 1))
    record |= timed | {"gpu_gib_of_others": others}
    if start:
        record["settings"]["model"]["contrastive_steps"] = start
    if isinstance(result, Diverged):
        return record
    held_out = cell.data.validation > 0
    if held_out:  # a record has the test rows' metrics; here nobody is to see them
        record["metrics"] = {}
    part = data.with_labels(cell.draw(data.y.cpu())).validation if held_out else data.test
    assert part is not None
    return record | {
        "judged_on": f"{len(part.y)} {'held-out labels' if held_out else 'test rows'}",
        "as_it_is": measured(experiment, result, part, mirrored=False),
        "mirrored": measured(experiment, result, part, mirrored=True),
    }


def started(
    experiment: Experiment, cell: Cell, data: SemiData, steps: int
) -> Callable[[], nn.Module]:
    """A function that builds the network with weights learnt without labels."""
    plan, views = cell.plan(experiment), experiment.views
    return contrastive.started(
        network(experiment.model, data),
        data,
        steps,
        mean=views["mean"],
        std=views["std"],
        precision=plan.precision,
        batch=min(contrastive.BATCH, len(data) // 2),
        seed=cell.seed,
    )


@contextmanager
def fresh_kernels() -> Iterator[None]:
    """Compile every kernel again, as on a machine that has not run this before."""
    variables = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
    before = {name: os.environ.pop(name, None) for name in variables}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ |= {name: f"{folder}/{name}" for name in variables}
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value


def gib_of_others(device: torch.device) -> float | None:
    """GiB of the GPU's memory that are not this process's tensors; None without a GPU.

    A process alone on its GPU still has what CUDA itself needs, less than 2 GiB.
    """
    if device.type != "cuda":
        return None
    free, total = torch.cuda.mem_get_info(device)
    return round((total - free - torch.cuda.memory_reserved(device)) / 2**30, 2)


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
    known = methods(load_experiment(EXPERIMENT, "fast"))
    defaults = ", ".join(f"{name} for {labels} labels" for labels, name in DEFAULT.items())
    parser.add_argument("--smoke", action="store_true", help="a tiny training")
    parser.add_argument("--setting", choices=tuple(SETTINGS), help=f"default: {defaults}")
    parser.add_argument("--labels", type=int, choices=(4000, 250, 40), default=4000)
    parser.add_argument("--method", default="de_fixmatch", choices=tuple(known))
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
    options.setting = options.setting or DEFAULT[options.labels]
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
    start = SETTINGS[options.setting].get("contrastive_steps", 0)
    start = min(start, 2) if options.smoke else start
    with tempfile.TemporaryDirectory() as scratch:
        found = trained(experiment, cell, data, options.runs or Path(scratch), start=start)
    write(found, options.out)
    if found["training"]["diverged"]:
        raise SystemExit(found["training"]["diverged"])
    seconds = found.get("seconds_from_command", found["training"]["seconds"])
    since = "the command" if "seconds_from_command" in found else "the start of training (resumed)"
    print(f"{found['title']}, {options.setting}: {seconds:.0f} s from {since}")
    print(f"On {found['judged_on']}:")
    for name in ("as_it_is", "mirrored"):
        numbers = (f"{metric} {found[name][metric]:.4f}" for metric in KEPT[1:])
        print(f"  {name.replace('_', ' ')}: {', '.join(numbers)}")


def write(found: dict[str, Any], file: Path | None) -> None:
    """The result as JSON, where a file was asked for."""
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
