"""FixMatch's family on CIFAR-10 with few labels and one minute: where each form collapses.

8,000 steps of a small network (about a minute on an H200), or 3,000 of WRN-28-2 (half as long),
five draws, 40 to 4,000 labels. The averaged weights of the last step are evaluated on the test
rows: no step is selected. DeSoftMatch was selected among four forms on the test rows of draw 0,
which its differences leave out.

complete case       labelled rows alone, weak and strong views
FixMatch            L on weak and strong views, ½ each, and H with λ = ½: the paper's form
DeFixMatch          the same, debiased
DeFixMatch, ramp    λ rises from 0 to ½ over the first part of the steps
FixMatch*           as published: L on weak views alone, λ = 1; debiased it has no lower bound
DeFixMatch*, bound  debiased in the non-negative form
DeFixMatch*, smooth debiased, every probability in H mixed with 10 % of the uniform distribution
DeFixMatch, smooth  L on both views, λ = 1, smoothed likewise
DeFreeMatch         debiased, with an adaptive threshold per class, λ = ½
DeSoftMatch         debiased, every row weighted by its aligned confidence, λ = ½
SoftMatch           the same with the usual, biased risk

With 4,000 labels, the four forms of the paper's table 1 were run by `dessl reproduce
fixmatch-cifar10`, with the same network, plan and draws; the table shows those runs too.

Writes one JSON file per run in --runs; a run that already has its file, or is in
results/image_labels.json, is skipped. Runs go draw by draw, the middle numbers of labels first;
--jobs trains several at a time, a process each, until one fails: start NVIDIA's MPS first.
--collect adds the runs to the results.

    PYTHONPATH=src python benchmarks/image_labels.py --device cuda --runs RUNS --jobs 5 --minutes 9
    PYTHONPATH=src python benchmarks/image_labels.py --runs RUNS --collect
    PYTHONPATH=src python benchmarks/image_labels.py --smoke     # a tiny run of each, anywhere
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch

from dessl._files import write_whole
from dessl.data import SemiData, draw_labels
from dessl.evaluation import mean_interval
from dessl.objective import RiskKind
from dessl.surrogates import Smooth, Surrogate
from dessl.training import DivergenceError, TrainPlan, train
from dessl_paper.catalogue import load_experiment
from dessl_paper.sources import experiment_data
from dessl_paper.training import exact_metrics, network, shown, unlabelled_term
from machine import machine

LABELS, DRAWS, STEPS = (250, 40, 1_000, 4_000), 5, 8_000
NETWORKS: dict[str, dict[str, Any]] = {
    "fast_cifar": {"name": "fast_cifar", "residuals": [1, 1, 1], "width": 64},
    "wrn_28_2": {"name": "wrn_28_2"},  # BatchNorm's statistics remember 1,000 steps
    "wrn_28_2_quick": {"name": "wrn_28_2", "bn_momentum": 0.1},  # 10 steps, as in fast_cifar
    "wrn_28_2_short": {"name": "wrn_28_2", "bn_momentum": 0.1},  # the same, fewer steps
}
SHORT = {"wrn_28_2_short": 3_000}  # steps, where not STEPS
EPSILON, TAU = 0.1, 0.95
MOMENTUM = 0.99  # of adaptive thresholds: 8,000 steps are few for the published 0.999
RESULTS = Path(__file__).parent / "results" / "image_labels.json"
TABLE_1 = Path(__file__).parents[1] / "results" / "fixmatch-cifar10" / "runs"
KEPT = ("accuracy", "worst_class_accuracy", "cross_entropy", "brier", "ece")


@dataclass(frozen=True)
class Form:
    """One way to learn: a risk, its λ, the settings of its term and what else the plan has."""

    title: str
    risk: RiskKind
    lam: float
    surrogate: Mapping[str, Any]
    plan: Mapping[str, Any] = field(default_factory=dict)
    epsilon: float = 0.0  # share of the uniform distribution mixed into each probability in H

    def term(self, views: Mapping[str, Any], *, seed: int) -> Surrogate:
        """The unlabelled term with an experiment's views."""
        made = unlabelled_term(self.surrogate, views, seed=seed)
        return Smooth(made, epsilon=self.epsilon) if self.epsilon else made


