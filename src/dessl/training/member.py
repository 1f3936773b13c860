"""One of the runs being trained: its plan, events, best evaluation, end and result."""

import dataclasses
import json
import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from torch import Tensor, nn

from dessl import _checks
from dessl._html import card
from dessl._json import finite
from dessl.evaluation.metrics.vocabulary import higher_is_better, metric_text, written
from dessl.training.plan import TrainPlan


@dataclass(frozen=True)
class Event:
    """A run at one evaluation; means are over the steps since the previous one.

    Attributes:
        step: Steps done.
        steps: Steps of the whole run.
        epoch: Passes through the labelled rows.
        risk: Mean risk.
        loss: Mean of L over labelled rows.
        h_labelled: Mean of H over labelled rows (the debiasing term).
        h_unlabelled: Mean of H over unlabelled rows (the SSL term).
        mask_labelled: Share of labelled rows with H ≠ 0.
        mask_unlabelled: Share of unlabelled rows with H ≠ 0; None if none are drawn.
        gradient_norm: Mean norm of the gradient.
        learning_rate: Learning rate of the last step.
        lam: λ of the last step; the largest one if a sum of terms has several.
        steps_per_second: Steps per second since the previous evaluation.
        validation: Metrics on the validation part, for the averaged weights if the plan has
            ``ema``.
        correlation: ρ(L, H) over validation rows.
        lam_opt: Estimated λ of least variance, from validation rows.
        best: Whether this is the best evaluation so far by ``plan.select``.
        lams: λ of each term of a sum in the last step, with ``TrainPlan(online=True)``.
    """

    step: int
    steps: int
    epoch: float
    risk: float
    loss: float
    h_labelled: float
    h_unlabelled: float
    mask_labelled: float
    mask_unlabelled: float | None
    gradient_norm: float
    learning_rate: float
    lam: float
    steps_per_second: float
    validation: dict[str, float | None] | None = None
    correlation: float | None = None
    lam_opt: float | None = None
    best: bool = False
    lams: list[float] | None = None

    def as_line(self) -> str:
        """Return one line of JSON; NaN is written as null, and ``lams`` only if there are any."""
        values = dataclasses.asdict(self)
        if self.lams is None:
            del values["lams"]
        return json.dumps(finite(values), allow_nan=False) + "\n"


Callback: TypeAlias = Callable[[Event], None]


def checked_callbacks(callbacks: object) -> tuple[Callback, ...]:
    """Return callbacks as a tuple; refuse anything but functions before the first step.

    >>> checked_callbacks([print, 3])
    Traceback (most recent call last):
    TypeError: callbacks must be a list of functions of an Event; got int in it.
    """
    if callable(callbacks) or not isinstance(callbacks, Iterable):
        got = "one function" if callable(callbacks) else type(callbacks).__name__
        raise TypeError(f"callbacks must be a list of functions of an Event; got {got}.")
    found = tuple(callbacks)
    for one in found:
        if not callable(one):
            raise TypeError(
                "callbacks must be a list of functions of an Event; got "
                f"{type(one).__name__} in it."
            )
    return found


@dataclass(frozen=True)
class TrainResult:
    """The result of training.

    Attributes:
        model: The given (or built) model with the selected weights, in evaluation mode.
        history: One event for each evaluation.
        step: The step whose weights were selected.
        steps: Steps done; fewer than planned if stopped early.
        plan: Training plan.
        mode: How steps were executed: ``"eager"``, ``"compiled"``, ``"graph"``, ``"compiled
            graph"``; ``"population"`` and how it was executed.
        seconds: Time taken, including evaluations and compiling. A resumed run includes earlier
            sessions up to their checkpoint; a run of a population gets its share.
        diverged: Whether the run was stopped in a population because it diverged;
            :func:`dessl.train` raises an error instead.
        validation_logits: Logits (evaluations, n, classes), if a population keeps them, in
            the order of ``history``.
    """

    model: nn.Module
    history: tuple[Event, ...]
    step: int
    steps: int
    plan: TrainPlan
    mode: str
    seconds: float
    diverged: bool = False
    validation_logits: Tensor | None = None

    def _repr_html_(self) -> str:
        last = next((e for e in reversed(self.history) if e.step == self.step), None)
        found = (last.validation or {}) if last else {}
        shown = {
            metric_text(name): written(name, value)
            for name, value in found.items()
            if name in ("accuracy", "cross_entropy") and value is not None
        }
        entries = {
            "model": type(self.model).__name__,
            "risk": self.plan.risk,
            "λ": self.plan.lam,
            "selected": f"step {self.step} of {self.steps}",
            "seconds": f"{self.seconds:.1f} ({self.mode})",
        }
        validated = {f"validation {name}": value for name, value in shown.items()}
        return card(
            "TrainResult, diverged" if self.diverged else "TrainResult", entries | validated
        )


