"""Tables of the probes: what a trained model's test rows say of the debiased risk."""

import math
from collections.abc import Sequence

from dessl.evaluation.metrics.vocabulary import NONE
from dessl.report.tables import Table
from dessl.results.record import Record
from dessl_paper.report.averages import average, number, values_of
from dessl_paper.report.paper import printed
from dessl_paper.report.results import Block, Results
from dessl_paper.report.titles import data_title
from dessl_paper.report.wording import beside_paper, heading, ours_text, written

LAMBDA = "lam_opt."
CONTEXT = ("accuracy", "cross_entropy", "ece")  # how good and how sure of itself the model is


def probe_tables(results: Results) -> list[Table]:
    """A table of the model, then one of what was found through it."""
    found = []
    for block in results.blocks:
        for method in results.methods:
            found.append(_quantities(results, block, method))
            found.append(_terms(results, block, method))
    return [table for table in found if table.rows]


def terms_of(results: Results, block: Block, method: str) -> list[str]:
    """The unlabelled terms whose λ_opt was computed."""
    runs = results.runs(block, method)
    return [key.removeprefix(LAMBDA) for key in (runs[0].metrics if runs else ()) if LAMBDA in key]


def _quantities(results: Results, block: Block, method: str) -> Table:
    runs = results.runs(block, method)
    plain = [metric for metric in results.metrics if "." not in metric]
    wanted = [metric for metric in (*CONTEXT, *plain) if runs and metric in runs[0].metrics]
    rows = tuple(
        (heading(metric), ours_text(metric, average(values_of(runs, metric)))) for metric in wanted
    )
    caption = f"{data_title(results, block)}: through the model of the {results.methods[method]}"
    return Table(caption, ("quantity", "ours"), rows)


def _terms(results: Results, block: Block, method: str) -> Table:
    runs, rows = results.runs(block, method), []
    for term in terms_of(results, block, method):
        metric = f"{LAMBDA}{term}"
        ours, given, off = beside_paper(
            metric, average(values_of(runs, metric)), printed(results, block, method, metric)
        )
        rows.append(
            (
                term.replace("_", " "),
                ours,
                written(metric, _mean(results, block, method, f"standard_error.{term}")),
                given,
                off,
                written(metric, _mean(results, block, method, f"correlation.{term}")),
                written(metric, _mean(results, block, method, f"variance_ratio.{term}")),
                _shared_range(runs, term),
            )
        )
    headings = (
        "unlabelled term",
        "λ_opt",
        "its standard error over test rows",
        "paper's",
        "off by",
        "ρ(L, H)",
        "variance at λ_opt, relative",
        "λ at which every model's variance is below the complete case's",
    )
    caption = f"{data_title(results, block)}: λ_opt of each term"
    return Table(caption, headings, tuple(rows)).without_empty_columns(NONE)


def _shared_range(runs: Sequence[Record], term: str) -> str:
    """The λ that lie in every model's range; a model without one, sure of no row, has no say."""
    low, high = (
        [end for end in values_of(runs, f"regime_{side}.{term}") if not math.isnan(end)]
        for side in ("low", "high")
    )
    if not low:
        return NONE
    ends = max(low), min(high)
    if ends[0] >= ends[1]:
        return "none"
    return " to ".join(written(f"{LAMBDA}{term}", end) for end in ends)


def _mean(results: Results, block: Block, method: str, key: str) -> float:
    values = [number(record.metrics.get(key)) for record in results.runs(block, method)]
    return average(values).mean
