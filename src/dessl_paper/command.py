"""``dessl reproduce``: reruns the paper's experiments and compares with the paper's numbers."""

import dataclasses
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from dessl.cli.errors import TYPED, USER_ERRORS, complaint, resumable, writable_folder
from dessl.cli.options import AsJson, Device, device_named
from dessl.cli.output import PlainConsole, noted_warnings, say, show, show_json
from dessl.cli.together import is_launched

if TYPE_CHECKING:  # modules that need torch are imported late, so that --help is fast
    import torch

    from dessl_paper.specification import Experiment

RUNS = Path("runs")  # not results/, which has our own runs
WIDTH = 24  # of the bar over an experiment's runs
COLUMNS = 4  # number of metrics that fit side by side in a terminal
Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="An experiment, 'list' to list them, or 'all' to run them all."
    ),
]
Profile = Literal["smoke", "fast", "paper"]
ProfileOption = Annotated[
    Profile,
    typer.Option(
        help="smoke: seconds on a CPU, with generated rows if the data set is not on disk. fast: "
        "the paper's protocol at a smaller budget, minutes on a GPU. paper: the full budget."
    ),
]
Seeds = Annotated[int | None, typer.Option(min=1, help="Number of splits; default: the profile's.")]
Jobs = Annotated[
    int,
    typer.Option(
        min=1,
        help="Number of processes that divide the runs among them and share the GPUs; pays if one "
        "run does not keep the GPU busy. Start NVIDIA's MPS first.",
    ),
]
Resume = Annotated[bool, typer.Option(help="Resume from the runs in the folder.")]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Folder for the results; default: runs/NAME. With 'all', DIR/NAME for each.",
    ),
]


