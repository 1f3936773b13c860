"""Experiment: what one experiment runs at one profile, and its grid of cells.

A cell is one run: a data set, a method, λ and a split. :mod:`dessl_paper.catalogue` reads and
checks the TOML files.
"""

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from dessl import _checks
from dessl._entries import check_name
from dessl.data import LabelDraw, draw_labels
from dessl.data.labels import MISSING
from dessl.objective import RiskKind
from dessl.training import TrainPlan

Profile = Literal["smoke", "fast", "paper"]
Curve = Literal["validation", "test"]
MOST_CELLS = 1_000_000


@dataclass(frozen=True)
class DataSetting:
    """A data set and which of its labels are used.

    Attributes:
        name: Name in the catalogue of :mod:`dessl.data`.
        labels: Number of labels that a split draws, validation included.
        validation: How many of them are held out.
        draw: ``"mcar"`` or ``"balanced"``.
        label_noise: Share of all labels that are redrawn, in the test set too.
        rows: Use at most this many training and test rows; 0 for all.
        generated: Whether rows are generated if the set is not on disk.
    """

    name: str
    labels: int
    validation: int = 0
    draw: Literal["mcar", "balanced"] = "mcar"
    label_noise: float = 0.0
    rows: int = 0
    generated: bool = False


@dataclass(frozen=True)
class Method:
    """One row or curve: a risk with its unlabelled term.

    Attributes:
        name: Name in file names and in ``targets.toml``.
        title: Name in tables and figures.
        risk: The risk that is minimised.
        lams: Every λ it is run at; only 0 in the complete case.
        surrogate: The unlabelled term: its ``name`` and settings.
        plan: Settings of its plan that differ from the experiment's.
        every_label: Whether it gets all labels, for comparison.
    """

    name: str
    title: str
    risk: RiskKind
    lams: tuple[float, ...]
    surrogate: Mapping[str, Any] = field(default_factory=dict)
    plan: Mapping[str, Any] = field(default_factory=dict)
    every_label: bool = False


@dataclass(frozen=True)
class Experiment:
    """One experiment at one profile.

    Attributes:
        name: Name of the file.
        profile: ``"smoke"``, ``"fast"`` or ``"paper"``.
        kind: One of :data:`dessl_paper.kinds.KINDS`.
        title: A short description.
        paper: Its place in the paper.
        targets: Path of the paper's numbers in ``targets.toml``; empty if there are none.
        metrics: The metrics that tables and figures show.
        notes: Our settings where no source gives one, and differences from the paper.
        data: The data sets.
        seeds: Number of splits.
        population: Train at most this many runs at once; 0 trains one after another.
        curve: ``"validation"``, or ``"test"`` to monitor the test set during a run that selects
            nothing.
        model: ``name`` and settings of the network.
        views: ``mean`` and ``std`` of the normalisation, and the settings of each view of a term.
        plan: Training settings, without λ, risk and seed.
        methods: The methods, shown as rows or curves.
        settings: Further settings that the kind needs.
        first_seed: Seed of the first split.
    """

    name: str
    profile: Profile
    kind: str
    title: str
    paper: str
    targets: str
    metrics: tuple[str, ...]
    notes: tuple[str, ...]
    data: tuple[DataSetting, ...]
    seeds: int
    population: int
    curve: Curve
    model: Mapping[str, Any]
    views: Mapping[str, Any]
    plan: Mapping[str, Any]
    methods: tuple[Method, ...]
    settings: Mapping[str, Any]
    first_seed: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return dataclasses.asdict(self)

    def method(self, name: str) -> Method:
        """The method with a given name."""
        known = {method.name: method for method in self.methods}
        _checks.one_of("method", name, tuple(known))
        return known[name]


@dataclass(frozen=True)
class Cell:
    """One run: its data and how it is trained.

    Attributes:
        data: The data set and its labels.
        method: Risk and unlabelled term.
        lam: λ.
        seed: Seed of the split, the initial weights and the batches; shared by a split's methods.
    """

    data: DataSetting
    method: Method
    lam: float
    seed: int

    @property
    def key(self) -> str:
        """Name of its files.

        >>> method = Method("pl", "PseudoLabel", "ssl", (0.1,))
        >>> Cell(DataSetting("mnist", 1000), method, 0.1, 3).key
        'mnist-1000-pl-lam0.1-seed3'
        """
        labels = "all" if self.method.every_label else self.data.labels
        return f"{self.data.name}-{labels}-{self.method.name}-lam{self.lam:.4g}-seed{self.seed}"

    def plan(self, experiment: Experiment) -> TrainPlan:
        """How it is trained."""
        own = {"lam": self.lam, "risk": self.method.risk, "seed": self.seed}
        return TrainPlan.from_dict({**experiment.plan, **self.method.plan, **own})

    def draw(self, y: Tensor) -> LabelDraw:
        """Which labels it is given: the same for all methods of a split."""
        every = self.method.every_label
        return draw_labels(
            y,
            int((y != MISSING).sum()) if every else self.data.labels,
            how="mcar" if every else self.data.draw,
            n_validation=self.data.validation,
            generator=torch.Generator().manual_seed(self.seed),
        )


def cells_of(experiment: Experiment) -> list[Cell]:
    """Every run of an experiment, with the splits of one setting next to each other."""
    n = len(experiment.data) * sum(len(m.lams) for m in experiment.methods) * experiment.seeds
    if n > MOST_CELLS:
        raise ValueError(
            f"{experiment.name} has {n:,} runs; at most {MOST_CELLS:,} can be trained."
        )
    cells = [
        Cell(data, method, lam, seed)
        for data in experiment.data
        for method in experiment.methods
        for lam in method.lams
        for seed in range(experiment.first_seed, experiment.first_seed + experiment.seeds)
    ]
    counts = Counter(cell.key for cell in cells)
    if twice := sorted(key for key, count in counts.items() if count > 1):
        raise ValueError(
            f"{experiment.name} has two runs with the same name ({', '.join(twice[:3])}): their "
            "records would overwrite each other. Use different numbers of labels, or λ that differ "
            "within four digits."
        )
    return cells


def populations(experiment: Experiment, cells: list[Cell], shares: int = 1) -> list[list[Cell]]:
    """Cells that can be trained at once: the same data, term and plan, except for λ and risk.

    Sorted by split, so that a sweep of single runs that ends early has whole splits.

    Args:
        experiment: Gives the largest population.
        cells: The cells to train.
        shares: Number of parts of about equal size into which each population is split, for
            several ranks.
    """
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        shared = (cell.data, cell.method.surrogate, cell.method.plan, cell.method.every_label)
        groups.setdefault(repr(shared), []).append(cell)
    parts: list[list[Cell]] = []
    for group in groups.values():
        most = min(experiment.population or 1, -(-len(group) // shares))
        parts += (group[first : first + most] for first in range(0, len(group), most))
    return sorted(parts, key=lambda part: part[0].seed)


def common_name(cells: list[Cell]) -> str:
    """Name of a folder for one cell, or for several together."""
    if len(cells) == 1:
        return cells[0].key
    keys = "\n".join(cell.key for cell in cells)
    return f"{len(cells)}-runs-{hashlib.sha256(keys.encode()).hexdigest()[:12]}"


def check_metrics(experiment: Experiment, known: Collection[str], source: str) -> None:
    """Reject metrics that the experiment does not measure."""
    for number, metric in enumerate(experiment.metrics):
        check_name(metric, known, source=source, at=f"metrics[{number}]")
