"""Which settings make DeFixMatch learn fastest on CIFAR-10: short runs, on held-out labels.

Each candidate changes something in the initial setting, nine layers and SGD. It is trained for
8,000 steps, unless it says otherwise, on 3,000 of the 4,000 labels, and evaluated on the other
1,000 after the last step. The test set is not used. Finished runs are kept under --runs and
skipped; with --only, several processes can share the work.

    PYTHONPATH=src python benchmarks/fixmatch_search.py --device cuda --runs runs/search --out FILE
    PYTHONPATH=src python benchmarks/fixmatch_search.py --smoke     # two tiny ones, on any machine
"""

import argparse
import dataclasses
import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dessl.results.record import Record, read_records
from dessl_paper.catalogue import load_experiment
from dessl_paper.run import run_experiment
from dessl_paper.specification import Experiment

EXPERIMENT, METHOD = "fixmatch-cifar10", "de_fixmatch"
STEPS, VALIDATION = 8_000, 1_000
SMOKE_PLAN = {"labelled_batch": 8, "unlabelled_batch": 8}
METRICS = ("accuracy", "worst_class_accuracy", "cross_entropy", "brier")

NINE = {"name": "fast_cifar", "residuals": [1, 0, 1]}
SGD = {"optimiser": "sgd", "learning_rate": 0.05, "weight_decay": 5e-4}
ELEVEN = {"residuals": [1, 1, 1]}
SEVENTEEN = {"residuals": [2, 2, 2]}
MUON = {"optimiser": "muon", "learning_rate": 1e-2, "weight_decay": 0.05}
COOL = MUON | {"learning_rate": 5e-3, "weight_decay": 0.02}
COLD = MUON | {"learning_rate": 2.5e-3, "weight_decay": 0.02}
DECAYING = MUON | {"learning_rate": 5e-3, "weight_decay": 0.2}
LINEAR = {"name": "warm_up", "warm_up": 500, "then": "linear"}


def wide(decay: float, steps: int = 14_000, *, width: int = 96, **plan: Any) -> dict[str, Any]:
    """Eleven wide layers for as long as the search's longest trainings."""
    plan = {**DECAYING, "weight_decay": decay, **plan}
    return {"steps": steps, "plan": plan, "model": ELEVEN | {"width": width}}


# Weights that a normalisation follows turn at the rate learning rate · weight decay: over so few
# steps both must be larger than where they were found, in a training of a million.
CANDIDATES: dict[str, dict[str, Any]] = {
    "base": {},
    "lr-0.1": {"plan": {"learning_rate": 0.1}},
    "lr-0.2": {"plan": {"learning_rate": 0.2}},
    "lr-0.4": {"plan": {"learning_rate": 0.4}},
    "lr-0.2-decay-1e-3": {"plan": {"learning_rate": 0.2, "weight_decay": 1e-3}},
    "lr-0.2-batch-128-384": {
        "plan": {"learning_rate": 0.2, "labelled_batch": 128, "unlabelled_batch": 384}
    },
    "lr-0.2-width-96": {"plan": {"learning_rate": 0.2}, "model": {"width": 96}},
    "lr-0.2-11-layers": {"plan": {"learning_rate": 0.2}, "model": ELEVEN},
    "lr-0.2-17-layers": {"plan": {"learning_rate": 0.2}, "model": SEVENTEEN},
    "muon-1e-2-11-layers": {"plan": MUON, "model": ELEVEN},
    "muon-5e-3-11-layers": {"plan": MUON | {"learning_rate": 5e-3}, "model": ELEVEN},
    "muon-5e-3-decay-2e-2-11-layers": {"plan": COOL, "model": ELEVEN},
    "muon-2.5e-3-decay-2e-2-11-layers": {"plan": COLD, "model": ELEVEN},
    "muon-5e-3-decay-2e-2-11-layers-0.99": {
        "steps": 14_000,
        "plan": COOL,
        "model": ELEVEN,
        "surrogate": {"threshold": 0.99},
    },
    "muon-5e-3-decay-0.2-11-layers": {"steps": 14_000, "plan": DECAYING, "model": ELEVEN},
    "muon-5e-3-decay-2e-2-11-layers-width-96": {"plan": COOL, "model": ELEVEN | {"width": 96}},
    "muon-5e-3-decay-0.5-11-layers": {
        "steps": 14_000,
        "plan": DECAYING | {"weight_decay": 0.5},
        "model": ELEVEN,
    },
    # Three networks that take as long as one another, with the better decay.
    "muon-5e-3-decay-0.2-11-layers-width-96": wide(0.2),
    "muon-5e-3-decay-0.2-11-layers-width-128": {
        "steps": 9_000,
        "plan": DECAYING,
        "model": ELEVEN | {"width": 128},
    },
    "muon-5e-3-decay-0.2-11-layers-width-128-longer": wide(0.2, width=128),
    "muon-5e-3-decay-0.2-17-layers": {"steps": 17_000, "plan": DECAYING, "model": SEVENTEEN},
    # The best of these, with something else changed.
    "muon-5e-3-decay-0.1-11-layers-width-96": wide(0.1),
    "muon-5e-3-decay-0.1-11-layers-width-96-linear": wide(0.1, schedule=LINEAR),
    "muon-5e-3-decay-0.1-11-layers-width-96-batch-64-320": wide(0.1, 18_000, unlabelled_batch=320),
    "muon-5e-3-decay-0.1-11-layers-width-96-momentum-0.95": wide(0.1, momentum=0.95),
    "adamw": {"plan": {"optimiser": "adamw", "learning_rate": 1e-3, "weight_decay": 0.05}},
}


