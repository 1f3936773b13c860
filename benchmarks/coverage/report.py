"""The tables of benchmarks/coverage."""

import json
from typing import Any

from .settings import markdown_table, settings_table
from .verdict import DEFAULT, ENOUGH_LABELS, PEERS, Record, by_cell, near, verdict


def markdown(report: dict[str, Any]) -> str:
    """The whole page: machine, verdict, one table a metric and confidence, draws without error."""
    results = report["results"]
    accuracy = {r["population"]: r["truth"] for r in results if r["metric"] == "accuracy"}
    machine = ", ".join(f"{name} {value}" for name, value in report["machine"].items())
    error = max(r["coverage_error"] for r in results if r["interval"] == DEFAULT)
    lines = [
        "# Coverage of intervals from few labels",
        "",
        f"{replications(report)}, {report['unlabelled']} unlabelled rows, "
        f"{report['seconds']:.0f} s. {machine}.{report.get('note', '')}",
        "",
        "An entry is coverage in %, then mean width. Monte-Carlo standard error of coverage: at "
        f"most {100 * error:.2f} points for `{DEFAULT}`. Bold: within 1.5 points of nominal.",
        "",
        "The form of `score` and its constants (2 % surprise, λ in [0, 1], a bend where rows left "
        "out ask for it) were chosen among some eighty variants by simulation on the simulated "
        "(but for the timid ones), digits and MNIST populations. Its correction for skewness, the "
        "way its two bounds share their misses, and when accuracy's λ may pass 1 came later, "
        "chosen among some thirty variants with a look at all populations but those marked as held "
        "out. So did how many rows are imagined and what the variance has where no labelled row "
        "lies, among some fifty variants; and, last, what the bounds are taken about, whose "
        "quantile is Student's t and the bound of a sample of one kind, among some forty. Of the "
        "held-out ones this table was seen, that of one rejected variant, and that none of their "
        "cells was among those farthest off in a measurement before the last change.",
        "",
        *verdict(results, accuracy),
        "",
        f"## Over all {len(accuracy)} populations",
        "",
        "Mean coverage in %, in brackets that of the population farthest from nominal; then width "
        f"beside `{DEFAULT}`'s, the geometric mean of ratios.",
        "",
        *settings_table(results, DEFAULT, PEERS),
    ]
    for metric in ("accuracy", "brier"):
        for confidence in sorted({r["confidence"] for r in results}):
            chosen = [r for r in results if (r["metric"], r["confidence"]) == (metric, confidence)]
            lines += ["", f"## {metric}, nominal {100 * confidence:.0f} %", "", *table(chosen)]
    lines += ["", "## Draws in which every labelled row was right (accuracy)", ""]
    lines += all_right(results)
    return "\n".join(lines) + "\n"


def replications(report: dict[str, Any]) -> str:
    """How often each interval was drawn, and where the default's coverage was measured finely."""
    drawn: dict[bool, set[int]] = {True: set(), False: set()}
    for r in report["results"]:
        drawn[r["interval"] == DEFAULT].add(r["replications"])
    words = (
        f"{max(drawn[False])} replications a cell (our methods other than `{DEFAULT}`: "
        f"{min(drawn[False])})"
    )
    if "fine_machine" not in report:
        return words
    fine = ", ".join(f"{name} {value}" for name, value in report["fine_machine"].items())
    return f"{words}; of `{DEFAULT}`'s coverage {max(drawn[True])} replications of its own ({fine})"


def one_record_a_line(report: dict[str, Any]) -> str:
    """The report as JSON, numbers rounded to what they are worth."""

    def rounded(record: dict[str, Any]) -> dict[str, Any]:
        return {k: round(v, 6) if isinstance(v, float) else v for k, v in record.items()}

    records = ",\n".join(json.dumps(rounded(record)) for record in report["results"])
    head = json.dumps({key: value for key, value in report.items() if key != "results"})
    return f'{head[:-1]}, "results": [\n{records}\n]}}\n'


def table(results: list[Record]) -> list[str]:
    """One row a population and number of labels, one column an interval."""
    names = list(dict.fromkeys(r["interval"] for r in results))
    rows = []
    for (*_, population, m), cell in by_cell(results).items():
        entries = [f"{population} ({cell[names[0]]['truth']:.3f})", str(m)]
        for name in names:
            coverage = f"{100 * cell[name]['coverage']:.1f}"
            shown = f"**{coverage}**" if near(cell[name]) else coverage
            entries.append(f"{shown} {cell[name]['width']:.4f}")
        rows.append(entries)
    return markdown_table(["population (truth)", "m"], names, rows)


def all_right(results: list[Record]) -> list[str]:
    """What intervals say when nothing was seen to go wrong."""
    chosen = [
        r for r in results if r["metric"] == "accuracy" and r["constant_draws"] >= ENOUGH_LABELS
    ]
    lines = [
        "| population | m | nominal | draws | interval | width | coverage in them |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r['population']} | {r['labels']} | {100 * r['confidence']:.0f} % "
        f"| {r['constant_draws']} | {r['interval']} | {r['constant_width']:.4f} "
        f"| {100 * r['constant_coverage']:.1f} |"
        for r in chosen
        if r["interval"] in (DEFAULT, *PEERS)
    ]
    return lines
