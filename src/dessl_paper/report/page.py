"""The page of a reproduction: one HTML file with its figures inside."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from dessl.report.html import Markup, element, section
from dessl.report.html import table as html_table
from dessl.report.page import whole_page
from dessl.report.tables import Table
from dessl_paper.report.findings.all import summary
from dessl_paper.report.findings.finding import HEADINGS, Finding
from dessl_paper.report.results import Results
from dessl_paper.report.titles import title


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
        tables: To show.
        findings: To say.
        figures: SVG by name, under ``"svg"``.
        notes: Lines at the foot.
        facts: The numbers behind it, for programs.
    """
    name = title(results)
    body = element(
        "main",
        element(
            "div",
            element("p", summary(results, findings), class_="sentence"),
            class_="verdict cannot-tell",
        ),
        [_list(findings, outcome, text) for outcome, text in HEADINGS.items()],
        section("Figures", [_picture(name, key, files) for key, files in figures.items()])
        if figures
        else None,
        section("Tables", [_table(table) for table in tables]),
        section("How it was made", [element("p", line, class_="note") for line in notes]),
    )
    return whole_page(name, body, facts=facts)


def _list(findings: Sequence[Finding], outcome: str, heading: str) -> Markup | None:
    said = [element("li", one.text) for one in findings if one.outcome == outcome]
    return section(heading, element("ul", said)) if said else None


def _picture(name: str, key: str, files: Mapping[str, bytes]) -> Markup:
    data = base64.b64encode(files["svg"]).decode()
    image = element(
        "img", src=f"data:image/svg+xml;base64,{data}", alt=f"{name}: {key}", class_="picture"
    )
    return element("figure", element("a", image, href=f"{key}.svg"))


def _table(table: Table) -> Markup:
    return Markup(
        element("h4", table.caption)
        + html_table(table.headings, table.rows, label=table.caption, class_="numbers")
    )