def searched(name: str, steps: int | None, *, smoke: bool) -> Experiment:
    """A candidate as an experiment: DeFixMatch alone, with labels held out of the budget."""
    experiment = load_experiment(EXPERIMENT, "smoke" if smoke else "fast")
    own = CANDIDATES[name]
    steps = steps or own.get("steps", STEPS)
    plan = {**experiment.plan, **SGD, "evaluate_every": max(1, steps // 6), **own.get("plan", {})}
    if plan["optimiser"] == "adamw":
        del plan["momentum"]
    method = experiment.method(METHOD)
    surrogate = {**method.surrogate, **own.get("surrogate", {})}
    held = experiment.data[0].labels * VALIDATION // 4000
    return dataclasses.replace(
        experiment,
        data=(dataclasses.replace(experiment.data[0], validation=held),),
        seeds=1,
        curve="validation",
        model=experiment.model if smoke else {**NINE, **own.get("model", {})},
        plan={**plan, "steps": steps, **(SMOKE_PLAN if smoke else {})},
        methods=(dataclasses.replace(method, surrogate=surrogate),),
    )


def row(name: str, record: Record) -> dict[str, Any]:
    """What is kept of a training: its settings, speed and the held-out labels' judgement."""
    labels = record.settings["data"]["validation"]
    found: dict[str, Any] = {
        "candidate": name,
        "changed": CANDIDATES[name],
        "validation_labels": labels,
        "diverged": record.training["diverged"],
        "seconds": record.training["seconds"],
        "settings": record.settings,
        "made_with": record.made_with,
    }
    if record.history:
        validation: Mapping[str, float] = record.history[-1]["validation"]
        accuracy = validation["accuracy"]
        found |= {metric: validation[metric] for metric in METRICS}
        found["accuracy_error"] = math.sqrt(accuracy * (1 - accuracy) / labels)
        found["steps_per_second"] = record.history[-1]["steps_per_second"]
        found["curve"] = [[e["step"], e["validation"]["accuracy"]] for e in record.history]
    return found


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The candidates: those that ran longest first, of them the one with the best Brier score."""
    lines = [
        "| candidate | steps | accuracy, % | worst class, % | cross-entropy | Brier |",
        "|:---|---:|---:|---:|---:|---:|",
    ]
    for found in sorted(rows, key=lambda one: (-steps_of(one), one.get("brier", math.inf))):
        name = f"| {found['candidate']} | {steps_of(found):,} "
        if "accuracy" not in found:
            lines.append(f"{name}| diverged | | | |")
            continue
        lines.append(
            f"{name}| {100 * found['accuracy']:.1f} ± "
            f"{196 * found['accuracy_error']:.1f} | {100 * found['worst_class_accuracy']:.1f} "
            f"| {found['cross_entropy']:.3f} | {found['brier']:.4f} |"
        )
    return "\n".join(lines)


def steps_of(found: Mapping[str, Any]) -> int:
    """How long a training was."""
    steps: int = found["settings"]["plan"]["steps"]
    return steps


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="two tiny candidates")
    parser.add_argument("--steps", type=int, default=None, help="of every candidate")
    parser.add_argument("--only", nargs="+", choices=tuple(CANDIDATES), default=None)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--runs", type=Path, default=None, help="folder of finished trainings")
    parser.add_argument(
        "--out", type=Path, default=None, help="JSON file of the results; a table beside it"
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    """Train what has no record yet; print and write all that there is."""
    options = arguments(argv)
    steps = options.steps or (2 if options.smoke else None)
    chosen = options.only or (["base", "lr-0.1"] if options.smoke else list(CANDIDATES))
    with tempfile.TemporaryDirectory() as scratch:
        runs = options.runs or Path(scratch)
        for name in chosen:
            experiment = searched(name, steps, smoke=options.smoke)
            run_experiment(experiment, runs / name, device=options.device)
        done = {name: read_records(runs / name) for name in CANDIDATES if (runs / name).is_dir()}
    rows = [row(name, record) for name, records in done.items() for record in records]
    labels = rows[0]["validation_labels"]
    found = f"DeFixMatch on {labels:,} held-out labels (± 95 %)\n\n{table(rows)}\n"
    print(found)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
        options.out.with_suffix(".md").write_text(found, encoding="utf-8")


if __name__ == "__main__":
    main()
