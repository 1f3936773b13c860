"""The report: one HTML file that needs nothing but a browser, from the facts of one run or more."""

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from dessl._files import write_whole
from dessl.report.facts import RunFacts
from dessl.report.figure import table
from dessl.report.html import Markup, element, named
from dessl.report.sections.learning_curves import learning_curves_section
from dessl.report.sections.metrics import metrics_section
from dessl.report.sections.per_class import per_class_section
from dessl.report.sections.reliability import reliability_section
from dessl.report.sections.repeat import repeat_section
from dessl.report.sections.sweep import sweep_section
from dessl.report.sections.verdict import differences, verdict

# The page may load nothing and run nothing, even if a text were ever not escaped.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def write_report(path: str | Path, facts: RunFacts | Sequence[RunFacts]) -> None:
    """Write the report of one run, or of several on one page.

    Args:
        path: The HTML file to write, whole or not at all.
        facts: What the runs found.
    """
    write_whole(Path(path), report_html([facts] if isinstance(facts, RunFacts) else facts))


def report_html(runs: Sequence[RunFacts]) -> str:
    """Return the page; the same facts give the same page.

    Raises:
        ValueError: There is no run.
    """
    if not runs:
        raise ValueError("a report needs one run at least; got none. Give the folder of a run.")
    title = runs[0].title if len(runs) == 1 else f"{len(runs)} runs, side by side"
    body = element(
        "main",
        _overview(runs) if len(runs) > 1 else None,
        [_run(facts, number, alone=len(runs) == 1) for number, facts in enumerate(runs)],
    )
    return whole_page(title, body, facts=[facts.as_dict() for facts in runs])


def whole_page(title: str, main: Markup, *, facts: object) -> str:
    """Return a page around its main part, with the facts that it was made from as JSON.

    Args:
        title: Of the page.
        main: The ``main`` element.
        facts: Anything that JSON takes.
    """
    style = resources.files("dessl.report").joinpath("page.css").read_text(encoding="utf-8")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="color-scheme", content="light dark"),
        element("link", rel="icon", href="data:,"),
        element("title", title),
        element("style", Markup(style)),
    )
    body = element(
        "body",
        element("header", element("h1", title, dir="auto")),
        main,
        element("footer", "Made by dessl. The facts of this page are embedded in it as JSON."),
        embedded_json(facts),
    )
    return "<!doctype html>\n" + element("html", head, "\n", body, lang="en") + "\n"


def embedded_json(value: object) -> Markup:
    r"""A script element with data that no browser runs.

    Nothing in it can end the element: < > & are written as JSON's escapes of themselves.

    >>> embedded_json("</script>")
    '<script type="application/json" id="facts">"\\u003c/script\\u003e"</script>'
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return element("script", Markup(text), type="application/json", id="facts")


def _run(facts: RunFacts, number: int, *, alone: bool) -> Markup:
    data = facts.data
    about = f": {data.labelled:,} labelled and {data.unlabelled:,} unlabelled rows."
    return element(
        "article",
        element("h2", facts.title, dir="auto", class_="unseen" if alone else None),
        verdict(facts),
        element("p", named(data.name), about, class_="note"),
        differences(facts),
        metrics_section(facts),
        reliability_section(facts),
        per_class_section(facts),
        sweep_section(facts),
        learning_curves_section(facts),
        repeat_section(facts),
        id=f"run-{number + 1}",
    )


def _overview(runs: Sequence[RunFacts]) -> Markup:
    rows = (
        (
            element("a", facts.title, href=f"#run-{number + 1}", dir="auto"),
            element("strong", facts.verdict.outcome),
            element("td", element("span", facts.verdict.sentence, dir="auto"), class_="prose"),
        )
        for number, facts in enumerate(runs)
    )
    return table(("run", "unlabelled data", "verdict"), rows, label="The runs", class_="facts")
