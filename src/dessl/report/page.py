"""The report: one HTML file that needs only a browser, from the facts of one run or more."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from dessl._files import write_whole
from dessl.data import DataError
from dessl.evaluation.metrics.vocabulary import NONE
from dessl.report.audit import audit_article, audit_section
from dessl.report.calibration import calibration_section
from dessl.report.chart import IN_PAGE, SETTINGS, drawing
from dessl.report.classes import classes_section
from dessl.report.curves import learning_section
from dessl.report.decision import advice, decision
from dessl.report.html import Child, Markup, element, named, section, shortened, table
from dessl.report.pool import USES, pool_section, taught_section
from dessl.report.scores import differences, metrics_section
from dessl.results.facts import RunFacts
from dessl.results.taught import WITHOUT
from dessl.safety import Audit

# The page may not load or run anything, even if a text were left unescaped by mistake.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def write_report(
    path: str | Path, facts: RunFacts | Sequence[RunFacts], *, names: Sequence[str] = ()
) -> None:
    """Write the report of one run, or of several on one page.

    Args:
        path: HTML file to write (atomically).
        facts: Facts of the runs.
        names: Names of the runs, such as their folders.
    """
    runs = [facts] if isinstance(facts, RunFacts) else facts
    write_whole(Path(path), report_html(runs, names=names))


def report_html(runs: Sequence[RunFacts], *, names: Sequence[str] = ()) -> str:
    """Return the page; the same facts give the same page.

    Args:
        runs: Facts of the runs.
        names: Names of the runs; numbers by default.

    Raises:
        ValueError: There is no run, or not one name per run.
    """
    if not runs:
        raise ValueError("a report needs at least one run; got none. Pass the folder of a run.")
    names = names or [f"run {number}" for number in range(1, len(runs) + 1)]
    if len(names) != len(runs):
        raise ValueError(f"names must have one entry for each of the {len(runs)} runs; got {names}")
    alone = len(runs) == 1
    title = runs[0].title if alone else f"{len(runs)} runs, side by side"
    with drawing(SETTINGS | IN_PAGE):
        shown = [
            _run(facts, number, facts.title if alone else f"{name}: {facts.title}", alone=alone)
            for number, (facts, name) in enumerate(zip(runs, names, strict=True))
        ]
    body = element("main", None if alone else side_by_side(runs, names), shown)
    return whole_page(title, body, facts=[facts.as_dict() for facts in runs])


def write_audit(path: str | Path, found: Audit) -> None:
    """Write an audit as an HTML page (atomically).

    Args:
        path: HTML file to write.
        found: Result of :func:`dessl.safety.audit`.
    """
    title = f"Audit of {found.name or 'the data'}"
    page = whole_page(title, element("main", audit_article(found)), facts=found.as_dict())
    write_whole(Path(path), page)


@contextmanager
def shown_from(*paths: Path) -> Iterator[None]:
    """Name the damaged files if a report cannot be made from them.

    Entries are checked when they are read; this covers those that only fail when used.

    Raises:
        DataError: Raised instead of the original error.
    """
    try:
        yield
    except DataError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise DataError.of(
            " or ".join(map(str, paths)),
            expected="a file written by dessl",
            got=f"entries that cannot be shown ({type(error).__name__}: {error})",
            do="The file is damaged. Run the command that wrote it again.",
        ) from error


def whole_page(title: str, main: Markup, *, facts: object) -> str:
    """Return a whole page from its main part, with its facts embedded as JSON.

    Args:
        title: Title of the page.
        main: The ``main`` element.
        facts: Facts to embed: anything that JSON can represent.
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
        element("footer", "Made by dessl. The facts on this page are embedded as JSON."),
        embedded_json(facts),
    )
    return "<!doctype html>\n" + element("html", head, "\n", body, lang="en") + "\n"


