"""The tables of an experiment, whatever its shape."""

from dessl.report.reproduction.results import Results
from dessl.report.reproduction.table import Table
from dessl.report.reproduction.tables.methods import method_tables
from dessl.report.reproduction.tables.sweep import sweep_tables


def tables_of(results: Results) -> list[Table]:
    """The tables that go with the paper's."""
    made = {"sweep": sweep_tables, "methods": method_tables}
    return made[results.shape](results)
