"""What commands print: results on stdout, as tables or JSON; everything else on stderr."""

import json
import re
import shlex
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:  # every command imports this module: heavy imports are inside functions
    from dessl.evaluation.verdict import Comparison
    from dessl.results.averages import Average
    from dessl.results.facts import Estimate, RunFacts
    from dessl.teachers import PoolReport

SHOWN = 0.0005  # a difference that shows when accuracies are printed
POOL_HEADINGS = ("member", "weight", "cross-entropy alone", "unlabelled rows")


# Characters in names from files that a terminal may interpret as a command.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def visible(text: str) -> str:
    r"""Return a text without characters that a terminal may interpret as a command.

    >>> visible("\x1b]0;title\x07 é")
    '�]0;title� é'
    """
    return CONTROL.sub("\ufffd", text)


class PlainConsole(Console):
    """A console that shows names from files literally: no markup, no control characters."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """Turn what is printed, a line or a table cell, into plain text."""
        return super().render_str(visible(text), **options)


def say(text: str, *, style: str | None = None) -> None:
    """Print a line on stderr."""
    PlainConsole(stderr=True).print(text, style=style, soft_wrap=True)


def show(text: str) -> None:
    """Print a line on stdout."""
    PlainConsole().print(text, soft_wrap=True)


def show_json(entries: Any) -> None:
    """Print JSON on stdout."""
    typer.echo(json.dumps(entries, allow_nan=False))


@contextmanager
def noted_warnings() -> Iterator[list[str]]:
    """Collect warnings, drop repetitions, and print them at the end if nothing failed."""
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


def show_facts(facts: "RunFacts") -> None:
    """Print the methods' metrics and their differences, intervals first, then the verdict."""
    from dessl.report.decision import (
        ADVICE,
        accuracy_of,
        baseline,
        has_differences,
        why,
    )

    console = PlainConsole()
    console.print(_estimates_table(facts) if facts.estimates else _metrics_table(facts))
    if has_differences(facts):
        other = baseline(facts) if facts.taught else facts.comparisons[0].against
        console.print(_comparison_table(facts.comparisons, other))
    if facts.pool:
        console.print(_pool_table(facts.pool))
    for line in facts.taught.about_teachers if facts.taught else ():
        show(line)
    show(why(facts))
    if facts.model and (found := accuracy_of(facts)):
        show(_expected(facts, facts.model.method, found))
    if facts.verdict.outcome == "no verdict":
        show(f"{ADVICE['no verdict']}.")


def _expected(facts: "RunFacts", method: str, found: "Estimate") -> str:
    """The accuracy to expect of the saved model, and how many rows it predicted correctly."""
    from dessl.evaluation.metrics.vocabulary import interval_text
    from dessl.report.decision import evaluation_rows, guessing, without_answers
    from dessl.results.taught import averaging
    from dessl.teachers.taught_report import ADJUSTED

    (share,) = facts.values(method, "accuracy")
    low, high = interval_text("accuracy", found.low, found.high)
    n, whose = facts.data.test, evaluation_rows(facts)
    right = f"{round(share * n)} of {n} {whose} correct"
    level = f"{100 * found.confidence:g} % interval"
    if facts.taught:
        right = f"out of fold {right}"
        level += f", {ADJUSTED}" if averaging(facts.taught, method) else ""
    elif found.n_unlabelled and abs(found.value - share) > SHOWN:
        right += "; adjusted by the unlabelled ones"
    expected = f"{low} to {high} % ({level}; {right}){without_answers(facts)}."
    return f"Expected accuracy: {expected} {guessing(facts)}".rstrip()


def show_run(out: Path, facts: "RunFacts", *, as_json: bool) -> None:
    """Show the results of a finished run of ``dessl fit``, and the next command."""
    from dessl.results.facts import MODEL, REPORT

    if as_json:
        show_json(facts.as_dict())
        return
    show_facts(facts)
    if facts.audit:
        show(f"Audit:  {facts.audit.sentence}")
    show(f"Model:  {out / MODEL}{_trained(facts)}")
    show(f"Report: {out / REPORT}")
    if facts.verdict.outcome != "no verdict":
        show(f"Next:   dessl predict {shlex.quote(str(out))} DATA --out predictions.csv")


