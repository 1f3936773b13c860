"""``dessl demo``: real digits with 100 labels, three methods, five seeds, a few λ, a report."""

import os
import time
from pathlib import Path
from typing import Annotated

import torch
import typer

from dessl.cli.errors import command, resumable, writable_folder
from dessl.cli.options import LARGEST_SEED, AsJson
from dessl.cli.output import noted_warnings, show, show_facts, show_json
from dessl.report.page import write_report
from dessl.results.facts import FACTS, MODEL, REPORT, TRAINING, write_facts
from dessl_paper.demo import FEW_LABELS, DemoPlan, run_demo
from dessl_paper.report.demo import demo_facts


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("runs/demo"),
    steps: Annotated[int, typer.Option(min=1, help="Steps of each run.")] = DemoPlan.steps,
    seeds: Annotated[int, typer.Option(min=2, help="How many seeds.")] = DemoPlan.seeds,
    seed: Annotated[
        int, typer.Option(min=0, max=LARGEST_SEED, help="The first seed.")
    ] = DemoPlan.first_seed,
    as_json: AsJson = False,
) -> None:
    """Train on digits with 100 labels: complete case, PseudoLabel, DePseudoLabel; write a report.

    Beside them, for comparison: both at other λ, and the complete case with all labels.

    Example: dessl demo

    Example: dessl demo --out runs/demo --seeds 10
    """
    _check_own(out)
    writable_folder(out)
    torch.set_num_threads(1)  # so small a network only waits for a second thread
    plan = DemoPlan(steps=steps, seeds=seeds, first_seed=seed)
    started = time.perf_counter()
    with noted_warnings() as notes, resumable(out):
        result = run_demo(plan, out=out / TRAINING)
    facts = demo_facts(
        result, command=command(), seconds=time.perf_counter() - started, warnings=tuple(notes)
    )
    write_facts(out, facts)
    write_report(out / REPORT, facts)
    if as_json:
        show_json(facts.as_dict())
        return
    show_facts(facts)
    show(f"Trained in {facts.seconds:.0f} s.")
    show(f"Report: {out / REPORT}")
    show(f"Facts:  {out / FACTS}")


def _check_own(out: Path) -> None:
    """Refuse a folder where something that is not of a demo has one of a run's names."""
    taken = [name for name in (FACTS, REPORT, MODEL, TRAINING) if os.path.lexists(out / name)]
    if taken and not (out / TRAINING / FEW_LABELS).is_dir():
        raise FileExistsError(
            f"{out} holds {', '.join(taken)} of something else than dessl demo. Choose another "
            "folder."
        )
