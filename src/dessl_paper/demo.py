"""``dessl demo``: real digits with 100 labels, three methods, five seeds, a few λ, a report.

What is run is in ``experiments/demo.toml``. All methods of a seed share its labels, its initial
weights and its labelled batches, so that their differences are paired.
"""

import dataclasses
import os
import time
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from dessl.cli.errors import command, resumable, writable_folder
from dessl.cli.options import LARGEST_SEED, AsJson
from dessl.cli.output import noted_warnings, show, show_facts, show_json
from dessl.evaluation.verdict import verdict
from dessl.report.page import write_report
from dessl.results.comparisons import method_comparisons
from dessl.results.facts import (
    FACTS,
    MODEL,
    REPORT,
    TRAINING,
    DataFacts,
    MethodFacts,
    RunFacts,
    write_facts,
)
from dessl.results.machine import machine_facts
from dessl.results.record import Record, read_records
from dessl_paper.catalogue import DEMO, load_experiment
from dessl_paper.results import EXPERIMENT
from dessl_paper.run import run_experiment
from dessl_paper.sources import experiment_data
from dessl_paper.specification import Experiment, Method, cells_of

PRIMARY = ("DePseudoLabel", "cross_entropy")  # what the verdict is about, chosen beforehand
EVALUATIONS = 12
STEPS, SEEDS = 300, 5  # as in the file


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("runs/demo"),
    steps: Annotated[int, typer.Option(min=1, help="Steps of each run.")] = STEPS,
    seeds: Annotated[int, typer.Option(min=2, help="How many seeds.")] = SEEDS,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="The first seed.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Train on digits with 100 labels: complete case, PseudoLabel, DePseudoLabel; write a report.

    For comparison it also trains both at other λ, and the complete case with all labels.

    Example: dessl demo

    Example: dessl demo --out runs/demo --seeds 10
    """
    _check_own(out)
    writable_folder(out)
    torch.set_num_threads(1)  # so small a network only waits for a second thread
    experiment = demo_experiment(steps=steps, seeds=seeds, first_seed=seed)
    started = time.perf_counter()
    with noted_warnings() as notes, resumable(out):
        run_experiment(experiment, out / TRAINING)
    seconds = time.perf_counter() - started
    facts = demo_facts(
        experiment, read_records(out / TRAINING), command(), seconds, warnings=tuple(notes)
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
    """Refuse a folder with files of something else."""
    taken = [name for name in (FACTS, REPORT, MODEL, TRAINING) if os.path.lexists(out / name)]
    if taken and not (out / TRAINING / EXPERIMENT).is_file():
        raise FileExistsError(
            f"{out} has {', '.join(taken)} that dessl demo did not write. Choose another folder."
        )


def demo_experiment(*, steps: int = STEPS, seeds: int = SEEDS, first_seed: int = 0) -> Experiment:
    """The demonstration with its steps and seeds, evaluated twelve times.

    >>> demo_experiment() == load_experiment("demo")
    True
    """
    own = load_experiment(DEMO)
    plan = {**own.plan, "steps": steps, "evaluate_every": max(1, steps // EVALUATIONS)}
    return dataclasses.replace(own, plan=plan, seeds=seeds, first_seed=first_seed)


def demo_facts(
    experiment: Experiment,
    records: list[Record],
    command: str,
    seconds: float,
    *,
    warnings: tuple[str, ...] = (),
) -> RunFacts:
    """Return everything that the demonstration's report shows.

    Args:
        experiment: What was run.
        records: Of its runs.
        command: The command line that made it.
        seconds: Time taken.
        warnings: Shown on the way.
    """
    cells, known = cells_of(experiment), {record.key: record for record in records}
    methods = {method.title: method for method in experiment.methods[::-1]}  # the first of a title
    main = [cell for cell in cells if cell.method is methods[cell.method.title]]
    runs = tuple(_shown(known[cell.key]) for cell in main)
    setting = experiment.data[0]
    data = experiment_data(setting)
    shown = [method for method in experiment.methods if method is methods[method.title]]
    names = [method.title for method in shown if not method.every_label]
    comparisons = method_comparisons(runs, names)
    primary = next(one for one in comparisons if (one.method, one.metric) == PRIMARY)
    return RunFacts(
        title=f"{experiment.title}: does unlabelled data help?",
        command=command,
        data=DataFacts.of(
            data.with_labels(main[0].draw(data.y)), test=len(data.test.y) if data.test else 0
        ),
        methods=tuple(map(_method, shown)),
        runs=runs,
        comparisons=comparisons,
        sweep=tuple(_number_of(known[cell.key]) for cell in cells if cell not in main),
        verdict=verdict(primary),
        settings={DEMO: experiment.as_dict(), "training": main[0].plan(experiment).as_dict()},
        made_with=machine_facts(),
        seconds=round(seconds, 2),
        warnings=warnings,
    )


def _method(method: Method) -> MethodFacts:
    risk = "supervised" if method.every_label else method.risk
    return MethodFacts(method.title, risk, str(method.surrogate["name"]), method.lams[0])


def _shown(record: Record) -> Record:
    """A record as a page shows it, its method by title; what all runs share is said once there."""
    return dataclasses.replace(record, method=record.title, settings={}, made_with={})


def _number_of(record: Record) -> Record:
    """A record of the sweep: one number for each metric, as its charts show no class or bin."""
    numbers: dict[str, Any] = {
        name: value for name, value in record.metrics.items() if isinstance(value, float)
    }
    return dataclasses.replace(_shown(record), metrics=numbers, history=[])
