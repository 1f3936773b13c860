"""``dessl demo``: four small experiments in under a minute, and a page that shows them.

The settings are in ``experiments/demo.toml``; :mod:`dessl_paper.demo_parts` runs the experiments.

OUT/demo.json             the facts of all four parts
OUT/report.html           the page
OUT/digits/facts.json     the second part, as ``dessl fit`` writes it
OUT/digits/report.html    its report
"""

import dataclasses
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch

from dessl._entries import EntryError, read_as
from dessl._files import write_whole
from dessl._json import json_ready
from dessl.cli.errors import command, writable_folder
from dessl.cli.output import noted_warnings, say, show, show_json
from dessl.cli.stopping import saying
from dessl.recipes.recipe import DEFAULT_SURROGATE
from dessl.recipes.trial import Trial
from dessl.report.page import write_report
from dessl.results.facts import FACTS, REPORT, write_facts
from dessl.results.machine import machine_facts
from dessl.results.record import damaged, read_json
from dessl.results.trial import trial_facts
from dessl_paper.demo_page import demo_html, demo_lines
from dessl_paper.demo_parts import (
    DemoFacts,
    DemoPlan,
    bad_advice,
    demo_plan,
    gain,
    gained,
    harm,
    intervals,
)

DEMO = "demo.json"
FIT = "digits"  # folder of the second part
T = TypeVar("T")


def made_demo(out: Path, *, seed: int | None, steps: int | None, as_json: bool) -> None:
    """Run the four parts, write their facts and the page, and print their results."""
    _check_own(out)
    writable_folder(out)
    torch.set_num_threads(1)  # networks this small only wait for a second thread
    plan = demo_plan(seed=seed, most_steps=steps)
    with (
        saying("Interrupted: nothing was saved. Run the same command again."),
        noted_warnings() as notes,
    ):
        facts, trial = run_demo(plan)
        facts = dataclasses.replace(facts, command=command(), warnings=tuple(notes))
        # First the file that marks the folder as ours, so that a rerun after a kill may write here.
        write_whole(out / DEMO, json.dumps(_entries(facts), indent=1, ensure_ascii=False) + "\n")
        _write_fit(out / FIT, trial, facts)
        write_demo(out, facts)
    if as_json:
        show_json(_entries(facts))
        return
    show_demo(facts, out)


def _check_own(out: Path) -> None:
    """Reject a folder that has files of something else."""
    taken = [name for name in (FACTS, REPORT, FIT) if os.path.lexists(out / name)]
    if taken and not is_demo(out):
        raise FileExistsError(
            f"{out} contains {', '.join(taken)}, not written by dessl demo. Choose another folder."
        )


def run_demo(plan: DemoPlan) -> tuple[DemoFacts, Trial]:
    """Run the four parts; return their facts and the trial of the second."""
    seconds: dict[str, float] = {}
    worked: dict[str, float] = {}

    def timed(name: str, part: Callable[[], T]) -> T:
        say(f"{len(seconds) + 1} of 4: {name}")
        began, idle = time.perf_counter(), time.process_time()
        found = part()
        seconds[name] = round(time.perf_counter() - began, 2)
        worked[name] = round(time.process_time() - idle, 2)
        return found

    harmed = timed("harm avoided", lambda: harm(plan))
    trial = timed("gain made", lambda: gain(plan))
    advice = timed("bad advice ignored", lambda: bad_advice(plan, trial))
    found = timed("honest numbers", lambda: intervals(plan, trial))
    facts = DemoFacts(
        plan, harmed, gained(trial), advice, found, "", machine_facts(), seconds, worked
    )
    return facts, trial


def _write_fit(folder: Path, trial: Trial, facts: DemoFacts) -> None:
    """Write the second part as ``dessl fit`` does."""
    own = trial_facts(
        trial,
        surrogate=DEFAULT_SURROGATE,
        command=facts.command,
        seconds=facts.seconds["gain made"],
    )
    folder.mkdir(exist_ok=True)
    write_facts(folder, own)
    write_report(folder / REPORT, own)


def write_demo(folder: Path, facts: DemoFacts) -> Path:
    """Write the page of a demonstration; return its path."""
    place = folder / REPORT
    write_whole(place, demo_html(facts, fit_report=f"{FIT}/{REPORT}"))
    return place


def show_demo(facts: DemoFacts, folder: Path) -> None:
    """Print the result of each part, and where the page is."""
    for line in demo_lines(facts):
        show(line)
    if facts.plan.most_steps is not None:
        show(f"Limited to {facts.plan.most_steps} steps: these numbers mean nothing.")
    worked = sum(facts.processor_seconds.values())
    show(f"Took {sum(facts.seconds.values()):.0f} s ({worked:.0f} s of processor time).")
    show(f"Report: {folder / REPORT}")


def is_demo(folder: Path) -> bool:
    """Whether a folder was written by ``dessl demo``."""
    return (folder / DEMO).is_file()


def read_demo(folder: Path) -> DemoFacts:
    """Read the facts of a demonstration.

    Raises:
        DataError: They are damaged.
    """
    path = folder / DEMO
    try:
        return read_as(DemoFacts, read_json(path))
    except (EntryError, ValueError) as error:
        raise damaged(path, str(error)[:200], "a demonstration") from error


def _entries(facts: DemoFacts) -> Any:
    return json_ready(dataclasses.asdict(facts))
