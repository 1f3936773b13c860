"""RunFacts: the content of ``facts.json`` in a run folder, from which reports are made.

RUN/facts.json        the results in numbers
RUN/report.html       made from facts.json alone; ``dessl report RUN`` writes it again
RUN/model/            the model that ``dessl predict`` and ``dessl evaluate`` use
RUN/complete-case/    the same model trained on the labelled rows alone
RUN/training/         histories and checkpoints, one folder for each method and seed
"""

import dataclasses
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from dessl._entries import Measured, read_as
from dessl._files import write_whole
from dessl._json import json_ready
from dessl.data import DataError, SemiData
from dessl.evaluation.metrics.vocabulary import metric_named
from dessl.evaluation.verdict import Comparison, Verdict
from dessl.recipes.baseline import Baseline
from dessl.results.averages import Average, average, values_of
from dessl.results.record import Record
from dessl.safety import Audit
from dessl.teachers import PoolReport, TaughtReport

VERSION = 3
OLD_OUTCOMES = {  # from version 2
    "helped": "better",
    "hurt": "worse",
    "no clear difference": "cannot tell yet",
}
FACTS = "facts.json"
REPORT = "report.html"
MODEL = "model"
TWIN = "complete-case"
TRAINING = "training"


@dataclass(frozen=True)
class DataFacts:
    """The data set, as used for training.

    Attributes:
        name: Name of the data set.
        rows: All rows except those of ``test``.
        labelled: Labelled training rows.
        unlabelled: Unlabelled training rows.
        validation: Labelled rows that selected the checkpoint of a run.
        test: Labelled test rows, used once, at the end.
        test_unlabelled: Unlabelled test rows, which make the comparison more precise.
        class_names: The classes in order.
        shape: Shape of one row: (channels, height, width) or (features,).
        feature_names: One name for each feature of a table; () for anything else.
        left_out: Columns of a table that were dropped, and why.
    """

    name: str
    rows: int
    labelled: int
    unlabelled: int
    validation: int
    test: int
    test_unlabelled: int
    class_names: tuple[str, ...]
    shape: tuple[int, ...]
    feature_names: tuple[str, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, data: SemiData, *, test: int, test_unlabelled: int = 0) -> Self:
        """Return the facts of a data set whose labels were drawn.

        >>> import torch
        >>> data = SemiData(torch.rand(5, 2), [0, 1, -1, -1, -1], name="few")
        >>> facts = DataFacts.of(data, test=3)
        >>> facts.labelled, facts.unlabelled, facts.class_names, facts.shape
        (2, 3, ('0', '1'), (2,))
        """
        encoding = data.encoding
        return cls(
            name=data.name,
            rows=len(data) + data.n_stored,
            labelled=data.n_labelled,
            unlabelled=data.n_unlabelled,
            validation=0 if data.validation is None else len(data.validation.y),
            test=test,
            test_unlabelled=test_unlabelled,
            class_names=tuple(data.class_names),
            shape=tuple(data.x.shape[1:]),
            feature_names=encoding.feature_names if encoding else (),
            left_out=dict(encoding.left_out) if encoding else {},
        )


@dataclass(frozen=True)
class MethodFacts:
    """One method: a surrogate and a risk, by the name shown in tables.

    Attributes:
        name: Such as "complete case", "PseudoLabel", "DePseudoLabel".
        risk: "complete_case", "ssl", "debiased", "supervised" for the complete case with every
            label, or "pool" for networks and teachers.
        surrogate: A name in ``dessl.SURROGATES``, or "none" if no network was trained with one.
        lam: λ, its peak; 0 in the complete case.
    """

    name: str
    risk: str
    surrogate: str
    lam: float


@dataclass(frozen=True)
class Estimate:
    """A debiased estimate of a method's metric on partly labelled test rows, with its interval.

    ``n_groups`` is the number of groups with labelled rows; None if each row is its own.
    """

    method: str
    metric: str
    value: Measured
    low: Measured
    high: Measured
    confidence: float
    n_labelled: int
    n_unlabelled: int
    n_groups: int | None = None


