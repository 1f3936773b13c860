"""Record: the result of one run, as one JSON file, OUT/runs/KEY.json."""

import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from dessl._entries import EntryError, Measured, Numbers, read_as
from dessl._files import write_whole
from dessl.data import DataError
from dessl.training import Event

RUNS = "runs"
EVENTS = 50  # largest number of events of a history that a record keeps


@dataclass(frozen=True)
class Record:
    """One run: its settings, its course and its results.

    Attributes:
        experiment: Name of the experiment.
        profile: One of the profiles.
        key: Key of the cell, unique in an experiment.
        data: Name of the data set; it says if the data was rebuilt or generated.
        labels: Number of labels drawn, validation included.
        method: Name of the method.
        title: Title of the method.
        risk: Name of the risk that was minimised.
        lam: λ.
        seed: Seed of the split.
        settings: Everything needed to run it again.
        metrics: Metrics on the test set, by name, with per-class accuracies and the reliability
            diagram.
        arrays: Curves, for experiments that have them.
        history: Evaluations during the run, thinned to ``EVENTS``.
        training: Selected step, steps done, mode, seconds (a run's share, if several were trained
            together), number of runs trained together, and whether the run diverged.
        made_with: Versions, machine, number of processes that trained side by side, and commit.
    """

    experiment: str
    profile: str
    key: str
    data: str
    labels: int
    method: str
    title: str
    risk: str
    lam: float
    seed: int
    settings: dict[str, Any]
    metrics: dict[str, Numbers]
    training: dict[str, Any]
    made_with: dict[str, Any]
    arrays: dict[str, Numbers] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def from_dict(cls, entries: Any, source: Path) -> Self:
        """Read a record back.

        Raises:
            DataError: The entries are not those of a record.
        """
        known = {one.name for one in dataclasses.fields(cls)}
        if not isinstance(entries, dict) or not set(entries) <= known:
            raise damaged(source, "other entries than a record's")
        try:
            record = read_as(cls, entries)
            _check_free_entries(record)
        except EntryError as error:
            raise damaged(source, str(error)) from error
        return record


@dataclass(frozen=True)
class _Shown:
    """The entries of a record that reports show, where any names are allowed."""

    data: dict[str, Any]
    steps: int
    seconds: float
    processes: int
    evaluated_at: list[int]
    validation: list[dict[str, Measured]]


def _check_free_entries(record: Record) -> None:
    training, history = record.training, record.history
    shown = {
        "data": record.settings.get("data") or {},
        "steps": training.get("steps") or 0,
        "seconds": training.get("seconds") or 0,
        "processes": record.made_with.get("processes", 1),
        "evaluated_at": [event.get("step") for event in history],
        "validation": [event.get("validation") or {} for event in history],
    }
    read_as(_Shown, shown)


def write_record(out: Path, record: Record) -> None:
    """Write a record atomically."""
    text = json.dumps(dataclasses.asdict(record), indent=1, allow_nan=False, ensure_ascii=False)
    write_whole(out / RUNS / f"{record.key}.json", text + "\n")


def read_records(out: Path) -> list[Record]:
    """Every record in a folder, by name.

    Raises:
        DataError: A file is not a record, or is a copy of another.
    """
    records = []
    for file in sorted((out / RUNS).glob("*.json")):
        record = Record.from_dict(read_json(file), file)
        if record.key != file.stem:  # a copy would count as one more split
            raise damaged(file, f"the record of {record.key!r}")
        own = f"{record.method}-lam{record.lam:.4g}-seed{record.seed}"
        if not record.key.endswith(f"-{own}"):  # and so would a copy with another key
            raise damaged(file, f"the record of {own!r}")
        records.append(record)
    return records


def thinned(history: Sequence[Event]) -> list[dict[str, Any]]:
    """At most ``EVENTS`` of a history, evenly spaced, including the last."""
    n = len(history)
    chosen: Iterable[int] = range(n)
    if n > EVENTS:
        chosen = sorted({round((k + 1) * n / EVENTS) - 1 for k in range(EVENTS)})
    return [json.loads(history[k].as_line()) for k in chosen]


def read_json(path: Path) -> Any:
    """Return the content of a JSON file.

    Raises:
        DataError: The file is not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise damaged(path, str(error)[:200]) from error


def damaged(path: Path, why: str, what: str = "a run") -> DataError:
    """The error for a damaged or unexpected file."""
    return DataError.of(
        path,
        expected=f"JSON of {what}",
        got=why,
        do="The file is damaged. Remove it, and run again.",
    )