@dataclass
class Selection:
    """The best evaluation so far, and the number of evaluations since."""

    value: float = math.nan
    step: int = 0
    waited: int = 0

    def take(self, value: float | None, step: int, plan: TrainPlan) -> bool:
        """Consider one more evaluation and return whether to keep it; NaN is never kept.

        One that only equals the best is kept if the plan gives ties to the last, but still counts
        as waiting.
        """
        if value is None or math.isnan(value):
            if not self.step and not self.waited:
                warnings.warn(
                    f"select={plan.select!r} is undefined on the validation rows at step {step}; a "
                    "class may be missing among them. Such evaluations are never selected; if all "
                    "are undefined, the last weights are kept. Hold out more rows, or select by "
                    "another metric.",
                    UserWarning,
                    stacklevel=2,
                )
            self.waited += 1
            return False
        higher = higher_is_better(plan.select)
        ahead = value > self.value if higher else value < self.value
        better = ahead or math.isnan(self.value)
        self.waited = 0 if better else self.waited + 1
        if better or (value == self.value and plan.ties == "last"):
            self.value, self.step = float(value), step
            return True
        return False


@dataclass
class Member:
    """One run in the loop, alone or one of many.

    Args:
        plan: Training plan.
        n_labelled: Number of labelled rows, by which epochs are counted.
    """

    plan: TrainPlan
    n_labelled: int
    history: list[Event] = field(default_factory=list)
    selection: Selection = field(default_factory=Selection)
    ended: int | None = None  # the step at which it stopped early
    diverged: bool = False

    def evaluated(
        self,
        done: int,
        means: Mapping[str, Any],
        pace: float,
        *,
        validation: dict[str, float | None] | None,
        correlation: float | None = None,
        lam_opt: float | None = None,
        lam: float | None = None,
        lams: list[float] | None = None,
    ) -> Event:
        """Add an event to the history, select, and end the run if patience has run out.

        Args:
            done: Steps done.
            means: Means over the steps since the last evaluation, by the names in ``totals.NAMES``.
            pace: Steps per second.
            validation: Metrics on the validation rows, if any.
            correlation: ρ(L, H) over validation rows.
            lam_opt: Estimated λ of least variance.
            lam: λ of the last step, if it differs from the plan's.
            lams: λ of each term of a sum in that step, if they differ.
        """
        plan, best = self.plan, False
        steps = plan.total_steps(self.n_labelled)
        if plan.select != "last":
            best = self.selection.take((validation or {}).get(plan.select), done, plan)
        if not plan.drawn_unlabelled:
            means = {**means, "mask_unlabelled": None}
        event = Event(
            step=done,
            steps=steps,
            epoch=done / plan.epoch_steps(self.n_labelled),
            learning_rate=plan.learning_rate_at(done - 1, steps),
            lam=plan.lam_at(done - 1, steps) if lam is None else lam,
            steps_per_second=pace,
            validation=validation,
            correlation=correlation,
            lam_opt=lam_opt,
            best=best,
            lams=lams,
            **means,
        )
        self.history.append(event)
        begun = (done - plan.patience_after) // plan.evaluation_interval(self.n_labelled)
        if plan.patience is not None and min(self.selection.waited, begun) >= plan.patience:
            self.ended = done
        return event

    def result(self, model: nn.Module, done: int, mode: str, seconds: float) -> TrainResult:
        """Return the result of a run whose selected weights are in the model."""
        last = self.history[-1].step if self.history else 0
        chosen, steps = self.selection.step or last, self.ended or done
        how = (self.plan, mode, seconds, self.diverged)
        return TrainResult(model.eval(), tuple(self.history), chosen, steps, *how)

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint keeps of the run, in numbers and text."""
        lines = [json.dumps(dataclasses.asdict(event)) + "\n" for event in self.history]
        return {
            "history": "".join(lines),  # NaN as NaN: a resumed history is the unbroken one
            "selection": dataclasses.asdict(self.selection),
            "ended": self.ended,
            "diverged": self.diverged,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from what :meth:`state_dict` returned."""
        ended, found = state["ended"], state["selection"]
        counts = (_checks.whole_number(name, found[name]) for name in ("step", "waited"))
        self.history = [Event(**json.loads(line)) for line in state["history"].splitlines()]
        self.selection = Selection(float(found["value"]), *counts)
        self.ended = None if ended is None else _checks.whole_number("ended", ended, low=1)
        self.diverged = _checks.true_or_false("diverged", state["diverged"])
