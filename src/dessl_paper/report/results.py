"""Results: what an experiment's folder holds, ordered as tables and figures need it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

from dessl.data import DataError
from dessl.results.record import RUNS, Record
from dessl_paper.folder import finished, read_experiment

Shape = Literal["sweep", "methods", "probe", "toy"]


class Block(NamedTuple):
    """Runs that are compared with each other: one data set with one number of labels."""

    data: str
    labels: int


@dataclass(frozen=True)
class Results:
    """An experiment and the records of its runs.

    Attributes:
        experiment: The entries of ``experiment.json``.
        records: Of all runs that have finished.
    """

    experiment: Mapping[str, Any]
    records: tuple[Record, ...]

    @property
    def metrics(self) -> list[str]:
        """The metrics that the experiment is about."""
        return list(self.experiment.get("metrics", ()))

    @property
    def shape(self) -> Shape:
        """How it is shown: over λ, method by method, or in the way of its kind."""
        kind = self.experiment.get("kind", "training")
        if kind != "training":
            return "toy" if kind == "toy" else "probe"
        curve = str(self.experiment.get("targets", "")).startswith("curves.")
        swept = any(len(self.lams(name)) > 1 for name in self.methods)
        return "sweep" if curve or swept else "methods"

    @cached_property
    def methods(self) -> dict[str, str]:
        """Name and title of each method that has a record, in the experiment's order."""
        found = {record.method: record.title for record in self.records}
        listed = [method["name"] for method in self.experiment.get("methods", ())]
        order = [name for name in listed if name in found]
        return {name: found[name] for name in [*order, *sorted(set(found) - set(order))]}

    @cached_property
    def blocks(self) -> list[Block]:
        """Each data set and number of labels that has a record, in the experiment's order."""
        found = {block_of(record) for record in self.records}
        listed = [
            Block(data["name"], data["labels"]) for data in self.experiment.get("data", ()) if data
        ]
        order = [block for block in listed if block in found]
        return [*order, *sorted(found - set(order))]

    def risk(self, method: str) -> str:
        """What a method minimises."""
        return next(record.risk for record in self.records if record.method == method)

    def lams(self, method: str) -> list[float]:
        """Every λ at which a method has a record, rising."""
        return sorted({record.lam for record in self.records if record.method == method})

    def of(self, block: Block) -> list[Record]:
        """Every record of a block."""
        return [record for record in self.records if block_of(record) == block]

    def runs(self, block: Block, method: str, lam: float | None = None) -> list[Record]:
        """The runs of a method that came to an end, by λ and split.

        Args:
            block: Data set and number of labels.
            method: Name.
            lam: Only these; any if not given.
        """
        chosen = [
            record
            for record in self.of(block)
            if record.method == method and lam in (None, record.lam) and not diverged(record)
        ]
        return sorted(chosen, key=lambda record: (record.lam, record.seed))

    def twins(self) -> list[tuple[str, str]]:
        """Each usual method with its debiased version: ``x`` and ``de_x``."""
        return [(name, f"de_{name}") for name in self.methods if f"de_{name}" in self.methods]

    def complete_case(self) -> str | None:
        """Name of the method that uses labelled rows alone, if there is one."""
        return "complete_case" if "complete_case" in self.methods else None


def block_of(record: Record) -> Block:
    """The block of a record; a run with all labels stands beside those with few.

    A record without a data setting, as the toy example's, is its own data set.
    """
    data = record.settings.get("data", {})
    if not isinstance(data, dict):
        data = {}
    return Block(data.get("name", record.data), data.get("labels", record.labels))


def diverged(record: Record) -> bool:
    """Whether a run broke off with nothing to measure."""
    return bool(record.training.get("diverged"))


def read_results(folder: Path) -> Results:
    """Read the folder of an experiment.

    Raises:
        DataError: It is none, or it has no finished run yet, or runs that do not belong together.
    """
    experiment, records = read_experiment(folder), finished(folder)
    if not records:
        raise DataError.of(
            folder,
            expected=f"one finished run at least in {RUNS}/",
            got="none",
            do=f"Run it: dessl reproduce {experiment['name']} --profile "
            f"{experiment.get('profile', 'fast')} --out {folder}.",
        )
    return Results(experiment, tuple(records))
