"""Tables of methods: for each data set the metrics of every method, and differences with tests."""

import math

from dessl.evaluation.metrics.vocabulary import NONE
from dessl.report.tables import Table
from dessl_paper.report.averages import average, values_of
from dessl_paper.report.comparison import Comparison, compared
from dessl_paper.report.paper import paper_p_value, printed
from dessl_paper.report.results import Block, Results
from dessl_paper.report.tables.classes import class_tables
from dessl_paper.report.titles import data_title
from dessl_paper.report.wording import beside_paper, heading, p_text, written


def method_tables(results: Results) -> list[Table]:
    """For each data set: every method beside the paper's, paired differences, the classes."""
    found = []
    for block in results.blocks:
        found.append(_levels(results, block))
        found.append(_differences(results, block))
        found += class_tables(results, block)
    return [table for table in found if table.rows]


def comparisons(results: Results, block: Block, metric: str) -> list[Comparison]:
    """Each debiased method against its twin, then every method against the complete case."""
    alone = results.complete_case()
    pairs = [(debiased, usual) for usual, debiased in results.twins()]
    if alone:
        pairs += [(name, alone) for name in results.methods if name != alone]
    found = []
    for method, against in pairs:
        lams = _lam(results, method), _lam(results, against)
        found.append(compared(results, block, metric, method, against, *lams))
    return [one for one in found if one.n]


def _lam(results: Results, method: str) -> float:
    return results.lams(method)[0]


def _levels(results: Results, block: Block) -> Table:
    metrics = results.metrics
    columns = (text for metric in metrics for text in (heading(metric), "paper's", "off by"))
    rows = []
    for method, name in results.methods.items():
        runs = results.runs(block, method)
        if not any(record.method == method for record in results.of(block)):
            continue
        cells: list[str] = []
        for metric in metrics:
            ours, given = (
                average(values_of(runs, metric)),
                printed(results, block, method, metric, _lam(results, method)),
            )
            cells += beside_paper(metric, ours, given)
        rows.append((name, *cells))
    caption = f"{data_title(results, block)}: every method"
    return Table(caption, ("method", *columns), tuple(rows)).without_empty_columns(NONE)


def _differences(results: Results, block: Block) -> Table:
    names = results.methods
    rows = [
        (
            f"{names[one.method]} − {names[one.against]}",
            heading(metric),
            written(metric, one.difference, signed=True),
            NONE
            if math.isnan(one.low)
            else f"{written(metric, one.low, signed=True)} to "
            f"{written(metric, one.high, signed=True)}",
            p_text(one.p_better),
            p_text(one.p_worse),
            p_text(one.p_wilcoxon),
            written(metric, one.paper, signed=True),
            p_text(
                paper_p_value(results, one.method, metric)
                if one.against == one.method.removeprefix("de_")
                else math.nan
            ),
        )
        for metric in results.metrics
        for one in comparisons(results, block, metric)
    ]
    headings = (
        "difference",
        "metric",
        "ours",
        "95 % interval",
        "p, better",
        "p, worse",
        "Wilcoxon p, two-sided",
        "paper's",
        "paper's p, better",
    )
    caption = f"{data_title(results, block)}: paired differences (single tests, uncorrected)"
    return Table(caption, headings, tuple(rows)).without_empty_columns(NONE)
