"""Tables of a λ-sweep: for each metric a usual method and its debiased twin side by side."""

import math
from collections.abc import Iterator

from dessl.evaluation.metrics.vocabulary import NONE
from dessl.report.tables import Table
from dessl_paper.report.averages import average, values_of
from dessl_paper.report.comparison import Comparison, over_lambda
from dessl_paper.report.paper import printed
from dessl_paper.report.results import Block, Results
from dessl_paper.report.titles import data_title
from dessl_paper.report.wording import beside_paper, heading, lambda_text, p_text, written


def sweep_tables(results: Results) -> list[Table]:
    """For each data set, pair of methods and metric: ours, the paper's and the tests, λ by λ."""
    found = []
    for block in results.blocks:
        for usual, debiased in results.twins():
            found += [
                _levels(results, block, metric, usual, debiased) for metric in results.metrics
            ]
            for metric in results.metrics:
                found += _to_the_complete_case(results, block, metric, (usual, debiased))
    return [table.without_empty_columns(NONE) for table in found]


def _levels(results: Results, block: Block, metric: str, usual: str, debiased: str) -> Table:
    one, other = results.methods[usual], results.methods[debiased]
    columns = (text for name in (one, other) for text in (name, "paper's", "off by"))
    caption = f"{data_title(results, block)}: {heading(metric)} over λ"
    headings = ("λ", *columns, *_test_headings(other, one))
    return Table(caption, headings, tuple(_rows(results, block, metric, usual, debiased)))


def _rows(
    results: Results, block: Block, metric: str, usual: str, debiased: str
) -> Iterator[tuple[str, ...]]:
    alone = results.complete_case()
    if alone and results.runs(block, alone):
        cells = _cells(results, block, metric, alone, 0.0)
        yield ("0 (complete case)", *cells, *cells, NONE, NONE, NONE)
    tests = {one.lam: one for one in over_lambda(results, block, metric, debiased, usual)}
    for lam in sorted({*results.lams(usual), *results.lams(debiased)}):
        yield (
            lambda_text(lam),
            *_cells(results, block, metric, usual, lam),
            *_cells(results, block, metric, debiased, lam),
            *_tested(tests.get(lam)),
        )


def _to_the_complete_case(
    results: Results, block: Block, metric: str, methods: tuple[str, str]
) -> list[Table]:
    alone = results.complete_case()
    if alone is None:
        return []
    against = results.methods[alone]
    tests = {
        method: {one.lam: one for one in over_lambda(results, block, metric, method, alone)}
        for method in methods
    }
    headings = (text for name in methods for text in _test_headings(results.methods[name], against))
    rows = (
        (lambda_text(lam), *(text for name in methods for text in _tested(tests[name].get(lam))))
        for lam in sorted({lam for found in tests.values() for lam in found})
    )
    caption = f"{data_title(results, block)}: {heading(metric)} less the complete case's"
    return [Table(caption, ("λ", *headings), tuple(rows))]


def _test_headings(one: str, other: str) -> tuple[str, str, str]:
    return f"{one} − {other}", f"p, {one} better (Holm)", f"p, {other} better (Holm)"


def _cells(
    results: Results, block: Block, metric: str, method: str, lam: float
) -> tuple[str, str, str]:
    ours = average(values_of(results.runs(block, method, lam), metric))
    given = printed(results, block, method, metric, lam)
    return beside_paper(metric, ours, given)


def _tested(test: Comparison | None) -> tuple[str, str, str]:
    if test is None or math.isnan(test.difference):
        return NONE, NONE, NONE
    difference = written(test.metric, test.difference, signed=True)
    if test.n < 2:
        return difference, NONE, NONE
    return (
        difference,
        f"{p_text(test.p_better)} ({p_text(test.holm_better)})",
        f"{p_text(test.p_worse)} ({p_text(test.holm_worse)})",
    )