def _trained(facts: "RunFacts") -> str:
    """The labels that the model was trained on; with teachers, all of them."""
    if facts.taught:
        return ""
    before = facts.data.labelled + facts.data.validation
    if facts.model and facts.model.refitted:
        return (
            f" (retrained on all {facts.model.labels:,} labels; the numbers above are for the "
            f"model trained on {before:,})"
        )
    return f" (trained on {before:,} labels)"


def _estimates_table(facts: "RunFacts") -> Table:
    from dessl.evaluation.metrics.vocabulary import digits_text, interval_digits, metric_text
    from dessl.evaluation.verdict import of_groups

    first = facts.estimates[0]
    title = f"{facts.data.name}: {100 * first.confidence:g} % intervals (and estimates),"
    labels = "held-out labels" if facts.taught is None else "gold labels, out of fold"
    of = of_groups(first.n_groups)
    table = Table(title=Text(visible(f"{title} {facts.data.test} {labels}{of}")))
    table.add_column("method")
    metrics = list(dict.fromkeys(one.metric for one in facts.estimates))
    for metric in metrics:
        table.add_column(metric_text(metric), justify="right")
    found = {(one.method, one.metric): one for one in facts.estimates}
    for method in facts.methods:
        cells = []
        for metric in metrics:
            one = found[method.name, metric]
            digits = interval_digits(metric, one.low, one.high)
            low, high, value = (
                digits_text(metric, number, digits) for number in (one.low, one.high, one.value)
            )
            cells.append(f"{low} to {high} ({value})")
        table.add_row(method.name, *cells)
    return table


def _metrics_table(facts: "RunFacts") -> Table:
    from dessl.evaluation.metrics.vocabulary import MAIN, metric_text

    rows = f"{facts.data.test} labelled test rows"
    seeds = len(facts.seeds)
    over = f"mean ± 95 % half-width over {seeds} seeds" if seeds > 1 else "one seed"
    table = Table(title=Text(visible(f"{facts.data.name}: {over}, {rows}")))
    table.add_column("method")
    for metric in MAIN:
        table.add_column(metric_text(metric), justify="right")
    for method in facts.methods:
        cells = [_cell(metric, facts.average(method.name, metric)) for metric in MAIN]
        table.add_row(method.name, *cells)
    return table


def _cell(metric: str, found: "Average") -> str:
    from dessl.evaluation.metrics.vocabulary import written

    spread = "" if found.half_width is None else f" ± {written(metric, found.half_width)}"
    return written(metric, found.mean) + spread


def _comparison_table(comparisons: "tuple[Comparison, ...]", other: str) -> Table:
    from dessl.evaluation.metrics.vocabulary import digits_text, interval_digits, metric_text
    from dessl.evaluation.verdict import of_groups, short_p

    first = comparisons[0]
    of = of_groups(first.n_groups)
    table = Table(title=f"Against {other} ({first.test}, n = {first.n}{of})")
    for heading in ("method", "metric", f"{100 * first.confidence:g} % interval", "estimate", "p"):
        table.add_column(heading, justify="left" if heading in ("method", "metric") else "right")
    for one in comparisons:
        digits = interval_digits(one.metric, one.low, one.high, 0.0)
        low, high, estimate = (
            digits_text(one.metric, value, digits, signed=True)
            for value in (one.low, one.high, one.difference)
        )
        cells = (f"{low} to {high}", estimate, short_p(one.p_value))
        table.add_row(one.method, metric_text(one.metric), *cells)
    return table


def _pool_table(pool: "PoolReport") -> Table:
    from dessl.evaluation.verdict import of_groups

    of = of_groups(pool.n_groups)
    table = Table(title=f"Pool, evaluated on {pool.n} held-out labels{of}")
    for heading in POOL_HEADINGS:
        table.add_column(heading, justify="left" if heading == "member" else "right")
    for member in pool.members:
        uses = "used" if member.uses_unlabelled else ""
        table.add_row(member.shown_name, f"{member.weight:.2f}", f"{member.score:.3f}", uses)
    return table
