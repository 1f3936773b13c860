"""``dessl reproduce``: the paper's experiments, run again and put beside the paper's numbers."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import typer

from dessl.cli.errors import MENDABLE, complaint, resumable, writable_folder
from dessl.cli.options import AsJson, Device, device_named
from dessl.cli.output import noted_warnings, say, show_json
from dessl.cli.sources import nearest
from dessl_paper.output import Announcer, show_experiments, show_results, written_report
from dessl_paper.report.write import is_reproduction
from dessl_paper.specification import Experiment, experiment_names, load_experiment
from dessl_paper.sweep import run_experiment

__all__ = ["is_reproduction", "reproduce", "written_report"]

RUNS = Path("runs")  # not results/, which holds what we ran ourselves
Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="An experiment; 'list' to see which there are; 'all' to run them all."
    ),
]
Profile = Annotated[
    Literal["smoke", "fast", "paper"],
    typer.Option(
        help="smoke: seconds on a CPU, on made-up rows where the data set is not on disk. fast: "
        "the paper's protocol at a smaller budget, minutes on a GPU. paper: the full budget."
    ),
]
Seeds = Annotated[
    int | None, typer.Option(min=1, help="How many splits; if not given, the profile's.")
]
Resume = Annotated[bool, typer.Option(help="Go on with what is in the folder.")]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Folder for the results; if not given, runs/NAME. With 'all', DIR/NAME for each.",
    ),
]


def reproduce(
    name: Name,
    profile: Profile = "fast",
    device: Device = "auto",
    seeds: Seeds = None,
    resume: Resume = True,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Run an experiment of the paper again; write tables and figures beside the paper's numbers.

    Each run leaves a JSON file as it finishes. What was broken off goes on
    where it stopped, with the same command.

    Example: dessl reproduce list

    Example: dessl reproduce toy

    Example: dessl reproduce mnist --profile smoke

    Example: dessl reproduce all --profile smoke --out runs/smoke
    """
    if name == "list":
        show_experiments(as_json=as_json)
        return
    where = device_named(device)
    if name == "all":
        experiments = [_experiment(each, profile, seeds) for each in experiment_names()]
        _run_all(experiments, out or RUNS, where, resume=resume, as_json=as_json)
        return
    experiment = _experiment(name, profile, seeds)
    folder = out or RUNS / name
    summary = _run(experiment, folder, where, resume=resume, as_json=as_json)
    if as_json:
        show_json(summary)


def _experiment(name: str, profile: str, seeds: int | None) -> Experiment:
    names = experiment_names()
    if name not in names:
        raise ValueError(
            f"NAME must be 'list', 'all' or an experiment; got {name!r}. "
            + nearest(name, names, otherwise="See dessl reproduce list.")
        )
    experiment = load_experiment(name, profile)
    return experiment if seeds is None else dataclasses.replace(experiment, seeds=seeds)


def _run(
    experiment: Experiment, out: Path, device: torch.device, *, resume: bool, as_json: bool
) -> dict[str, Any]:
    """Run one experiment, write its report, show it (but for JSON) and return its summary."""
    writable_folder(out)
    if experiment.kind == "toy":
        torch.set_num_threads(1)  # so small a network only waits for a second thread
    announcer = Announcer(experiment.name)
    with noted_warnings(), resumable(out):
        run_experiment(experiment, out, device=device, resume=resume, notice=announcer)
        files, summary = written_report(out)
    if announcer.before is None:
        say(f"{experiment.name}: every run was in {out} already. Nothing was trained.")
    if not as_json:
        show_results(summary, files)
    return summary


def _run_all(
    experiments: Sequence[Experiment],
    out: Path,
    device: torch.device,
    *,
    resume: bool,
    as_json: bool,
) -> None:
    """Run one experiment after another; those that fail are named at the end."""
    summaries, failed = {}, {}
    for experiment in experiments:
        try:
            summaries[experiment.name] = _run(
                experiment, out / experiment.name, device, resume=resume, as_json=as_json
            )
        except typer.Exit:  # a RuntimeError too: Ctrl-C ends them all
            raise
        except MENDABLE as error:
            failed[experiment.name] = complaint(error)
    if as_json:
        show_json({"experiments": summaries, "failed": failed})
    for name, reason in failed.items():
        say(f"dessl: {name} failed. {reason}", style="red")
    if failed:
        raise typer.Exit(1)