@dataclass(frozen=True)
class ModelFacts:
    """The saved model.

    Attributes:
        method: Name of its method.
        labels: Number of labels it was trained on.
        refitted: Whether it was retrained on all labels, including held-out ones, after the
            evaluation. All metrics are for the model before that.
        alone: Name of the method that predicts rows without a teacher's answer, if ``method`` takes
            answers as input.
    """

    method: str
    labels: int
    refitted: bool
    alone: str | None = None


@dataclass(frozen=True)
class RunFacts:
    """All that a report shows.

    Attributes:
        title: Title, one line.
        command: The command line of the run.
        data: The data set.
        methods: The methods in the order of the tables, the complete case first.
        runs: One record for each method and seed. What all runs share (settings, versions) is
            written once, below.
        comparisons: Comparisons of each method with the complete case.
        estimates: Metrics on the test rows with intervals; debiased if some rows are unlabelled.
            () if the intervals come from several seeds.
        pool: The weight of each member of a pool, and the gain from unlabelled rows; None without a
            pool.
        verdict: The main comparison in words.
        baseline: Whether the complete case trained, and how often it was restarted; None if there
            are too few labels to tell.
        model: The model saved in the folder's ``model``; None for a demonstration.
        settings: The training plan and the like, by name.
        made_with: ``machine_facts()``.
        seconds: Time taken.
        warnings: Warnings shown during the run, one line each.
        audit: The audit before training; None if there was none.
        taught: How good the teachers are, and how their answers were used; None without teachers.
    """

    title: str
    command: str
    data: DataFacts
    methods: tuple[MethodFacts, ...]
    runs: tuple[Record, ...]
    comparisons: tuple[Comparison, ...]
    verdict: Verdict
    settings: dict[str, Any]
    made_with: dict[str, Any]
    seconds: float
    estimates: tuple[Estimate, ...] = ()
    pool: PoolReport | None = None
    baseline: Baseline | None = None
    model: ModelFacts | None = None
    warnings: tuple[str, ...] = ()
    audit: Audit | None = None
    taught: TaughtReport | None = None
    version: int = VERSION

    @property
    def seeds(self) -> list[int]:
        """The distinct seeds, in order."""
        return sorted({run.seed for run in self.runs})

    def runs_of(self, method: str) -> list[Record]:
        """The runs of one method, by seed."""
        return sorted((run for run in self.runs if run.method == method), key=lambda run: run.seed)

    def values(self, method: str, metric: str) -> list[float]:
        """A method's metric on the test rows, one value for each seed in order; NaN if missing."""
        return values_of(self.runs_of(method), metric)

    def average(self, method: str, metric: str) -> Average:
        """The mean over a method's seeds; NaN if a seed has no finite value."""
        values = self.values(method, metric)
        return average(values if all(map(math.isfinite, values)) else [])

    def as_dict(self) -> dict[str, Any]:
        """Return the facts as JSON can represent them: None for NaN, "Infinity" for ∞."""
        ready = json_ready(dataclasses.asdict(self))
        assert isinstance(ready, dict)  # noqa: S101
        return ready

    @classmethod
    def from_dict(cls, entries: Any, *, source: str | Path = "the facts") -> "RunFacts":
        """Read facts back; refuse missing or unknown entries and other versions.

        Raises:
            DataError: The entries are not those of a run.
        """
        try:
            if entries["version"] not in (2, VERSION):
                raise ValueError(f"version {entries['version']!r}")
            if entries["version"] == 2:
                entries = _renamed(entries)
            if not entries.get("sweep", True):  # written empty until 0.1.0.dev0
                entries = {name: entry for name, entry in entries.items() if name != "sweep"}
            facts = read_as(cls, entries)
            _check_whole(facts)
        except (TypeError, ValueError, KeyError) as error:
            raise DataError.of(
                source,
                expected=f"the facts of a run, version {VERSION}",
                got=str(error)[:200],
                do="Run dessl fit again with this version of dessl.",
            ) from error
        return facts


