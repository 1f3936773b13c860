"""The kinds of experiment: each is one module with its runs, tables, figures and findings."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from dessl._entries import check_name
from dessl.data import SemiData
from dessl.report.tables import Table
from dessl.results.record import Record
from dessl_paper.comparison import Comparison
from dessl_paper.figures import Pictures
from dessl_paper.findings import Finding
from dessl_paper.kinds import methods, probe, sweep, toy
from dessl_paper.made_with import Repeats
from dessl_paper.results import Block, Results
from dessl_paper.specification import Cell, Experiment


class Kind(Protocol):
    """What each module of this package must provide.

    Attributes:
        PUBLIC_DATA: Whether its cells are trained on a data set of the catalogue.
        REPEATS: What its means are taken over: ``"splits"`` or ``"models"``.
    """

    PUBLIC_DATA: bool
    REPEATS: Repeats

    def check(self, experiment: Experiment, source: str) -> None:
        """Reject settings, parts and metrics that the kind does not have."""

    def run_cells(
        self,
        experiment: Experiment,
        cells: list[Cell],
        left: set[str],
        data: SemiData | None,
        folder: Path,
        *,
        progress: bool,
    ) -> Iterator[Record]:
        """Run some cells together; yield a record for each cell whose key is in ``left``."""

    def tables(self, results: Results) -> list[Table]:
        """The tables that go with the paper's."""

    def figures(self, results: Results) -> dict[str, Pictures]:
        """Each figure by name; ``figure`` corresponds to the paper's."""

    def findings(self, results: Results) -> list[Finding]:
        """How the results compare with the paper."""

    def comparisons(self, results: Results, block: Block) -> list[Comparison]:
        """The paired comparisons of methods on one data set."""


KINDS: dict[str, Kind] = {"sweep": sweep, "methods": methods, "probe": probe, "toy": toy}


def kind_of(experiment: Experiment) -> Kind:
    """The kind of an experiment.

    Raises:
        EntryError: There is no such kind.
    """
    check_name(experiment.kind, KINDS, at=f"the kind of {experiment.name}")
    return KINDS[experiment.kind]
