"""The command line: ``dessl demo``."""

import json
import sys
import time
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from dessl._files import write_whole
from dessl._version import __version__
from dessl.experiments.toy import METHODS, ToyPlan, ToyResult, run_toy
from dessl.report.toy import TRUTH, toy_facts, toy_figure, toy_table

app = typer.Typer(
    help="Safe semi-supervised learning through a debiased risk.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dessl {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    """Safe semi-supervised learning through a debiased risk."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("runs/demo"),
    steps: Annotated[int, typer.Option(min=1, help="Steps of each method.")] = ToyPlan.steps,
    seed: Annotated[int, typer.Option(min=0, help="Seed of data, weights and batches.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the facts as JSON.")] = False,
) -> None:
    """Train the paper's toy example: semi-supervised learning goes wrong, debiasing mends it.

    Example: dessl demo --out runs/demo
    """
    out.mkdir(parents=True, exist_ok=True)  # an unwritable place is said before the work, not after
    torch.set_num_threads(1)  # so small a network only waits for a second thread
    started = time.perf_counter()
    result = _train_with_a_bar(ToyPlan(steps=steps, seed=seed))
    facts = toy_facts(result, time.perf_counter() - started)
    write_whole(out / "toy.png", toy_figure(result))
    write_whole(out / "toy.json", json.dumps(facts, indent=1) + "\n")
    if as_json:
        typer.echo(json.dumps(facts))
        return
    console = Console()
    console.print(_table(result))
    console.print(f"Trained in {facts['seconds']:.0f} s.")
    console.print(f"Figure:  {out / 'toy.png'}", soft_wrap=True)
    console.print(f"Numbers: {out / 'toy.json'}", soft_wrap=True)


def _train_with_a_bar(plan: ToyPlan) -> ToyResult:
    columns = (
        TextColumn("{task.description:<14}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("warm start", total=len(METHODS) * plan.steps)

        def on_step(method: str, step: int) -> None:
            if step % 50 == 0 or step == plan.steps:
                done = list(METHODS).index(method) * plan.steps + step
                bar.update(task, description=method, completed=done)

        return run_toy(plan, progress=on_step)


def _table(result: ToyResult) -> Table:
    table = Table(title="Mean posterior p(1|x) on x in [1.2, 2.8]")
    for heading in ("method", "ours", "off by", "paper"):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    table.add_row("truth", f"{TRUTH:.3f}", "", "", style="bold", end_section=True)
    for name, ours, paper, off in toy_table(result):
        table.add_row(name, f"{ours:.3f}", f"{off:+.3f}", f"{paper:.2f}")
    return table


def main() -> None:
    """Run the command line; an error the user can mend is one line and exit code 2."""
    try:
        app()
    except (OSError, ValueError) as error:
        Console(stderr=True).print(f"dessl: {error}", style="red", markup=False, soft_wrap=True)
        sys.exit(2)
