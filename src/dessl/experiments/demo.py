"""Scikit-learn's digits with 100 labels: the complete case, PseudoLabel and DePseudoLabel.

Real 8 × 8 digits, 1,437 rows to train on and 360 for the test. For each seed 100 labels are drawn
completely at random; 80 of them train a network 64-256-256-10 with dropout, and 20 choose the step
at which a run is kept. All methods of a seed share its labels, its initial weights and its labelled
batches, so that their differences are paired. λ and τ were fixed before any run.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from dessl import _checks
from dessl.augment import Weak
from dessl.data import SemiData, draw_labels, load
from dessl.evaluation import Metrics, evaluate
from dessl.models import MLP
from dessl.objective import RiskKind
from dessl.schedules import LinearRamp
from dessl.surrogates import PseudoLabel
from dessl.training import TrainPlan, TrainResult
from dessl.training.population import PopulationRun, train_population

METHODS: dict[str, RiskKind] = {
    "complete case": "complete_case",
    "PseudoLabel": "ssl",
    "DePseudoLabel": "debiased",
}


@dataclass(frozen=True)
class DemoPlan:
    """The settings of the demonstration."""

    labels: int = 100
    validation: int = 20
    seeds: int = 5
    first_seed: int = 0
    lam: float = 0.5
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
class DemoRun:
    """One run: its method and seed, how it was trained, and its metrics on the test rows."""

    method: str
    seed: int
    result: TrainResult
    metrics: Metrics


@dataclass(frozen=True)
class DemoResult:
    """All runs, and the data with the labels of the first seed."""

    plan: DemoPlan
    data: SemiData
    runs: tuple[DemoRun, ...]


def run_demo(
    plan: DemoPlan | None = None,
    *,
    out: Path | None = None,
    progress: bool = True,
) -> DemoResult:
    """Train all methods and seeds as one population.

    Args:
        plan: The settings.
        out: Folder for checkpoints, from which the runs are gone on with; None to keep nothing.
        progress: Whether to show a progress bar, where there is a terminal.
    """
    plan = plan or DemoPlan()
    data = load("digits")
    seeds = range(plan.first_seed, plan.first_seed + plan.seeds)
    draws = {
        seed: draw_labels(
            data.y,
            plan.labels,
            n_validation=plan.validation,
            generator=torch.Generator().manual_seed(seed),
        )
        for seed in seeds
    }
    runs = [
        PopulationRun(seed, draws[seed], plan.lam, risk)
        for risk in METHODS.values()
        for seed in seeds
    ]
    surrogate = PseudoLabel(plan.threshold, view=VIEW)
    results = train_population(
        network, surrogate, data, runs, plan.training, transform=shown, out=out, progress=progress
    )
    names = {risk: name for name, risk in METHODS.items()}
    assert data.test is not None  # noqa: S101 (the catalogue's digits have a test part)
    return DemoResult(
        plan,
        data.with_labels(draws[seeds[0]]),
        tuple(
            DemoRun(names[run.risk], run.seed, result, _measured(result, data.test.x, data.test.y))
            for run, result in zip(runs, results, strict=True)
        ),
    )


VIEW = Weak(flip=False, shift=0, mean=0.3, std=0.38)  # the digits' levels, standardised


def network() -> nn.Module:
    """Build the network."""
    return nn.Sequential(nn.Flatten(), MLP(64, 10, hidden=(256, 256)))


def shown(x: Tensor) -> Tensor:
    """What a model sees of rows at evaluation; the view draws nothing."""
    return VIEW(x, torch.Generator(x.device))


def _measured(result: TrainResult, x: Tensor, y: Tensor) -> Metrics:
    return evaluate(result.model, x, y, transform=shown)
