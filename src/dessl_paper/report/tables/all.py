"""The tables of an experiment, whatever its shape."""

from collections.abc import Callable

from dessl.report.tables import Table
from dessl_paper.report.results import Results, Shape
from dessl_paper.report.tables.methods import method_tables
from dessl_paper.report.tables.probe import probe_tables
from dessl_paper.report.tables.sweep import sweep_tables
from dessl_paper.report.tables.toy import toy_tables

MAKERS: dict[Shape, Callable[[Results], list[Table]]] = {
    "sweep": sweep_tables,
    "methods": method_tables,
    "probe": probe_tables,
    "toy": toy_tables,
}


def tables_of(results: Results) -> list[Table]:
    """The tables that go with the paper's."""
    return MAKERS[results.shape](results)
