"""Results: the experiment of a folder and its finished runs, by data set, method and λ.

OUT/experiment.json    what was run: the experiment at its profile
OUT/runs/KEY.json      one for each run, written when it has finished
OUT/training/          checkpoints of unfinished runs
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from dessl._entries import EntryError, read_as
from dessl.data import DataError
from dessl.results.record import RUNS, Record, damaged, read_json, read_records
from dessl.risk import COMPLETE_CASE
from dessl_paper.specification import Experiment

EXPERIMENT, TRAINING = "experiment.json", "training"


class Block(NamedTuple):
    """Runs that are compared with each other: one data set and one number of labels."""

    data: str
    labels: int


@dataclass(frozen=True)
class Results:
    """An experiment and the records of its runs.

    Attributes:
        experiment: What was run.
        records: Of all runs that have finished.
    """

    experiment: Experiment
    records: tuple[Record, ...]

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that the experiment reports."""
        return self.experiment.metrics

    @cached_property
    def methods(self) -> dict[str, str]:
        """Name and title of each method that has a record, in the experiment's order."""
        found = {record.method: record.title for record in self.records}
        order = [method.name for method in self.experiment.methods if method.name in found]
        return {name: found[name] for name in [*order, *sorted(set(found) - set(order))]}

    @cached_property
    def blocks(self) -> list[Block]:
        """Each data set and number of labels that has a record, in the experiment's order."""
        found = {block_of(record) for record in self.records}
        listed = [Block(data.name, data.labels) for data in self.experiment.data]
        order = [block for block in listed if block in found]
        return [*order, *sorted(found - set(order))]

    def risk(self, method: str) -> str:
        """What a method minimises."""
        return next(record.risk for record in self.records if record.method == method)

    def lams(self, method: str) -> list[float]:
        """Every λ at which a method has a record, increasing."""
        return sorted({record.lam for record in self.records if record.method == method})

    def of(self, block: Block) -> list[Record]:
        """Every record of a block."""
        return [record for record in self.records if block_of(record) == block]

    def runs(self, block: Block, method: str, lam: float | None = None) -> list[Record]:
        """The runs of a method that did not diverge, by λ and split.

        Args:
            block: Data set and number of labels.
            method: Name.
            lam: Only runs at this λ; all if not given.
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
        """Name of the method that uses only labelled rows, if there is one."""
        return COMPLETE_CASE if COMPLETE_CASE in self.methods else None


def block_of(record: Record) -> Block:
    """The block of a record; a run with all labels belongs to the block with few.

    A record without a data setting, such as the toy example's, is its own data set.
    """
    data = record.settings.get("data", {})
    if not isinstance(data, dict):
        data = {}
    return Block(data.get("name", record.data), data.get("labels", record.labels))


def diverged(record: Record) -> bool:
    """Whether a run diverged, so that there is nothing to measure."""
    return bool(record.training.get("diverged"))


def read_results(folder: Path) -> Results:
    """Read the folder of an experiment.

    Raises:
        DataError: It is not one, has no finished run, or has runs that do not belong together.
    """
    experiment, records = read_experiment(folder), finished(folder)
    if not records:
        raise DataError.of(
            folder,
            expected=f"at least one finished run in {RUNS}/",
            got="none",
            do=f"Run it: dessl reproduce {experiment.name} --profile {experiment.profile} "
            f"--out {folder}.",
        )
    return Results(experiment, tuple(records))


def read_experiment(out: Path) -> Experiment:
    """What was run in a folder.

    Raises:
        DataError: It is not the folder of an experiment, or its file is damaged.
    """
    path = out / EXPERIMENT
    if not path.is_file():
        raise DataError.of(
            out,
            expected=f"the folder of an experiment, with {EXPERIMENT}",
            got="none",
            do="Pass a folder written by dessl reproduce.",
        )
    try:
        return read_as(Experiment, read_json(path))
    except EntryError as error:
        raise damaged(path, str(error), "an experiment") from error


def finished(out: Path) -> list[Record]:
    """The records of a folder's experiment.

    Raises:
        DataError: A file is not a record of this experiment, or runs of one method differ in their
            data or training settings.
    """
    experiment, records = read_experiment(out), read_records(out)
    wanted = experiment.name, experiment.profile
    for record in records:
        if (record.experiment, record.profile) != wanted:
            raise DataError.of(
                out / RUNS / f"{record.key}.json",
                expected="a run of {!r} at profile {!r}".format(*wanted),
                got=f"one of {record.experiment!r} at profile {record.profile!r}",
                do="Move it to the folder of its own experiment.",
            )
    for requested in {_requested_data(record) for record in records}:
        one_data_set(out, requested, data_names(records, requested))
    _check_same_settings(out, records)
    return records


def _check_same_settings(out: Path, records: Iterable[Record]) -> None:
    """Reject runs of one method whose settings differ in more than the split and λ."""
    first: dict[str, Record] = {}
    for record in records:
        same = first.setdefault(f"{record.method} {record.settings.get('data')}", record)
        for part in sorted(record.settings.keys() & same.settings.keys()):
            if difference := _difference(record.settings[part], same.settings[part]):
                raise DataError.of(
                    out / RUNS / f"{record.key}.json",
                    expected=f"the {part} of {same.key!r}, a run of the same method",
                    got=difference,
                    do="Remove the run that does not belong here, or run the experiment again.",
                )


def _difference(own: Any, other: Any) -> str | None:
    """The first difference in settings that both have; older runs may lack some."""
    if not (isinstance(own, dict) and isinstance(other, dict)):
        return None if own == other else f"{own!r}, not {other!r}"
    for name in sorted((own.keys() & other.keys()) - {"seed", "lam"}):
        if own[name] != other[name]:
            return f"{name} = {own[name]!r}, not {other[name]!r}"
    return None


def data_names(records: Iterable[Record], requested: str) -> set[str]:
    """The data sets that runs loaded for a name in the experiment."""
    return {record.data for record in records if _requested_data(record) == requested}


def one_data_set(out: Path, requested: str, found: Iterable[str]) -> None:
    """Reject runs that mix published rows with generated or rebuilt ones."""
    names = sorted(set(found))
    if len(names) > 1:
        raise DataError.of(
            out,
            expected=f"the same data set for {requested!r} in all runs",
            got=" and ".join(names),
            do=f"Remove the runs on one of them from {RUNS}/, or choose another --out.",
        )


def _requested_data(record: Record) -> str:
    setting = record.settings.get("data")
    return str(setting.get("name", record.data)) if isinstance(setting, dict) else record.data
