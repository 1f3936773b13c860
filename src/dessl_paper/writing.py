"""Writes the tables, report, figures and summary of a folder of results."""

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from dessl._files import write_whole
from dessl._json import finite
from dessl.report.chart import page_svg
from dessl.report.html import Markup, element, section
from dessl.report.html import table as html_table
from dessl.report.page import shown_from, whole_page
from dessl.report.tables import Table, latex_fragment, markdown_list, markdown_table, markdown_text
from dessl.results.averages import average, values_of
from dessl.results.record import RUNS
from dessl_paper.comparison import Comparison
from dessl_paper.findings import HEADINGS, POINTS, RELATIVE, Finding, Outcome, counted
from dessl_paper.kinds import kind_of
from dessl_paper.made_with import foot_lines, repeats_note
from dessl_paper.results import EXPERIMENT, Block, Results, block_of, diverged, read_results
from dessl_paper.targets import printed
from dessl_paper.wording import data_title, lambda_text, listed, plain, title

SUMMARY = "summary.json"
CLAIMED: dict[Outcome, tuple[str, str, str]] = {  # sign, word and tone
    "agrees": ("✓", "agrees", "good"),
    "direction": ("≈", "direction only", "open"),
    "differs": ("✗", "does not agree", "bad"),
    "open": ("?", "inconclusive", "open"),
}
SMOKE = "This is a smoke run: it checks that everything works; its numbers mean nothing."


def is_reproduction(folder: Path) -> bool:
    """Whether a folder was written by ``dessl reproduce``."""
    return (folder / EXPERIMENT).is_file()


def reproduction_findings(folder: Path) -> list[Finding]:
    """What agrees with the paper in a folder of results, and what does not."""
    results = read_results(folder)
    with _shown(folder):
        return findings_of(results)


def write_reproduction(folder: Path) -> list[Path]:
    """Write tables, report and figures into a folder of results; return the files.

    Raises:
        DataError: The folder is not that of an experiment, has no finished run, or is damaged.
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
    kind = kind_of(results.experiment)
    tables, findings, figures = kind.tables(results), findings_of(results), kind.figures(results)
    notes = [repeats_note(results, kind.REPEATS), *foot_lines(results)]
    facts = summary_entries(results, findings)
    yield "table.md", _markdown(results, tables, findings, list(figures), notes)
    sentences = [summary(results, findings), *(one.text for one in findings)]
    yield "table.tex", latex_fragment(title(results), tables, sentences, notes)
    yield SUMMARY, json.dumps(facts, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    for name, pictures in figures.items():
        for ending in ("png", "svg"):
            yield f"{name}.{ending}", pictures[ending]
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


def findings_of(results: Results) -> list[Finding]:
    """What agrees with the paper and what does not, diverged runs, and infinite numbers."""
    own = kind_of(results.experiment).findings(results)
    return [*own, *_divergences(results), *_infinities(results)]


def summary(results: Results, findings: Sequence[Finding]) -> str:
    """One sentence on all findings, after a warning for a smoke run, and data sets without runs."""
    warned = SMOKE if results.experiment.profile == "smoke" else ""
    return " ".join(part for part in (warned, counted(findings), _not_run(results)) if part)


def _not_run(results: Results) -> str:
    """Which data sets of the experiment have no run yet; empty if all have."""
    missing = [
        f"{data.name} with {data.labels:,} labels"
        for data in results.experiment.data
        if Block(data.name, data.labels) not in results.blocks
    ]
    return f"Not run: {listed(missing)}." if missing else ""


def _divergences(results: Results) -> list[Finding]:
    dead = [record for record in results.records if diverged(record)]
    if not dead:
        return []
    runs = sorted(
        f"{_data_prefix(results, block_of(r))}{r.title} at λ = {lambda_text(r.lam)}, split {r.seed}"
        for r in dead
    )
    return [Finding("fact", f"Diverged, and excluded from every mean: {listed(runs)}.")]


def _infinities(results: Results) -> list[Finding]:
    runs = [
        f"{_data_prefix(results, block)}{plain(metric)} of {name} at λ = {lambda_text(lam)} "
        f"({count} of {len(values)} splits)"
        for block in results.blocks
        for method, name in results.methods.items()
        for lam in results.lams(method)
        for metric in results.metrics
        if (values := values_of(results.runs(block, method, lam), metric))
        and (count := sum(map(math.isinf, values)))
    ]
    if not runs:
        return []
    text = f"Infinite, so there is no interval, difference or p-value: {listed(runs)}."
    return [Finding("fact", text)]


def _data_prefix(results: Results, block: Block) -> str:
    return f"{data_title(results, block)}: " if len(results.blocks) > 1 else ""


def summary_entries(results: Results, findings: Sequence[Finding]) -> dict[str, Any]:
    """Means by data set, method, λ and metric, the comparisons, and the findings."""
    kind = kind_of(results.experiment)
    return {
        "experiment": results.experiment.name,
        "profile": results.experiment.profile,
        "summary": summary(results, findings),
        "findings": [dataclasses.asdict(one) for one in findings],
        "means": [one for block in results.blocks for one in _means(results, block)],
        "comparisons": [
            finite(block._asdict() | _compared(one))
            for block in results.blocks
            for one in kind.comparisons(results, block)
        ],
    }


COMPARED = (
    "metric", "method", "against", "lam", "n", "difference", "low", "high", "p_better", "p_worse",
    "p_two_sided", "p_wilcoxon", "holm_better", "holm_worse", "paper",
)  # fmt: skip


def _compared(one: Comparison) -> dict[str, Any]:
    """A comparison's numbers by their names in a summary."""
    entries = dataclasses.asdict(one) | {"p_two_sided": one.p_value}
    return {name: entries[name] for name in COMPARED}


