"""The table of the toy example: what each method makes of the overlap, beside truth and paper."""

from dessl.evaluation.metrics.vocabulary import NONE
from dessl.report.tables import Table
from dessl_paper.report.averages import average, values_of
from dessl_paper.report.paper import printed
from dessl_paper.report.results import Block, Results
from dessl_paper.report.titles import data_title
from dessl_paper.report.wording import beside_paper, heading, written

TRUTH = 0.25  # p(1|x) on [1, 3]
METRIC = "overlap_posterior"


def toy_tables(results: Results) -> list[Table]:
    """One table a data set: mean posterior with its distance to the truth, and training loss."""
    return [_table(results, block) for block in results.blocks]


def _table(results: Results, block: Block) -> Table:
    others = [metric for metric in results.metrics if metric != METRIC]
    columns = [heading(METRIC), "off the truth by", "paper's", "off the paper's by"]
    for metric in others:
        columns += [heading(metric), "paper's", "off by"]
    truth = written(METRIC, TRUTH)
    rows = [("truth", truth, NONE, truth, NONE, *[NONE] * (3 * len(others)))]
    for method, name in results.methods.items():
        cells: list[str] = []
        for metric in (METRIC, *others):
            ours = average(values_of(results.runs(block, method), metric))
            given = printed(results, block, method, metric)
            mine, theirs, off = beside_paper(metric, ours, given)
            cells.append(mine)
            if metric == METRIC:
                cells.append(written(metric, ours.mean - TRUTH, signed=True))
            cells += [theirs, off]
        rows.append((name, *cells))
    caption = f"{data_title(results, block)}: every method"
    return Table(caption, ("method", *columns), tuple(rows)).without_empty_columns(NONE)
