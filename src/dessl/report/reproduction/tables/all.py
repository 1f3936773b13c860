"""The tables of an experiment, whatever its shape."""

from collections.abc import Callable

from dessl.report.reproduction.results import Results, Shape
from dessl.report.reproduction.table import Table
from dessl.report.reproduction.tables.methods import method_tables
from dessl.report.reproduction.tables.probe import probe_tables
from dessl.report.reproduction.tables.sweep import sweep_tables
from dessl.report.reproduction.tables.toy import toy_tables

MAKERS: dict[Shape, Callable[[Results], list[Table]]] = {
    "sweep": sweep_tables,
    "methods": method_tables,
    "probe": probe_tables,
    "toy": toy_tables,
}


def tables_of(results: Results) -> list[Table]:
    """The tables that go with the paper's."""
    return MAKERS[results.shape](results)
