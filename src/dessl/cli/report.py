"""``dessl report``: the HTML report again, from the facts of one run or of several."""

from pathlib import Path
from typing import Annotated

import typer

from dessl.cli.options import AsJson
from dessl.cli.output import show, show_json
from dessl.report.folder import REPORT, read_facts
from dessl.report.page import write_report


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs.")],
    out: Annotated[
        Path | None,
        typer.Option(help="The HTML file; if not given, RUN/report.html."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the HTML report of one run, or of several side by side.

    Example: dessl report runs/people

    Example: dessl report runs/a runs/b --out both.html
    """
    if out is None and len(runs) > 1:
        raise ValueError(
            "the report of several runs belongs to none of their folders. Say where to write it: "
            "--out FILE.html."
        )
    facts = [read_facts(run) for run in runs]
    place = out or runs[0] / REPORT
    write_report(place, facts)
    if as_json:
        show_json({"report": str(place), "verdicts": [one.verdict.sentence for one in facts]})
        return
    for one in facts:
        show(f"{one.title} {one.verdict.sentence}")
    show(f"Report: {place}")
