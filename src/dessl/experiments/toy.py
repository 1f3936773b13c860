"""The paper's toy example (figure 1, appendix A): what each risk learns of two uniform laws.

The paper gives the network, the data, λ = 1, τ = 0.7 and SGD with learning rate 0.1. Ours: batches
of 256 + 256, a complete-case warm start of 1,000 steps (the paper's curves do not start from
scratch either) and a learning rate that falls linearly to zero over the 3,000 steps after it.
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
from dessl.risk import Risk, complete_case_risk, debiased_risk, ssl_risk

Progress = Callable[[str, int], None]
RiskOf = Callable[[nn.Module, Tensor, Tensor, Tensor], Risk]


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
        """Refuse settings that cannot run."""
        for name in ("n_labelled", "n_unlabelled", "batch", "steps", "record_every"):
            _checks.whole_number(name, getattr(self, name), low=1)
        for name in ("warm_steps", "seed"):
            _checks.whole_number(name, getattr(self, name), low=0)
        _checks.number("learning_rate", self.learning_rate, low=0, open_low=True)
        _checks.number("threshold", self.threshold, low=0, high=1)
        _checks.number("lam", self.lam)


@dataclass(frozen=True)
class ToyRun:
    """What one method learnt.

    Attributes:
        posterior: p(1|x) on the result's grid, shape (points,).
        overlap_posterior: Its mean over x in [1.2, 2.8], where the truth is 0.25.
        training_cross_entropy: Mean over all labelled points, by step.
    """

    posterior: Tensor
    overlap_posterior: float
    training_cross_entropy: dict[int, float]


@dataclass(frozen=True)
class ToyResult:
    """All methods on one data set, from one warm start and with the same batches."""

    plan: ToyPlan
    data: SemiData
    grid: Tensor
    truth: Tensor
    runs: dict[str, ToyRun]


# A method is an unlabelled term and what is done with it; the complete case has none.
METHODS = {
    "complete case": ("complete_case", ""),
    "PseudoLabel": ("ssl", "pseudo_label"),
    "DePseudoLabel": ("debiased", "pseudo_label"),
    "EntMin": ("ssl", "entropy"),
    "DeEntMin": ("debiased", "entropy"),
}


def run_toy(plan: ToyPlan | None = None, *, progress: Progress | None = None) -> ToyResult:
    """Train every method of the toy example.

    Args:
        plan: The settings; the defaults take a few seconds a method on one core.
        progress: Called with the method's name and its step, after each step.

    >>> result = run_toy(ToyPlan(n_labelled=200, n_unlabelled=200, warm_steps=5, steps=5))
    >>> sorted(result.runs)
    ['DeEntMin', 'DePseudoLabel', 'EntMin', 'PseudoLabel', 'complete case']
    """
    plan = ToyPlan() if plan is None else plan
    source = torch.Generator().manual_seed(plan.seed)
    data = two_uniforms(plan.n_labelled, plan.n_unlabelled, generator=source)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(plan.seed)
        start = ToyMLP()
    for _ in _steps(start, data, _risk("complete_case", "", plan), plan, source, warm=True):
        pass
    after_warm_start = source.get_state()
    grid = torch.linspace(0, 10, 1001)
    runs = {}
    for name, (kind, term) in METHODS.items():
        source.set_state(after_warm_start)  # paired: every method draws the same batches
        model = copy.deepcopy(start)
        losses = {0: _training_cross_entropy(model, data)}
        for step in _steps(model, data, _risk(kind, term, plan), plan, source, warm=False):
            if step % plan.record_every == 0:
                losses[step] = _training_cross_entropy(model, data)
            if progress is not None:
                progress(name, step)
        posterior = _posterior(model, grid)
        overlap = float(posterior[(grid >= 1.2) & (grid <= 2.8)].mean())
        runs[name] = ToyRun(posterior, overlap, losses)
    return ToyResult(plan, data, grid, two_uniforms_posterior(grid), runs)


def _risk(kind: str, term: str, plan: ToyPlan) -> RiskOf:
    """The risk of a batch under a method; the complete case forwards labelled points only."""

    def h(logits: Tensor) -> Tensor:
        return entropy(logits) if term == "entropy" else pseudo_label(logits, plan.threshold)

    def risk(model: nn.Module, x: Tensor, y: Tensor, x_unlabelled: Tensor) -> Risk:
        if kind == "complete_case":
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
