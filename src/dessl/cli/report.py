"""``dessl report``: rebuild the page, tables and figures from the files of finished runs."""

from pathlib import Path
from typing import Annotated

import typer

from dessl.cli.options import AsJson
from dessl.cli.output import show, show_json


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Write to this HTML file. Default: RUN/report.html."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the report of one run, or compare several side by side.

    For a folder from dessl reproduce, write tables (Markdown, LaTeX, HTML) and figures (PNG, SVG)
    with the paper's numbers next to ours.

    Example: dessl report runs/people

    Example: dessl report runs/a runs/b --out both.html

    Example: dessl report results/mnist
    """
    from dessl.cli.fit_folder import check_not_unfinished
    from dessl.report.decision import advice
    from dessl.report.page import shown_from, write_report
    from dessl.results.facts import FACTS, REPORT, read_facts
    from dessl_paper.demo import is_demo
    from dessl_paper.writing import is_reproduction

    if any(map(is_reproduction, runs)):
        _report_reproductions(runs, out, as_json=as_json)
        return
    if any(map(is_demo, runs)):
        _report_demo(runs, out, as_json=as_json)
        return
    if out is None and len(runs) > 1:
        raise ValueError("comparing several runs needs an output file. Pass --out FILE.html.")
    for run in runs:
        if not (run / FACTS).exists():
            check_not_unfinished(run)
    facts = [read_facts(run) for run in runs]
    place = out or runs[0] / REPORT
    with shown_from(*(run / FACTS for run in runs)):
        write_report(place, facts, names=[str(run) for run in runs])
    if as_json:
        show_json({"report": str(place), "verdicts": [one.verdict.sentence for one in facts]})
        return
    for run, one in zip(runs, facts, strict=True):
        show(f"{run}: {advice(one)} {one.verdict.sentence}")
    show(f"Report: {place}")


def _report_demo(folders: list[Path], out: Path | None, *, as_json: bool) -> None:
    if len(folders) > 1 or out is not None:
        raise ValueError(
            "the report of a folder from dessl demo is always its own report.html. Pass that "
            "folder alone, without --out."
        )
    from dessl.report.page import shown_from
    from dessl_paper.demo import DEMO, read_demo, show_demo, write_demo

    (folder,) = folders
    facts = read_demo(folder)
    with shown_from(folder / DEMO):
        place = write_demo(folder, facts)
    if as_json:
        show_json({"report": str(place)})
        return
    show_demo(facts, folder)


def _report_reproductions(folders: list[Path], out: Path | None, *, as_json: bool) -> None:
    from dessl_paper.command import written_report
    from dessl_paper.writing import is_reproduction

    other = [str(folder) for folder in folders if not is_reproduction(folder)]
    if other:
        raise ValueError(
            "folders from dessl reproduce cannot be combined with runs of dessl fit or dessl "
            f"demo; got both, also {', '.join(other)}. Report them separately."
        )
    if out is not None:
        raise ValueError(
            "the report of a reproduction is several files in its own folder; got --out "
            f"{out}. Omit --out, and copy the files you want."
        )
    reports = []
    for folder in folders:
        files, found = written_report(folder)
        sentence = found["summary"]
        reports.append(
            {"folder": str(folder), "summary": sentence, "files": [str(f) for f in files]}
        )
        if not as_json:
            show(f"{found['experiment']}: {sentence}")
            for one in found["findings"]:
                show(f"  {one['outcome']}: {one['text']}")
            for path in files:
                show(f"Written: {path}")
    if as_json:
        show_json(reports)
