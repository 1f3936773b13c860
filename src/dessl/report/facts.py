"""RunFacts: what a run folder's ``facts.json`` holds, and all that a report is made of."""

import dataclasses
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from dessl._entries import Measured, Numbers, read_as
from dessl._json import json_ready
from dessl.data import DataError

VERSION = 1

Outcome = Literal["helped", "hurt", "cannot tell"]


@dataclass(frozen=True)
class DataFacts:
    """The data set, as it was trained on.

    Attributes:
        name: What it is called.
        rows: Rows in all, but for those of ``test``.
        labelled: Rows trained on with their label.
        unlabelled: Rows trained on without a label.
        validation: Labelled rows that chose the step at which a run is kept.
        test: Labelled rows that were looked at once, at the end.
        test_unlabelled: Rows without a label that stood beside them, to debias the comparison.
        class_names: The classes in order.
        shape: Of one row: (channels, height, width) or (features,).
        feature_names: One name for each feature of a table; () for anything else.
        left_out: Columns of a table that were not used, and why.
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


@dataclass(frozen=True)
class MethodFacts:
    """One method: a surrogate and a risk, by the name that it has in tables.

    Attributes:
        name: Such as "complete case", "PseudoLabel", "DePseudoLabel".
        risk: "complete_case", "ssl" or "debiased".
        surrogate: A name in ``dessl.SURROGATES``.
        lam: λ, its peak; 0 in the complete case.
    """

    name: str
    risk: str
    surrogate: str
    lam: float


@dataclass(frozen=True)
class RunResult:
    """One run of a method: what it is worth on the test rows, and how it got there.

    Attributes:
        method: The name of its :class:`MethodFacts`.
        seed: Of its label draw, weights and batches. Runs of one seed are paired.
        metrics: ``Metrics.as_dict()`` on the test rows.
        step: The step whose weights were kept.
        steps: Steps done.
        history: One ``vars(Event)`` for each evaluation, NaN as None.
    """

    method: str
    seed: int
    metrics: dict[str, Numbers]
    step: int
    steps: int
    history: list[dict[str, Any]]


@dataclass(frozen=True)
class Estimate:
    """A metric of one method from partly labelled test rows, debiased, with its interval."""

    method: str
    metric: str
    value: Measured
    low: Measured
    high: Measured
    confidence: float
    n_labelled: int
    n_unlabelled: int


@dataclass(frozen=True)
class Comparison:
    """The metric of one method minus that of another.

    Attributes:
        metric: A field of ``Metrics``; for a loss a negative difference speaks for ``method``.
        method: Whose.
        against: Minus whose.
        difference: The estimate.
        low: Lower bound of its interval.
        high: Upper bound.
        p_value: Of the hypothesis that they are equal.
        confidence: Of the interval.
        test: "paired t-test over seeds" or "debiased, paired over rows".
        n: Seeds, or labelled rows.
    """

    metric: str
    method: str
    against: str
    difference: Measured
    low: Measured
    high: Measured
    p_value: Measured
    confidence: float
    test: str
    n: int


@dataclass(frozen=True)
class SweepPoint:
    """One run of a λ-sweep: its risk, λ and seed, and its metrics on the test rows."""

    risk: str
    lam: float
    seed: int
    metrics: dict[str, Numbers]


@dataclass(frozen=True)
class Verdict:
    """Whether unlabelled data helped here, in one word and in one sentence with its interval."""

    outcome: Outcome
    sentence: str


@dataclass(frozen=True)
class RunFacts:
    """Everything that a report shows.

    Attributes:
        title: One line.
        command: The command line that made it, as one could type it again.
        data: The data set.
        methods: In the order in which tables show them; the complete case is the first.
        runs: One for each method and seed.
        comparisons: Of each method with the complete case.
        estimates: Debiased metrics, where some test rows have no label; () otherwise.
        sweep: A λ-sweep, where there is one; () otherwise.
        verdict: The main comparison in words.
        settings: The training plan and the like, by name.
        made_with: ``machine_facts()``.
        seconds: That it took.
        warnings: What was warned of on the way, one line each.
    """

    title: str
    command: str
    data: DataFacts
    methods: tuple[MethodFacts, ...]
    runs: tuple[RunResult, ...]
    comparisons: tuple[Comparison, ...]
    verdict: Verdict
    settings: dict[str, Any]
    made_with: dict[str, Any]
    seconds: float
    estimates: tuple[Estimate, ...] = ()
    sweep: tuple[SweepPoint, ...] = ()
    warnings: tuple[str, ...] = ()
    version: int = VERSION

    @property
    def seeds(self) -> list[int]:
        """The seeds, each once, in order."""
        return sorted({run.seed for run in self.runs})

    def values(self, method: str, metric: str) -> list[float]:
        """A method's metric on the test rows, one value for each seed in order; NaN for unknown."""
        runs = sorted((run for run in self.runs if run.method == method), key=lambda run: run.seed)
        found = [run.metrics.get(metric) for run in runs]
        return [math.nan if value is None else float(value) for value in found]

    def as_dict(self) -> dict[str, Any]:
        """Give the facts as JSON takes them: None for NaN, "Infinity" for ∞."""
        ready = json_ready(dataclasses.asdict(self))
        assert isinstance(ready, dict)  # noqa: S101
        return ready

    @classmethod
    def from_dict(cls, entries: Any, *, source: str | Path = "the facts") -> "RunFacts":
        """Read facts back; entries that are absent, unknown or of another version are refused.

        Raises:
            DataError: The entries are not those of a run.
        """
        try:
            if entries["version"] != VERSION:
                raise ValueError(f"version {entries['version']!r}")
            facts = read_as(cls, entries)
            _check_whole(facts)
        except (TypeError, ValueError, KeyError) as error:
            raise DataError.of(
                source,
                expected=f"the facts of a run, version {VERSION}",
                got=str(error)[:200],
                do="Give the folder of a run made by this version of dessl, or train it again.",
            ) from error
        return facts


@dataclass(frozen=True)
class _Evaluation:
    """What is shown of an evaluation, whose other entries are free."""

    step: int
    risk: Measured
    loss: Measured
    validation: dict[str, Measured]


def _check_whole(facts: RunFacts) -> None:
    names = [method.name for method in facts.methods]
    if not names or not facts.runs:
        raise ValueError(f"{len(names)} methods and {len(facts.runs)} runs")
    used = [run.method for run in facts.runs] + [one.method for one in facts.comparisons]
    for name in used:
        if name not in names:
            raise ValueError(f"method {name!r}, which is none of {', '.join(names)}")
    for event in (event for run in facts.runs for event in run.history):
        shown = {key: event[key] for key in ("step", "risk", "loss")}
        read_as(_Evaluation, shown | {"validation": event.get("validation") or {}})