def weak_to_strong(name: str, **settings: float) -> dict[str, Any]:
    """Settings of a term that learns strong views from weak ones, in a pass of their own."""
    return {"name": name, **settings, "targets": "apart"}


FIXMATCH = weak_to_strong("fixmatch", threshold=TAU)  # L on both views
STAR = weak_to_strong("fixmatch_star", threshold=TAU)  # L on weak views alone
SOFTMATCH = weak_to_strong("softmatch", momentum=MOMENTUM)
FREEMATCH = weak_to_strong("freematch", momentum=MOMENTUM)
# A smoothed term has the threshold that lets the same rows through.
SMOOTHED = {"threshold": (1 - EPSILON) * TAU + EPSILON / 10}

FORMS = {
    "complete_case": Form("complete case", "complete_case", 0.0, FIXMATCH),
    "fixmatch": Form("FixMatch", "ssl", 0.5, FIXMATCH),
    "de_fixmatch": Form("DeFixMatch", "debiased", 0.5, FIXMATCH),
    "fixmatch_star": Form("FixMatch*", "ssl", 1.0, STAR),
    "bounded_star": Form("DeFixMatch*, bound", "debiased", 1.0, STAR, {"bound": "nonnegative"}),
    "smooth_star": Form("DeFixMatch*, smooth", "debiased", 1.0, STAR | SMOOTHED, epsilon=EPSILON),
    "smooth": Form("DeFixMatch, smooth", "debiased", 1.0, FIXMATCH | SMOOTHED, epsilon=EPSILON),
    "ramp": Form("DeFixMatch, ramp", "debiased", 0.5, FIXMATCH, {"ramp": "linear_ramp"}),
    "freematch": Form("DeFreeMatch", "debiased", 0.5, FREEMATCH),
    "softmatch": Form("DeSoftMatch", "debiased", 0.5, SOFTMATCH),
    "softmatch_ssl": Form("SoftMatch", "ssl", 0.5, SOFTMATCH),
}

COMPARED = {
    "de_fixmatch": tuple(key for key in FORMS if key != "de_fixmatch"),
    "softmatch": ("fixmatch_star", "softmatch_ssl"),
}
# DeSoftMatch was chosen on this draw of 250 labels, among four forms, by its test cross-entropy.
SELECTED_ON = {("softmatch", 250): {0}}


class Run(NamedTuple):
    """One training."""

    form: str
    network: str
    labels: int
    draw: int

    @property
    def file(self) -> str:
        """Its file's name."""
        return f"{self.form}-{self.network}-{self.labels}-{self.draw}.json"


def runs_of(options: argparse.Namespace) -> list[Run]:
    """All requested runs, one draw at a time."""
    if options.smoke:
        return [Run(form, "fast_cifar", 40, 0) for form in options.forms]
    return [
        Run(form, name, labels, draw)
        for draw in options.draws
        for name in options.networks
        for labels in options.labels
        for form in options.forms
    ]


def in_processes(runs: Sequence[Run], options: argparse.Namespace, folder: Path) -> None:
    """Train runs, several at a time, each by this command in a process of its own.

    Raises:
        RuntimeError: One failed; no other is started after it.
    """
    end = time.monotonic() + 60 * options.minutes
    failed: list[str] = []

    def trained(run: Run) -> None:
        if failed or time.monotonic() >= end:
            return
        own = ["--forms", run.form, "--networks", run.network]
        own += ["--labels", str(run.labels), "--draws", str(run.draw)]
        own += ["--device", options.device, "--runs", str(folder)]
        own += ["--steps", str(options.steps)] if options.steps else []
        own += ["--smoke"] if options.smoke else []
        ended = subprocess.run([sys.executable, __file__, *own], capture_output=True, text=True)
        if ended.returncode:
            failed.append(f"{run.file}: {ended.stderr}")
        print(ended.stdout.partition("\n")[0] or f"{run.file} failed", flush=True)

    with ThreadPoolExecutor(options.jobs) as threads:
        list(threads.map(trained, runs))
    if failed:
        raise RuntimeError(failed[0])


