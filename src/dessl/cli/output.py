"""What commands print: results on stdout, for eyes or as JSON; everything else on stderr."""

import json
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dessl.evaluation import mean_interval
from dessl.report.facts import Comparison, RunFacts
from dessl.report.measures import signed_text
from dessl.report.verdict import short_p

SHOWN = {
    "accuracy": "accuracy, %",
    "cross_entropy": "cross-entropy",
    "brier": "Brier",
    "ece": "ECE",
}


def say(text: str, *, style: str | None = None) -> None:
    """Print a line on stderr; nothing in it is taken for markup."""
    Console(stderr=True).print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def show(text: str) -> None:
    """Print a line on stdout; nothing in it is taken for markup."""
    Console().print(text, markup=False, highlight=False, soft_wrap=True)


def show_json(entries: Any) -> None:
    """Print JSON on stdout."""
    typer.echo(json.dumps(entries, allow_nan=False))


@contextmanager
def noted_warnings() -> Iterator[list[str]]:
    """Collect warnings as lines, each once, and say them at the end if all went well."""
    notes: list[str] = []

    def note(message: Warning | str, category: type[Warning], *_: object) -> None:
        line = " ".join(str(message).split())
        if issubclass(category, UserWarning) and line not in notes:
            notes.append(line)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = note  # type: ignore[assignment]
        yield notes
    for line in notes:
        say(f"Note: {line}", style="yellow")


def show_facts(facts: RunFacts) -> None:
    """Print the table of methods and metrics, the comparisons and the verdict."""
    console = Console()
    console.print(_metrics_table(facts))
    if facts.comparisons:
        console.print(_comparison_table(facts.comparisons))
    show(facts.verdict.sentence)


def _metrics_table(facts: RunFacts) -> Table:
    rows = f"{facts.data.test} labelled test rows"
    seeds = len(facts.seeds)
    over = f"mean ± half of the 95 % t-interval over {seeds} seeds" if seeds > 1 else "one seed"
    table = Table(title=Text(f"{facts.data.name}: {over}, {rows}"))
    table.add_column("method")
    for heading in SHOWN.values():
        table.add_column(heading, justify="right")
    for method in facts.methods:
        cells = [_cell(facts.values(method.name, metric), metric) for metric in SHOWN]
        table.add_row(method.name, *cells)
    return table


def _cell(values: list[float], metric: str) -> str:
    scale, digits = (100, 1) if metric == "accuracy" else (1, 3)
    if not values or not all(map(math.isfinite, values)):
        return "–"
    if len(values) == 1:
        return f"{scale * values[0]:.{digits}f}"
    interval = mean_interval(values)
    return f"{scale * interval.mean:.{digits}f} ± {scale * interval.half_width:.{digits}f}"


def _comparison_table(comparisons: tuple[Comparison, ...]) -> Table:
    first = comparisons[0]
    table = Table(title=f"Minus {first.against} ({first.test}, n = {first.n})")
    for heading in ("method", "metric", "difference", f"{first.confidence:.0%} interval", "p"):
        table.add_column(heading, justify="left" if heading in ("method", "metric") else "right")
    for one in comparisons:
        scale, digits = (100, 1) if one.metric == "accuracy" else (1, 3)
        low, high = (signed_text(scale * bound, digits) for bound in (one.low, one.high))
        table.add_row(
            one.method,
            SHOWN.get(one.metric, one.metric),
            signed_text(scale * one.difference, digits),
            f"{low} to {high}",
            short_p(one.p_value),
        )
    return table
