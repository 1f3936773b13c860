"""``dessl reproduce``: the paper's experiments, run again."""

import json
import time
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from dessl._files import write_whole
from dessl.cli.errors import INTERRUPTED, writable_folder
from dessl.cli.options import AsJson
from dessl.cli.output import say, show, show_json
from dessl.experiments.toy import METHODS, ToyPlan, ToyResult, run_toy
from dessl.report.toy import TRUTH, toy_facts, toy_figure, toy_table

reproduce_app = typer.Typer(help="The paper's experiments, run again.")
EXPERIMENTS = {"toy": "figure 1 and appendix A: two uniform laws, five methods (a minute or two)"}


@reproduce_app.callback(invoke_without_command=True)
def _reproduce(context: typer.Context) -> None:
    """Run one of the paper's experiments again."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)


@reproduce_app.command("list")
def list_experiments(as_json: AsJson = False) -> None:
    """List the experiments that can be run.

    Example: dessl reproduce list
    """
    if as_json:
        show_json(EXPERIMENTS)
        return
    for name, what in EXPERIMENTS.items():
        show(f"{name}: {what}")


@reproduce_app.command()
def toy(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("runs/toy"),
    steps: Annotated[int, typer.Option(min=1, help="Steps of each method.")] = ToyPlan.steps,
    seed: Annotated[int, typer.Option(min=0, help="Seed of data, weights and batches.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Train the paper's toy example: semi-supervised learning goes wrong, debiasing mends it.

    Example: dessl reproduce toy --out runs/toy
    """
    writable_folder(out)
    torch.set_num_threads(1)  # so small a network only waits for a second thread
    started = time.perf_counter()
    try:
        result = _train_with_a_bar(ToyPlan(steps=steps, seed=seed))
    except KeyboardInterrupt:
        say("Interrupted. The toy example keeps no checkpoints: run it again from the start.")
        raise typer.Exit(INTERRUPTED) from None
    facts = toy_facts(result, time.perf_counter() - started)
    write_whole(out / "toy.png", toy_figure(result))
    write_whole(out / "toy.json", json.dumps(facts, indent=1) + "\n")
    if as_json:
        show_json(facts)
        return
    Console().print(_table(result))
    show(f"Trained in {facts['seconds']:.0f} s.")
    show(f"Figure:  {out / 'toy.png'}")
    show(f"Numbers: {out / 'toy.json'}")


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
