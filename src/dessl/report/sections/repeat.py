"""What it takes to repeat a run: data, methods, settings, versions, and what was warned of."""

import json
from typing import Any

from dessl.report.facts import RunFacts
from dessl.report.figure import section, table
from dessl.report.html import Child, Markup, element, named
from dessl.report.plot import shortened


def repeat_section(facts: RunFacts) -> Markup:
    """The command, then everything that it depended on."""
    return section(
        "To repeat it",
        element("pre", element("code", facts.command), tabindex=0) if facts.command else None,
        _warnings(facts),
        element("h4", "Data"),
        table(("data", "is"), _data_rows(facts), label="The data", class_="facts"),
        element("h4", "Methods"),
        table(
            ("method", "surrogate", "risk", "λ"),
            (
                (named(m.name), named(m.surrogate), m.risk.replace("_", " "), f"{m.lam:g}")
                for m in facts.methods
            ),
            label="The methods",
        ),
        element(
            "details",
            element("summary", "Settings"),
            _entries("setting", facts.settings),
            class_="settings",
        ),
        element("h4", "Made with"),
        _entries("made with", facts.made_with | {"seconds": round(facts.seconds, 1)}),
    )


def _warnings(facts: RunFacts) -> Markup | None:
    if not facts.warnings:
        return None
    items = (element("li", line, dir="auto") for line in facts.warnings)
    return element("div", element("h4", "Warnings"), element("ul", items), class_="warnings")


def _data_rows(facts: RunFacts) -> list[tuple[Child, ...]]:
    data = facts.data
    rows: list[tuple[Child, ...]] = [
        ("name", named(data.name)),
        ("training rows", f"{data.labelled:,} labelled, {data.unlabelled:,} unlabelled"),
        ("validation rows", f"{data.validation:,}"),
        ("test rows", f"{data.test:,} labelled, {data.test_unlabelled:,} unlabelled"),
        ("a row", " × ".join(str(size) for size in data.shape)),
        (f"{len(data.class_names)} classes", _listed(data.class_names)),
    ]
    if data.feature_names:
        rows.append((f"{len(data.feature_names)} features", _listed(data.feature_names)))
    rows += [(["left out: ", named(name)], named(why)) for name, why in data.left_out.items()]
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
    return json.dumps(value, ensure_ascii=False, default=str)