def embedded_json(value: object) -> Markup:
    r"""A script element with data, which browsers do not run.

    Nothing in the data can close the element: < > & are written as JSON escapes.

    >>> embedded_json("</script>")
    '<script type="application/json" id="facts">"\\u003c/script\\u003e"</script>'
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return element("script", Markup(text), type="application/json", id="facts")


def _run(facts: RunFacts, number: int, title: str, *, alone: bool) -> Markup:
    data = facts.data
    about = f": {data.labelled:,} labelled and {data.unlabelled:,} unlabelled rows."
    return element(
        "article",
        element("h2", title, dir="auto", class_="unseen" if alone else None),
        decision(facts),
        element("p", named(data.name), about, class_="note"),
        differences(facts),
        metrics_section(facts),
        calibration_section(facts),
        classes_section(facts),
        pool_section(facts),
        taught_section(facts),
        learning_section(facts),
        audit_section(facts.audit),
        repeat_section(facts),
        id=f"run-{number + 1}",
    )


def side_by_side(runs: Sequence[RunFacts], names: Sequence[str]) -> Markup:
    """One column per run: what to do, its data, and the settings that differ."""
    columns = [
        element("a", named(name), href=f"#run-{number}") for number, name in enumerate(names, 1)
    ]
    rows: list[list[Child]] = [
        ["decision", *(element("strong", advice(facts)) for facts in runs)],
        ["verdict", *(element("span", facts.verdict.sentence, dir="auto") for facts in runs)],
        ["data", *(named(facts.data.name) for facts in runs)],
        ["training rows", *(_rows_text(facts) for facts in runs)],
        ["test rows", *(_test_rows(facts) for facts in runs)],
        ["command", *(element("code", facts.command, dir="auto") for facts in runs)],
    ]
    settings = [facts.settings for facts in runs]
    rows += [
        [named(name), *(named(_text(own[name]) if name in own else NONE) for own in settings)]
        for name in dict.fromkeys(name for own in settings for name in own)
        if any(own.get(name) != settings[0].get(name) for own in settings)
    ]
    note = "Only settings that differ are listed; all settings are in each run's section below."
    label = "The runs, side by side"
    return element(
        "section",
        table(["run", *columns], rows, label=label, class_="facts beside-runs"),
        element("p", note, class_="note"),
        id="runs",
    )


def _test_rows(facts: RunFacts) -> str:
    data = facts.data
    if facts.taught is None:
        return f"{data.test:,} labelled, {data.test_unlabelled:,} unlabelled"
    return f"the {data.test:,} labelled rows, out of fold; {data.test_unlabelled:,} unlabelled"


def _rows_text(facts: RunFacts) -> str:
    return f"{facts.data.labelled:,} labelled, {facts.data.unlabelled:,} unlabelled"


def repeat_section(facts: RunFacts) -> Markup:
    """The command, and everything it depended on."""
    warned = (element("li", line, dir="auto") for line in facts.warnings)
    return section(
        "How to reproduce this",
        element("pre", element("code", facts.command), tabindex=0) if facts.command else None,
        element("div", element("h4", "Warnings"), element("ul", warned), class_="warnings")
        if facts.warnings
        else None,
        element("h4", "Data"),
        table(("data", "value"), _data_rows(facts), label="The data", class_="facts"),
        element("h4", "Methods"),
        _methods(facts),
        element(
            "details",
            element("summary", "Settings"),
            _entries("setting", facts.settings),
            class_="settings",
        ),
        element("h4", "Made with"),
        _entries("made with", facts.made_with | {"seconds": round(facts.seconds, 1)}),
    )


def _methods(facts: RunFacts) -> Markup:
    if facts.taught is not None:
        headings: tuple[str, ...] = ("method", "uses")
        rows = [(named(m.name), USES.get(m.name, USES[WITHOUT])) for m in facts.methods]
        return table(headings, rows, label="The methods")
    headings = ("method", "surrogate", "risk", "λ")
    every = (
        (named(m.name), named(m.surrogate), m.risk.replace("_", " "), f"{m.lam:g}")
        for m in facts.methods
    )
    return table(headings, every, label="The methods")


def _data_rows(facts: RunFacts) -> list[tuple[Child, ...]]:
    data = facts.data
    rows: list[tuple[Child, ...]] = [
        ("name", named(data.name)),
        ("training rows", _rows_text(facts)),
        ("validation rows", f"{data.validation:,}"),
        ("test rows", _test_rows(facts)),
        ("shape of a row", " × ".join(str(size) for size in data.shape)),
        (f"{len(data.class_names)} classes", _listed(data.class_names)),
    ]
    if data.feature_names:
        rows.append((f"{len(data.feature_names)} features", _listed(data.feature_names)))
    rows += [(["dropped: ", named(name)], named(why)) for name, why in data.left_out.items()]
    return rows


def _listed(names: tuple[str, ...], most: int = 30) -> list[Child]:
    parts: list[Child] = []
    for name in names[:most]:
        parts += [", " if parts else None, named(shortened(name, 60))]
    if len(names) > most:
        parts.append(f" and {len(names) - most:,} more")
    return parts


def _entries(heading: str, entries: dict[str, Any]) -> Markup:
    rows = ((named(name), named(_text(value))) for name, value in entries.items())
    return table((heading, "value"), rows, label=heading, class_="facts")


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and all(isinstance(one, list) for one in value.values()):
        own = {name: "" if names == [name] else f" ({', '.join(map(_text, names))})"
               for name, names in value.items()}  # fmt: skip
        return ", ".join(f"{name}{names}" for name, names in own.items())
    return json.dumps(value, ensure_ascii=False, default=str)
