"""Tables of a λ-sweep: one for each metric, a usual method and its debiased twin side by side."""

from collections.abc import Iterator

from dessl.report.reproduction.averages import average, values_of
from dessl.report.reproduction.comparison import Comparison, over_lambda
from dessl.report.reproduction.paper import printed
from dessl.report.reproduction.results import Block, Results
from dessl.report.reproduction.table import Table
from dessl.report.reproduction.titles import data_title
from dessl.report.reproduction.wording import (
    NONE,
    heading,
    lambda_text,
    ours_text,
    p_text,
    paper_text,
    written,
)


def sweep_tables(results: Results) -> list[Table]:
    """For each data set, pair of methods and metric: λ by λ, ours, the paper's and both tests."""
    return [
        _table(results, block, metric, usual, debiased)
        for block in results.blocks
        for usual, debiased in results.twins()
        for metric in results.metrics
    ]


def _table(results: Results, block: Block, metric: str, usual: str, debiased: str) -> Table:
    one, other = results.methods[usual], results.methods[debiased]
    columns = (title_ for name in (one, other) for title_ in (name, "paper's", "off by"))
    tests = (f"{other} − {one}", f"p, {other} better (Holm)", f"p, {one} better (Holm)")
    return Table(
        f"{data_title(results, block)}: {heading(metric)} over λ",
        ("λ", *columns, *tests),
        tuple(_rows(results, block, metric, usual, debiased)),
    ).without_empty_columns(NONE)


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


def _cells(
    results: Results, block: Block, metric: str, method: str, lam: float
) -> tuple[str, str, str]:
    ours = average(values_of(results.runs(block, method, lam), metric))
    given = printed(results, block, method, metric, lam)
    off = written(metric, ours.mean - given.mean, signed=True)
    return ours_text(metric, ours), paper_text(metric, given), off


def _tested(test: Comparison | None) -> tuple[str, str, str]:
    if test is None:
        return NONE, NONE, NONE
    difference = written(test.metric, test.difference, signed=True)
    if test.n < 2:
        return difference, NONE, NONE
    return (
        difference,
        f"{p_text(test.p_better)} ({p_text(test.holm_better)})",
        f"{p_text(test.p_worse)} ({p_text(test.holm_worse)})",
    )