def reproduce(
    name: Name,
    profile: ProfileOption = "fast",
    device: Device = "auto",
    seeds: Seeds = None,
    jobs: Jobs = 1,
    resume: Resume = True,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Rerun an experiment of the paper; write tables and figures next to the paper's numbers.

    Each run writes a JSON file when it finishes. The same command resumes an
    interrupted experiment.

    Example: dessl reproduce list

    Example: dessl reproduce toy

    Example: dessl reproduce mnist --profile smoke

    Example: dessl reproduce all --profile smoke --out runs/smoke

    Example: dessl reproduce consistency-cifar10 --jobs 4
    """
    if name == "list":
        show_experiments(as_json=as_json)
        return
    where = device_named(device)
    experiments = _experiments(name, profile, seeds)
    folder = out or (RUNS if name == "all" else RUNS / name)
    if jobs > 1 and not is_launched():
        _share(jobs, where, folder)
        return
    if name == "all":
        _run_all(experiments, folder, where, resume=resume, as_json=as_json)
        return
    (experiment,) = experiments
    summary = _run(experiment, folder, where, resume=resume, as_json=as_json)
    if as_json:
        show_json(summary)


def _share(jobs: int, device: "torch.device", out: Path) -> None:
    """Run the same command in several processes; exit if one of them fails."""
    from dessl_paper.jobs import has_mps, run_jobs

    if device.type == "cuda" and not has_mps():
        say(
            "NVIDIA's MPS is not running, so the processes take turns on the GPU. To let them run "
            "at the same time, stop this command, run nvidia-cuda-mps-control -d, and start again."
        )
    with resumable(out):
        code = run_jobs(TYPED.get(), jobs)
    if code:
        raise typer.Exit(code)


def _experiments(name: str, profile: Profile, seeds: int | None) -> "list[Experiment]":
    from dessl_paper.catalogue import experiment_names

    names = experiment_names() if name == "all" else [name]
    return [_experiment(each, profile, seeds) for each in names]


def _experiment(name: str, profile: Profile, seeds: int | None) -> "Experiment":
    from dessl.cli.sources import nearest
    from dessl_paper.catalogue import experiment_names, load_experiment

    names = experiment_names()
    if name not in names:
        raise ValueError(
            f"NAME must be 'list', 'all' or an experiment; got {name!r}. "
            + nearest(name, names, otherwise="See dessl reproduce list.")
        )
    experiment = load_experiment(name, profile)
    return experiment if seeds is None else dataclasses.replace(experiment, seeds=seeds)


def _run(
    experiment: "Experiment", out: Path, device: "torch.device", *, resume: bool, as_json: bool
) -> dict[str, Any]:
    """Run one experiment, write its report, show it unless as JSON, and return its summary."""
    from dessl.training.ranks import from_first
    from dessl_paper.run import run_experiment

    from_first(partial(writable_folder, out))
    announcer = Announcer(experiment.name)
    with noted_warnings(), resumable(out):
        run_experiment(experiment, out, device=device, resume=resume, notice=announcer)
        files, summary = from_first(partial(written_report, out))
    if announcer.before is None:
        say(f"{experiment.name}: {out} already has every run. Nothing was trained.")
    if not as_json:
        show_results(summary, files)
    return summary


def _run_all(
    experiments: "Sequence[Experiment]",
    out: Path,
    device: "torch.device",
    *,
    resume: bool,
    as_json: bool,
) -> None:
    """Run one experiment after another; list those that failed at the end."""
    from dessl.training.ranks import LostRankError

    summaries, failed = {}, {}
    for experiment in experiments:
        try:
            summaries[experiment.name] = _run(
                experiment, out / experiment.name, device, resume=resume, as_json=as_json
            )
        except LostRankError:
            raise
        except USER_ERRORS as error:
            failed[experiment.name] = complaint(error)
    if as_json:
        show_json({"experiments": summaries, "failed": failed})
    for name, reason in failed.items():
        say(f"dessl: {name} failed. {reason}", style="red")
    if failed:
        raise typer.Exit(1)


def show_experiments(*, as_json: bool) -> None:
    """Print every experiment with its place in the paper and its runs at each profile."""
    from dessl_paper.catalogue import PROFILES, experiment_names, load_experiment
    from dessl_paper.specification import cells_of

    rows: list[dict[str, Any]] = []
    for name in experiment_names():
        profiles = {profile: load_experiment(name, profile) for profile in PROFILES}
        rows.append(
            {
                "name": name,
                "what": profiles["paper"].title,
                "paper": profiles["paper"].paper,
                "runs": {key: len(cells_of(each)) for key, each in profiles.items()},
            }
        )
    if as_json:
        show_json(rows)
        return
    table = Table(title="dessl reproduce NAME --profile smoke|fast|paper")
    table.add_column("name", no_wrap=True)
    table.add_column("what, and where in the paper")
    table.add_column("runs: smoke, fast, paper", justify="right")
    for row in rows:
        counts = ", ".join(str(count) for count in row["runs"].values())
        table.add_row(row["name"], f"{row['what']} ({row['paper']})", counts, end_section=True)
    PlainConsole().print(table)


@dataclass
class Announcer:
    """Prints to stderr, before each training run, how many of an experiment's runs are done.

    Args:
        experiment: Its name.
    """

    experiment: str
    began: float = field(default_factory=time.perf_counter)
    before: int | None = None  # runs that an earlier command had finished

    def __call__(self, name: str, done: int, total: int) -> None:
        """Print one line."""
        self.before = done if self.before is None else self.before
        filled = WIDTH * done // total
        bar = "━" * filled + "─" * (WIDTH - filled)
        say(f"{self.experiment} {bar} {done}/{total}{self._left(done, total)}  {name}")

    def _left(self, done: int, total: int) -> str:
        here = done - (self.before or 0)
        if here == 0:
            return ""
        minutes = (time.perf_counter() - self.began) / here * (total - done) / 60
        return f", about {minutes:.0f} min left" if minutes >= 1 else ", less than a minute left"


def written_report(folder: Path) -> tuple[list[Path], dict[str, Any]]:
    """Write the report of a folder of records; return its files and their summary."""
    from dessl_paper.writing import SUMMARY, write_reproduction

    files = write_reproduction(folder)
    return files, json.loads((folder / SUMMARY).read_text(encoding="utf-8"))


def show_results(summary: dict[str, Any], files: list[Path]) -> None:
    """Print our means and the paper's, what agrees, and the files."""
    means = summary["means"]
    for data, labels in dict.fromkeys((mean["data"], mean["labels"]) for mean in means):
        chosen = [mean for mean in means if (mean["data"], mean["labels"]) == (data, labels)]
        PlainConsole().print(_means_table(f"{data}, {labels:,} labels", chosen))
    show("Our numbers, with the paper's in brackets if it gives one.")
    show(summary["summary"])
    for path in files:
        if path.suffix in (".md", ".html", ".png"):
            show(f"Written: {path}")


def _means_table(title: str, means: list[dict[str, Any]]) -> Table:
    """A row for each method and λ, or for each metric if there are too many for columns."""
    from dessl.evaluation.metrics.vocabulary import metric_text
    from dessl_paper.wording import heading

    metrics = list(dict.fromkeys(mean["metric"] for mean in means))
    runs = list(dict.fromkeys((mean["title"], mean["lam"]) for mean in means))
    cells = {(mean["title"], mean["lam"], mean["metric"]): _cell(mean) for mean in means}
    table = Table(title=Text(title), box=SIMPLE)
    if len(metrics) > COLUMNS:
        table.add_column("metric")
        for method, lam in runs:
            table.add_column(Text(f"{method}, λ = {lam:.3g}"), justify="right")
        for metric in metrics:
            found = [cells.get((*run, metric), "–") for run in runs]
            table.add_row(Text(heading(metric)), *found)
        return table
    table.add_column("method", no_wrap=True)
    table.add_column("λ", justify="right")
    for metric in metrics:
        table.add_column(Text(metric_text(metric)), justify="right")
    for method, lam in runs:
        found = [cells.get((method, lam, metric), "–") for metric in metrics]
        table.add_row(method, f"{lam:.3g}", *found)
    return table


def _cell(mean: dict[str, Any]) -> str:
    from dessl.evaluation.metrics.vocabulary import written

    metric = mean["metric"]
    ours = "∞" if mean["mean"] is None else written(metric, mean["mean"])
    if mean["half_width"] is not None:
        ours += f" ± {written(metric, mean['half_width'])}"
    return ours if mean["paper"] is None else f"{ours} ({written(metric, mean['paper'])})"
