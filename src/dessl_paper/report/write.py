"""Everything that a folder of results is made into: tables, page and figures, beside the runs."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from dessl._files import write_whole
from dessl.report.page import shown_from
from dessl.report.tables import Table, latex_fragment, markdown_list, markdown_table, markdown_text
from dessl.results.record import RUNS
from dessl_paper.folder import EXPERIMENT
from dessl_paper.report.figures.all import figures_of
from dessl_paper.report.findings.all import findings_of, summary
from dessl_paper.report.findings.finding import HEADINGS, Finding
from dessl_paper.report.page import reproduction_html
from dessl_paper.report.results import Results, read_results
from dessl_paper.report.summary import summary_entries
from dessl_paper.report.tables.all import tables_of
from dessl_paper.report.titles import foot_lines, splits_note, title

SUMMARY = "summary.json"


def is_reproduction(folder: Path) -> bool:
    """Whether a folder was written by ``dessl reproduce``."""
    return (folder / EXPERIMENT).is_file()


def reproduction_findings(folder: Path) -> list[Finding]:
    """What agrees with the paper in a folder of results, and what does not."""
    results = read_results(folder)
    with _shown(folder):
        return findings_of(results)


def write_reproduction(folder: Path) -> list[Path]:
    """Write tables, page and figures into a folder of results; return the files.

    Raises:
        DataError: It is no folder of an experiment, holds no finished run, or is damaged.
    """
    results = read_results(folder)
    with _shown(folder):
        files = dict(_files(results))
    for name, content in files.items():
        write_whole(folder / name, content)
    return [folder / name for name in files]


def _shown(folder: Path) -> AbstractContextManager[None]:
    return shown_from(folder / EXPERIMENT, folder / RUNS)


def _files(results: Results) -> Iterator[tuple[str, bytes | str]]:
    tables, findings, figures = tables_of(results), findings_of(results), figures_of(results)
    notes, facts = [splits_note(results), *foot_lines(results)], summary_entries(results, findings)
    yield "table.md", _markdown(results, tables, findings, list(figures), notes)
    sentences = [summary(results, findings), *(one.text for one in findings)]
    yield "table.tex", latex_fragment(title(results), tables, sentences, notes)
    yield SUMMARY, json.dumps(facts, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    for name, pictures in figures.items():
        for ending, content in pictures.items():
            yield f"{name}.{ending}", content
    yield "report.html", reproduction_html(results, tables, findings, figures, notes, facts)


def _markdown(
    results: Results,
    tables: list[Table],
    findings: list[Finding],
    figures: list[str],
    notes: list[str],
) -> str:
    name = markdown_text(title(results))
    parts = [
        f"# {name}",
        summary(results, findings),
        *(
            markdown_list(text, [one.text for one in findings if one.outcome == outcome])
            for outcome, text in HEADINGS.items()
        ),
        "## Tables",
        *map(markdown_table, tables),
        *(["## Figures"] if figures else []),
        *(f"![{name}: {figure}]({figure}.png)" for figure in figures),
        "## How it was made",
        *notes,
    ]
    return "\n\n".join(part for part in parts if part) + "\n"