def agreeing(
    estimates: tuple[Estimate, ...], comparisons: Iterable[Comparison]
) -> tuple[Estimate, ...]:
    """Return the estimates of two methods, moved so that they differ by their paired difference.

    An estimate a of one method, b of the other and d of a − b are all unbiased, but each is
    debiased with its own λ, so that a − b ≠ d. Both (a + b ± d)/2 are unbiased too, and differ by
    d, the more precise difference. Each moves by half of what a − b and d disagree. An interval
    stays as it is, or is extended to its new value.

    Args:
        estimates: Estimates of both methods.
        comparisons: One method minus the other, at most one for each metric.

    >>> from dessl.evaluation.verdict import OVER_ROWS
    >>> a, b = (Estimate(name, "brier", 0.25, 0.1, 0.4, 0.95, 50, 900) for name in "ab")
    >>> d = Comparison("brier", "a", "b", -0.02, -0.05, 0.01, 0.2, 0.95, OVER_ROWS, 50)
    >>> [one.value for one in agreeing((a, b), [d])]
    [0.24, 0.26]
    """
    found = {(one.method, one.metric): one for one in estimates}
    for change in comparisons:
        pair = [(name, change.metric) for name in (change.method, change.against)]
        half = change.difference / 2
        middle = sum(found[key].value for key in pair) / 2
        middle = min(max(middle, abs(half)), metric_named(change.metric).highest - abs(half))
        for key, value in zip(pair, (middle + half, middle - half), strict=True):
            low, high = min(value, found[key].low), max(value, found[key].high)
            found[key] = dataclasses.replace(found[key], value=value, low=low, high=high)
    return tuple(found.values())


def write_facts(folder: Path, facts: RunFacts) -> None:
    """Write ``facts.json`` into a run folder."""
    text = json.dumps(facts.as_dict(), indent=1, allow_nan=False, ensure_ascii=False)
    write_whole(folder / FACTS, text + "\n")


def read_facts(folder: Path) -> RunFacts:
    """Read a run folder's ``facts.json``.

    Raises:
        DataError: The file is missing or damaged.
    """
    path = folder / FACTS
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DataError.of(
            folder,
            expected=f"the folder of a run, with {FACTS}",
            got=f"no {FACTS}",
            do="Pass the --out folder of dessl fit, dessl demo or dessl reproduce.",
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise DataError.of(
            path, expected="JSON", got=str(error)[:200], do="The file is damaged. Train again."
        ) from error
    return RunFacts.from_dict(entries, source=path)


@dataclass(frozen=True)
class _Evaluation:
    """The entries of an evaluation that a report shows; other entries are free."""

    step: int
    risk: Measured
    loss: Measured
    validation: dict[str, Measured]


def _renamed(entries: dict[str, Any]) -> dict[str, Any]:
    """Read version 2, which had three outcomes with other names."""
    old = entries["verdict"]
    renamed = {"outcome": OLD_OUTCOMES.get(old["outcome"], old["outcome"])}
    return {**entries, "version": VERSION, "verdict": {**old, **renamed}}


def _check_whole(facts: RunFacts) -> None:
    names = [method.name for method in facts.methods]
    if not names or not facts.runs:
        raise ValueError(f"{len(names)} methods and {len(facts.runs)} runs")
    used = [run.method for run in facts.runs] + [one.method for one in facts.comparisons]
    used += [facts.model.method] if facts.model else []
    used += [facts.model.alone] if facts.model and facts.model.alone else []
    for name in used:
        if name not in names:
            raise ValueError(f"method {name!r}, which is not one of {', '.join(names)}")
    for event in (event for run in facts.runs for event in run.history):
        shown = {key: event[key] for key in ("step", "risk", "loss")}
        read_as(_Evaluation, shown | {"validation": event.get("validation") or {}})
