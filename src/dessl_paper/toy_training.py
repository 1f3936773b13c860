"""The paper's toy example (figure 1, appendix A): what each risk learns on two uniform classes.

The paper gives the network, the data, λ = 1, τ = 0.7 and SGD with learning rate 0.1. Ours: batches
of 256 + 256, a complete-case warm start of 1,000 steps (the paper's curves do not start from
scratch either) and a learning rate that falls linearly to zero over the following 3,000 steps.
"""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dessl import _checks
from dessl.data.semi import SemiData
from dessl.data.toy import two_uniforms, two_uniforms_posterior
from dessl.functional import cross_entropy, entropy, log_probabilities, pseudo_label
from dessl.models import ToyMLP
from dessl.objective import RiskKind
from dessl.risk import COMPLETE_CASE, Risk, complete_case_risk, debiased_risk, ssl_risk

RiskOf = Callable[[nn.Module, Tensor, Tensor, Tensor], Risk]
TERMS = ("pseudo_label", "entropy")


@dataclass(frozen=True)
class ToyPlan:
    """The settings of the toy example."""

    n_labelled: int = 25_000
    n_unlabelled: int = 25_000
    lam: float = 1.0
    threshold: float = 0.7
    learning_rate: float = 0.1
    batch: int = 256
    warm_steps: int = 1000
    steps: int = 3000
    record_every: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        """Reject settings that cannot run."""
        for name in ("n_labelled", "n_unlabelled", "batch", "steps", "record_every"):
            _checks.whole_number(name, getattr(self, name), low=1)
        for name in ("warm_steps", "seed"):
            _checks.whole_number(name, getattr(self, name), low=0)
        _checks.number("learning_rate", self.learning_rate, low=0, open_low=True)
        _checks.number("threshold", self.threshold, low=0, high=1)
        _checks.number("lam", self.lam)


@dataclass(frozen=True)
class ToyStart:
    """The state from which all methods of a split continue.

    Attributes:
        plan: The settings.
        data: Labelled and unlabelled points.
        model: The network after the warm start.
        source: State of the generator that draws the next batches.
    """

    plan: ToyPlan
    data: SemiData
    model: nn.Module
    source: Tensor


@dataclass(frozen=True)
class ToyRun:
    """What one method learnt.

    Attributes:
        grid: Points x, shape (points,).
        truth: The true p(1|x) at these points.
        posterior: The model's p(1|x).
        overlap_posterior: Its mean over x in [1.2, 2.8], where the truth is 0.25.
        training_cross_entropy: Mean over all labelled points, by step.
    """

    grid: Tensor
    truth: Tensor
    posterior: Tensor
    overlap_posterior: float
    training_cross_entropy: dict[int, float]


def warm_start(plan: ToyPlan) -> ToyStart:
    """Draw the data and train the complete case for ``plan.warm_steps``.

    >>> start = warm_start(ToyPlan(n_labelled=200, n_unlabelled=100, warm_steps=5))
    >>> start.data.n_labelled, start.data.n_unlabelled
    (200, 100)
    """
    source = torch.Generator().manual_seed(plan.seed)
    data = two_uniforms(plan.n_labelled, plan.n_unlabelled, generator=source)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(plan.seed)
        model = ToyMLP()
    for _ in _steps(model, data, _risk(COMPLETE_CASE, "", plan), plan, source, warm=True):
        pass
    return ToyStart(plan, data, model, source.get_state())


def trained_toy(
    start: ToyStart, risk: RiskKind, term: str, *, progress: Callable[[int], None] | None = None
) -> ToyRun:
    """Train one method from the end of the warm start, which is not modified.

    Args:
        start: The split's warm start; every method that continues from it draws the same batches.
        risk: The risk to minimise.
        term: ``"pseudo_label"`` or ``"entropy"``; the complete case has none.
        progress: Called after each step with its number.

    >>> start = warm_start(ToyPlan(n_labelled=200, n_unlabelled=200, warm_steps=5, steps=5))
    >>> sorted(trained_toy(start, "debiased", "entropy").training_cross_entropy)
    [0, 5]
    """
    if risk != COMPLETE_CASE:
        _checks.one_of("term", term, TERMS)
    plan, data, model = start.plan, start.data, copy.deepcopy(start.model)
    source = torch.Generator()
    source.set_state(start.source)
    losses = {0: _training_cross_entropy(model, data)}
    for step in _steps(model, data, _risk(risk, term, plan), plan, source, warm=False):
        if step % plan.record_every == 0 or step == plan.steps:
            losses[step] = _training_cross_entropy(model, data)
        if progress is not None:
            progress(step)
    grid = torch.arange(1000) / 100  # up to 9.99: at 10 neither class has any density
    posterior = _posterior(model, grid)
    overlap = float(posterior[(grid >= 1.2) & (grid <= 2.8)].mean())
    return ToyRun(grid, two_uniforms_posterior(grid), posterior, overlap, losses)


def _risk(kind: str, term: str, plan: ToyPlan) -> RiskOf:
    """The risk of a batch for a method; the complete case forwards labelled points only."""

    def h(logits: Tensor) -> Tensor:
        return entropy(logits) if term == "entropy" else pseudo_label(logits, plan.threshold)

    def risk(model: nn.Module, x: Tensor, y: Tensor, x_unlabelled: Tensor) -> Risk:
        if kind == COMPLETE_CASE:
            return complete_case_risk(cross_entropy(model(x), y))
        logits = model(torch.cat([x, x_unlabelled]))
        labelled, unlabelled = logits[: len(x)], logits[len(x) :]
        loss = cross_entropy(labelled, y)
        if kind == "ssl":
            return ssl_risk(loss, h(unlabelled), plan.lam)
        return debiased_risk(loss, h(labelled), h(unlabelled), plan.lam)

    return risk


def _steps(
    model: nn.Module,
    data: SemiData,
    risk: RiskOf,
    plan: ToyPlan,
    source: torch.Generator,
    *,
    warm: bool,
) -> Iterator[int]:
    """Take SGD steps, yielding the number of each; after the warm start the rate falls to 0."""
    optimiser = torch.optim.SGD(model.parameters(), lr=plan.learning_rate)
    steps = plan.warm_steps if warm else plan.steps
    for step in range(steps):
        if not warm:
            optimiser.param_groups[0]["lr"] = plan.learning_rate * (1 - step / steps)
        rows = _batch(data.labelled_rows, plan.batch, source)
        others = _batch(data.unlabelled_rows, plan.batch, source)
        optimiser.zero_grad()
        value = risk(model, data.x[rows], data.y[rows], data.x[others]).value
        torch.autograd.backward(value)
        optimiser.step()
        yield step + 1


def _batch(rows: Tensor, size: int, source: torch.Generator) -> Tensor:
    return rows[torch.randint(len(rows), (size,), generator=source)]


@torch.no_grad()
def _training_cross_entropy(model: nn.Module, data: SemiData) -> float:
    rows = data.labelled_rows
    return float(cross_entropy(model(data.x[rows]), data.y[rows]).mean())


@torch.no_grad()
def _posterior(model: nn.Module, points: Tensor) -> Tensor:
    return log_probabilities(model(points.unsqueeze(1))).exp()[:, 1]
