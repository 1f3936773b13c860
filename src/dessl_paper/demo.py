"""Scikit-learn's digits with 100 labels: the complete case, PseudoLabel and DePseudoLabel.

Real 8 × 8 digits, 1,437 rows to train on and 360 for the test. For each seed 100 labels are drawn
completely at random; 80 of them train a network 64-256-256-10 with dropout, and 20 choose the step
at which a run is kept. All methods of a seed share its labels, its initial weights and its labelled
batches, so that their differences are paired. λ and τ were fixed before any run. Beside them, for
comparison: the two methods at other λ, and the complete case with all labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor, nn

from dessl import _checks
from dessl.augment import Weak
from dessl.data import LabelDraw, SemiData, draw_labels, load
from dessl.evaluation import evaluate
from dessl.models import MLP
from dessl.objective import RiskKind
from dessl.results.record import Record, thinned
from dessl.schedules import LinearRamp
from dessl.surrogates import PseudoLabel
from dessl.training import TrainPlan, TrainResult
from dessl.training.population import PopulationRun, train_population

METHODS: dict[str, RiskKind] = {
    "complete case": "complete_case",
    "PseudoLabel": "ssl",
    "DePseudoLabel": "debiased",
}
ALL_LABELS = "all labels"  # the complete case with them, which says how much there is to gain
FEW_LABELS = "few-labels"  # folder of the runs that are compared

Setting: TypeAlias = tuple[str, RiskKind, float]  # method, risk and λ


@dataclass(frozen=True)
class DemoPlan:
    """The settings of the demonstration."""

    labels: int = 100
    validation: int = 20
    seeds: int = 5
    first_seed: int = 0
    lam: float = 0.5
    other_lams: tuple[float, ...] = (0.1, 1.0, 2.0)
    threshold: float = 0.95
    steps: int = 300

    def __post_init__(self) -> None:
        """Refuse settings that cannot run."""
        for name in ("labels", "steps"):
            _checks.whole_number(name, getattr(self, name), low=1)
        _checks.whole_number("seeds", self.seeds, low=2)  # one has no interval, and no verdict
        for name in ("validation", "first_seed"):
            _checks.whole_number(name, getattr(self, name))

    @property
    def training(self) -> TrainPlan:
        """What all runs share."""
        return TrainPlan(
            steps=self.steps,
            labelled_batch=32,
            unlabelled_batch=96,
            optimiser="adamw",
            learning_rate=2e-3,
            weight_decay=1e-2,
            lam=self.lam,
            ramp=LinearRamp(until=1 / 6),
            evaluate_every=max(1, self.steps // 12),
            select="cross_entropy",
        )


@dataclass(frozen=True)
class DemoResult:
    """All runs, those at other λ apart, and the data with the labels of the first seed."""

    plan: DemoPlan
    data: SemiData
    runs: tuple[Record, ...]
    sweep: tuple[Record, ...]


def run_demo(
    plan: DemoPlan | None = None,
    *,
    out: Path | None = None,
    progress: bool = True,
) -> DemoResult:
    """Train all methods and seeds as one population, other λ as one, and all labels as one.

    Args:
        plan: The settings.
        out: Folder for checkpoints, from which the runs are gone on with; None to keep nothing.
        progress: Whether to show a progress bar, where there is a terminal.
    """
    plan = plan or DemoPlan()
    data = load("digits")
    main = [(name, risk, plan.lam) for name, risk in METHODS.items()]
    other = [
        (name, risk, lam)
        for name, risk in METHODS.items()
        for lam in plan.other_lams
        if risk != "complete_case"
    ]

    def trained(settings: Sequence[Setting], labels: int, folder: str) -> tuple[Record, ...]:
        place = out / folder if out else None
        return _trained(plan, data, settings, labels, place, progress=progress)

    few = trained(main, plan.labels, FEW_LABELS)
    every = trained([(ALL_LABELS, "complete_case", plan.lam)], len(data), "all-labels")
    sweep = trained(other, plan.labels, "other-lambdas")
    drawn = _drawn(plan, data.y, plan.labels, plan.first_seed)
    return DemoResult(plan, data.with_labels(drawn), (*few, *every), sweep)


def _trained(
    plan: DemoPlan,
    data: SemiData,
    settings: Sequence[Setting],
    labels: int,
    out: Path | None,
    *,
    progress: bool,
) -> tuple[Record, ...]:
    """Every seed of some settings as one population."""
    seeds = range(plan.first_seed, plan.first_seed + plan.seeds)
    draws = {seed: _drawn(plan, data.y, labels, seed) for seed in seeds}
    runs = [
        PopulationRun(seed, draws[seed], lam, risk) for _, risk, lam in settings for seed in seeds
    ]
    surrogate = PseudoLabel(plan.threshold, view=VIEW)
    results = train_population(
        network, surrogate, data, runs, plan.training, transform=shown, out=out, progress=progress
    )
    names = [name for name, *_ in settings for _ in seeds]
    return tuple(
        _record(name, run, result, data)
        for name, run, result in zip(names, runs, results, strict=True)
    )


def _drawn(plan: DemoPlan, y: Tensor, labels: int, seed: int) -> LabelDraw:
    generator = torch.Generator().manual_seed(seed)
    return draw_labels(y, labels, n_validation=plan.validation, generator=generator)


VIEW = Weak(flip=False, shift=0, mean=0.3, std=0.38)  # the digits' levels, standardised


def network() -> nn.Module:
    """Build the network."""
    return nn.Sequential(nn.Flatten(), MLP(64, 10, hidden=(256, 256)))


def shown(x: Tensor) -> Tensor:
    """What a model sees of rows at evaluation; the view draws nothing."""
    return VIEW(x, torch.Generator(x.device))


def _record(method: str, run: PopulationRun, result: TrainResult, data: SemiData) -> Record:
    assert data.test is not None  # noqa: S101 (the catalogue's digits have a test part)
    metrics = evaluate(result.model, data.test.x, data.test.y, transform=shown)
    lam = 0.0 if run.risk == "complete_case" else run.lam
    return Record(
        experiment="demo",
        profile="",
        key=f"{method.replace(' ', '_')}-lam{lam:.4g}-seed{run.seed}",
        data=data.name,
        labels=len(run.draw.labelled) + len(run.draw.validation),
        method=method,
        title=method,
        risk=run.risk,
        lam=lam,
        seed=run.seed,
        settings={},
        metrics=metrics.as_dict(),
        training={
            "selected_step": result.step,
            "steps": result.steps,
            "mode": result.mode,
            "seconds": round(result.seconds, 3),
        },
        made_with={},
        history=thinned(result.history),
    )