@cache
def setting(*, smoke: bool) -> tuple[Any, SemiData]:
    """The paper's experiment, and all rows with every label."""
    experiment = load_experiment("fixmatch-cifar10", "smoke" if smoke else "fast")
    return experiment, experiment_data(experiment.data[0], curve="test")


def measured(run: Run, options: argparse.Namespace) -> dict[str, Any]:
    """Train, and measure on the test rows."""
    experiment, rows = setting(smoke=options.smoke)
    data, form, began = rows.to(options.device), FORMS[run.form], time.perf_counter()
    drawn = draw_labels(
        rows.y, run.labels, how="balanced", generator=torch.Generator().manual_seed(run.draw)
    )
    own: dict[str, Any] = {"risk": form.risk, "lam": form.lam, "seed": run.draw, **form.plan}
    if not options.smoke:
        steps = options.steps or SHORT.get(run.network, STEPS)
        own |= {"steps": steps, "evaluate_every": max(1, steps // 8)}
    plan = TrainPlan.from_dict({**experiment.plan, **own})
    model = experiment.model if options.smoke else NETWORKS[run.network]
    found: dict[str, Any] = {**run._asdict(), "plan": plan.as_dict(), "machine": machine()}
    try:
        result = train(
            network(model, data),
            form.term(experiment.views, seed=run.draw),
            data.with_labels(drawn),
            plan,
            transform=shown(experiment.views),
            progress=False,
        )
    except DivergenceError as error:
        return found | {"diverged": str(error), "seconds": time.perf_counter() - began}
    assert data.test is not None
    metrics = exact_metrics(result.model, data.test, experiment.views).as_dict()
    return found | {
        "diverged": None,
        "metrics": {name: metrics[name] for name in KEPT},
        "curve": [[e.step, (e.validation or {}).get("accuracy")] for e in result.history],
        "mask": [[e.step, e.mask_unlabelled] for e in result.history],
        "seconds": time.perf_counter() - began,
    }


def table(records: Sequence[Mapping[str, Any]]) -> str:
    """Accuracy and cross-entropy by form and number of labels, mean and 95 % interval."""
    grouped: dict[tuple[str, int], dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        grouped[record["network"], record["labels"]][record["form"]].append(record)
    lines = []
    for (name, labels), forms in sorted(grouped.items()):
        lines += [f"\n## {name}, {labels:,} labels\n"]
        lines += [
            "| form | accuracy of each draw, % | accuracy, % | cross-entropy | Brier | diverged |"
        ]
        lines += ["|---|---|---:|---:|---:|---:|"]
        for key in FORMS:
            its = sorted(forms.get(key, []), key=lambda record: record["draw"])
            ended = [record["metrics"] for record in its if not record["diverged"]]
            if not its:
                continue
            each = ", ".join(f"{100 * one['accuracy']:.1f}" for one in ended)
            cells = [FORMS[key].title, each]
            cells += [spread([100 * one["accuracy"] for one in ended], 1)]
            cells += [spread([one[metric] for one in ended], 3) for metric in KEPT[2:4]]
            lines += [f"| {' | '.join(cells)} | {len(its) - len(ended)} of {len(its)} |"]
        if found := list(differences(forms, labels)):
            lines += ["", *found]
    return "\n".join(lines) + "\n"


def differences(forms: Mapping[str, Sequence[Mapping[str, Any]]], labels: int) -> Iterator[str]:
    """DeFixMatch and DeSoftMatch minus other forms, paired over the draws that both have."""
    for ours, others in COMPARED.items():
        draws = set(_of_draws(forms.get(ours, ()), "accuracy")) - SELECTED_ON.get(
            (ours, labels), set()
        )
        for key in (key for key in others if key in forms):
            both = sorted(draws & _of_draws(forms[key], "accuracy").keys())
            if not both:
                continue
            parts = []
            for metric, factor, digits in (("accuracy", 100, 1), ("cross_entropy", 1, 3)):
                one, other = (_of_draws(forms[name], metric) for name in (ours, key))
                gaps = [factor * (one[draw] - other[draw]) for draw in both]
                parts.append(f"{metric.replace('_', '-')} {spread(gaps, digits)}")
            names = f"{FORMS[ours].title} minus {FORMS[key].title}"
            yield f"- {names}: {', '.join(parts)} ({len(both)} draws)"


def _of_draws(its: Sequence[Mapping[str, Any]], metric: str) -> dict[int, float]:
    return {one["draw"]: one["metrics"][metric] for one in its if not one["diverged"]}


def spread(values: Sequence[float], digits: int) -> str:
    """A mean with its 95 % interval, where there are two values or more."""
    if len(values) < 2:
        return f"{values[0]:.{digits}f}" if values else ""
    found = mean_interval(values)
    return f"{found.mean:.{digits}f} ± {found.half_width:.{digits}f}"


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="a tiny run of each form")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--runs", type=Path, help="folder with one file per run")
    parser.add_argument("--collect", action="store_true", help="train nothing, write the results")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start none later")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time")
    parser.add_argument("--steps", type=int, help="for a trial; default: as many as compared")
    parser.add_argument("--draws", nargs="+", type=int, default=list(range(DRAWS)))
    parser.add_argument("--labels", nargs="+", type=int, default=list(LABELS))
    parser.add_argument("--forms", nargs="+", default=list(FORMS), choices=list(FORMS))
    parser.add_argument("--networks", nargs="+", default=["fast_cifar"], choices=list(NETWORKS))
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    """Train what has no file yet, then print all that there is."""
    options = arguments(argv)
    end = time.monotonic() + 60 * options.minutes
    earlier = {} if options.smoke else read_results()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.runs or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        missing = [
            run
            for run in ([] if options.collect else runs_of(options))
            if run.file not in earlier and not (folder / run.file).exists()
        ]
        if options.jobs > 1:
            in_processes(missing, options, folder)
            missing = []
        for run in missing:
            if time.monotonic() >= end:
                break
            found = measured(run, options)
            write_whole(folder / run.file, json.dumps(found) + "\n")
            said = found["metrics"]["accuracy"] if not found["diverged"] else "diverged"
            print(f"{run.file} {said} {found['seconds']:.0f} s", flush=True)
        added = {file.name: json.loads(file.read_text()) for file in folder.glob("*.json")}
    records = dict(sorted((earlier | added).items()))
    text = table([*records.values(), *([] if options.smoke else runs_of_table_1())])
    print(text)
    if options.collect:
        lines = (f"{json.dumps(name)}: {json.dumps(found)}" for name, found in records.items())
        write_whole(RESULTS, "{\n" + ",\n".join(lines) + "\n}\n")
        seconds = sum(found["seconds"] for found in records.values())
        head = f"# FixMatch's family with few labels\n\n{len(records)} runs, {seconds:.0f} s.\n"
        write_whole(RESULTS.with_suffix(".md"), head + text)


def runs_of_table_1() -> list[dict[str, Any]]:
    """The runs of the paper's table 1, which have the same network, plan and draws."""
    found = []
    for file in sorted(TABLE_1.glob("cifar10-4000-*.json")):
        run = json.loads(file.read_text())
        if run["method"] in FORMS:
            own = {"form": run["method"], "draw": run["seed"], "metrics": run["metrics"]}
            own |= {"network": "fast_cifar", "labels": 4_000, "diverged": None}
            found.append(own)
    return found


def read_results() -> dict[str, Any]:
    """The records that are committed, by file name."""
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return found


if __name__ == "__main__":
    main()
