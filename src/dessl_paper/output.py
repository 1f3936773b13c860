"""What ``dessl reproduce`` prints: the experiments there are, how far one is, what came of it."""

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dessl.cli.output import say, show, show_json
from dessl.evaluation.metrics.vocabulary import metric_text, written
from dessl_paper.cells import cells_of
from dessl_paper.report.wording import heading
from dessl_paper.report.write import SUMMARY, write_reproduction
from dessl_paper.specification import PROFILES, experiment_names, load_experiment

WIDTH = 24  # of the bar over an experiment's runs
COLUMNS = 4  # metrics that a terminal has room for side by side


def show_experiments(*, as_json: bool) -> None:
    """Print every experiment with its place in the paper and its runs at each profile."""
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
    Console().print(table)


@dataclass
class Announcer:
    """Says on stderr, before each training, how many of an experiment's runs are done.

    Args:
        experiment: Its name.
    """

    experiment: str
    began: float = field(default_factory=time.perf_counter)
    before: int | None = None  # runs that an earlier command had done

    def __call__(self, name: str, done: int, total: int) -> None:
        """Say one line."""
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
    """Write the report of a folder of records; return its files and what they say in short."""
    files = write_reproduction(folder)
    return files, json.loads((folder / SUMMARY).read_text(encoding="utf-8"))


def show_results(summary: dict[str, Any], files: list[Path]) -> None:
    """Print the means beside the paper's, what agrees with it, and where the files are."""
    means = summary["means"]
    for data, labels in dict.fromkeys((mean["data"], mean["labels"]) for mean in means):
        chosen = [mean for mean in means if (mean["data"], mean["labels"]) == (data, labels)]
        Console().print(_means_table(f"{data}, {labels:,} labels", chosen))
    show("Ours; in brackets the paper's, where it gives one.")
    show(summary["summary"])
    for path in files:
        if path.suffix in (".md", ".html", ".png"):
            show(f"Written: {path}")


def _means_table(title: str, means: list[dict[str, Any]]) -> Table:
    """A row for each method and λ; a row for each metric where they are too many for columns."""
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
    metric = mean["metric"]
    ours = "∞" if mean["mean"] is None else written(metric, mean["mean"])
    if mean["half_width"] is not None:
        ours += f" ± {written(metric, mean['half_width'])}"
    return ours if mean["paper"] is None else f"{ours} ({written(metric, mean['paper'])})"