def _means(results: Results, block: Block) -> list[dict[str, Any]]:
    found = []
    for method, name in results.methods.items():
        for lam in results.lams(method):
            runs = results.runs(block, method, lam)
            for metric in results.metrics:
                ours = average(values_of(runs, metric))
                given = printed(results, block, method, metric, lam)
                entries = block._asdict() | {"method": method, "title": name, "lam": lam}
                entries["metric"] = metric
                entries |= dataclasses.asdict(ours)
                entries |= {"paper": given.mean, "paper_half_width": given.half_width}
                found += [finite(entries)] if ours.n else []
    return found


def reproduction_html(
    results: Results,
    tables: Sequence[Table],
    findings: Sequence[Finding],
    figures: Mapping[str, Mapping[str, bytes]],
    notes: Sequence[str],
    facts: Mapping[str, Any],
) -> str:
    """Return the page; the same records give the same page.

    Args:
        results: The experiment.
        tables: Tables to show.
        findings: Findings to list.
        figures: Figures by name; ``"page"`` is the input of :func:`dessl.report.chart.page_svg`.
        notes: Lines at the foot of the page.
        facts: The numbers, for programs.
    """
    name = title(results)
    body = element(
        "main",
        element(
            "div",
            element("p", summary(results, findings), class_="sentence"),
            class_="verdict cannot-tell-yet",
        ),
        _claims(findings),
        section("Figures", [_picture(name, key, files) for key, files in figures.items()])
        if figures
        else None,
        section("Tables", [_table(table) for table in tables]),
        _list(findings, "fact", HEADINGS["fact"]),
        section("How it was made", [element("p", line, class_="note") for line in notes]),
    )
    return whole_page(name, body, facts=facts)


def _claims(findings: Sequence[Finding]) -> Markup | None:
    """A row for each compared claim: the outcome, then the sentence."""
    rows = [
        (
            element("span", f"{sign} {word}", class_=f"claimed {tone}"),
            element("td", one.text, class_="prose"),
        )
        for outcome, (sign, word, tone) in CLAIMED.items()
        for one in findings
        if one.outcome == outcome
    ]
    if not rows:
        return None
    note = (
        "Agrees: the 95 % interval of the difference from the paper's number lies within the "
        f"margin ({100 * POINTS:g} point for shares, {100 * RELATIVE:g} % of the paper's number "
        "otherwise). Direction only: a difference between methods is significant and has the "
        "paper's sign, but its size does not agree. Does not agree: the interval, widened for the "
        "number of cells, excludes zero, or a difference is significant and has the opposite sign. "
        "Everything else is inconclusive."
    )
    return section(
        "Claims",
        html_table(("outcome", "claim"), rows, label="Claims of the paper", class_="facts claims"),
        element("p", note, class_="note"),
    )


def _list(findings: Sequence[Finding], outcome: str, heading: str) -> Markup | None:
    items = [element("li", one.text) for one in findings if one.outcome == outcome]
    return section(heading, element("ul", items)) if items else None


def _picture(name: str, key: str, files: Mapping[str, bytes]) -> Markup:
    drawn = page_svg(files["page"], f"{name}: {key}", "The tables have its numbers.", clipped=True)
    link = element("a", "As a file", href=f"{key}.svg", class_="note")
    return element("figure", element("div", drawn, class_="picture wide", tabindex=0), link)


def _table(table: Table) -> Markup:
    return Markup(
        element("h4", table.caption)
        + html_table(table.headings, table.rows, label=table.caption, class_="numbers")
    )
