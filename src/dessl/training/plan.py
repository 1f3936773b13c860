"""TrainPlan: all settings of a run except its model, surrogate and data, checked early."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from dessl import _checks
from dessl.evaluation.metrics.vocabulary import METRICS
from dessl.objective import RiskKind
from dessl.risk import COMPLETE_CASE, RISKS, Bound, On, check_options, risk_named
from dessl.schedules import CONSTANT, Schedule, ScheduleLike, schedule_dict, schedule_from

Optimiser = Literal["sgd", "adamw", "muon"]
Precision = Literal["float32", "bf16"]
Switch = Literal["auto", "on", "off"]

EVALUATIONS = 20  # per run, by default


@dataclass(frozen=True)
class TrainPlan:
    """How to train: frozen, checked, and the same after a round trip through JSON.

    Args:
        steps: Optimiser steps. Give this or ``epochs``.
        epochs: Passes through the labelled rows, each of n_labelled // labelled_batch steps (at
            least one), as the paper's code counts them; the same for every risk.
        labelled_batch: Labelled rows per step.
        unlabelled_batch: Unlabelled rows per step. The complete case always draws none.
        optimiser: ``"sgd"`` (momentum), ``"adamw"``, or ``"muon"`` for weight matrices and
            convolutions with AdamW for the rest.
        learning_rate: Peak learning rate.
        schedule: Schedule of the learning rate: one of :mod:`dessl.schedules`, its name, or its
            dict.
        momentum: Momentum of SGD and Muon.
        nesterov: Whether to use Nesterov momentum, for SGD and Muon.
        weight_decay: Weight decay; never on biases and normalisation layers.
        lam: Peak λ.
        online: Whether λ follows the gradients of validation rows, from 0 up to ``lam``
            and the surrogate's bound (:mod:`dessl.training.online`): if H predicts nothing of L, it
            stays at 0.
        ramp: Schedule of λ, in the same form as ``schedule``: ``"ramp"`` or ``"linear_ramp"`` raise
            it from 0. To lower it, pass a schedule, such as ``Linear()``: the name
            alone of a schedule that lowers λ is an error.
        risk: A key of ``dessl.risk.RISKS``: ``"complete_case"``, ``"ssl"``, ``"debiased"``, or
            ``"inverse_propensity"``, for data with propensities.
        on: Same as in :func:`dessl.debiased_risk`; ``"all"`` counts rows of the data, not of a
            batch.
        bound: Same as in :func:`dessl.debiased_risk`.
        include_labelled: Whether the unlabelled stream draws labelled rows too, without labels.
        ema: Decay of the averaged weights that are evaluated and kept; 0 for none.
        precision: ``"float32"`` or ``"bf16"`` (autocast).
        compile: ``"auto"``: on CUDA, if it works. ``"on"``: an error if it does not work.
        graph: The same, for the CUDA graph of a step.
        evaluate_every: Steps between evaluations, each with a checkpoint; by default an epoch
            for ``epochs``, a twentieth of the run for ``steps``.
        select: ``"last"``, or the validation metric whose best evaluation is kept.
        ties: Which of equally good evaluations is kept, ``"first"`` or ``"last"``: few validation
            rows give many ties, and the last has trained longest.
        patience: Evaluations without improvement of ``select`` before the run ends; None for no
            limit.
        patience_after: Steps before those evaluations start to count.
        seed: Seed of the two streams, of dropout, and of a model given as a function.
        guard_every: Steps between checks for NaN and explosions; 0 for evaluations only.
        risk_limit: Size of the risk above which the run counts as diverged.

    >>> plan = TrainPlan(steps=100, lam=0.5, schedule="cosine")
    >>> TrainPlan.from_dict(plan.as_dict()) == plan
    True
    """

    steps: int | None = None
    epochs: int | None = None
    labelled_batch: int = 64
    unlabelled_batch: int = 448
    optimiser: Optimiser = "sgd"
    learning_rate: float = 0.03
    schedule: ScheduleLike = CONSTANT
    momentum: float = 0.9
    nesterov: bool = True
    weight_decay: float = 0.0
    lam: float = 1.0
    online: bool = False
    ramp: ScheduleLike = CONSTANT
    risk: RiskKind = "debiased"
    on: On = "unlabelled"
    bound: Bound | None = None
    include_labelled: bool = False
    ema: float = 0.0
    precision: Precision = "float32"
    compile: Switch = "auto"
    graph: Switch = "auto"
    evaluate_every: int | None = None
    select: str = "last"
    ties: Literal["first", "last"] = "first"
    patience: int | None = None
    patience_after: int = 0
    seed: int = 0
    guard_every: int = 0
    risk_limit: float = 1e6

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.generic):  # JSON does not accept it
                object.__setattr__(self, field.name, value.item())
        object.__setattr__(self, "schedule", schedule_from(self.schedule))
        object.__setattr__(self, "ramp", _ramp_from(self.ramp))
        self._check_values()
        self._check_agreement()

    def _check_values(self) -> None:
        _checks.one_of("optimiser", self.optimiser, ("sgd", "adamw", "muon"))
        risk_named(self.risk)
        _checks.one_of("on", self.on, ("unlabelled", "all"))
        _checks.one_of("bound", self.bound, (None, "nonnegative"))
        _checks.one_of("precision", self.precision, ("float32", "bf16"))
        _checks.one_of("compile", self.compile, ("auto", "on", "off"))
        _checks.one_of("graph", self.graph, ("auto", "on", "off"))
        _checks.one_of("select", self.select, ("last", *METRICS))
        _checks.one_of("ties", self.ties, ("first", "last"))
        for name in ("nesterov", "include_labelled", "online"):
            _checks.true_or_false(name, getattr(self, name))
        lowest = {"steps": 1, "epochs": 1, "evaluate_every": 1, "patience": 1}
        for name, low in lowest.items():
            if getattr(self, name) is not None:
                _checks.whole_number(name, getattr(self, name), low=low)
        _checks.whole_number("labelled_batch", self.labelled_batch, low=1)
        for name in ("unlabelled_batch", "guard_every", "patience_after"):
            _checks.whole_number(name, getattr(self, name))
        _checks.whole_number("seed", self.seed, high=2**64 - 1)  # PyTorch's limit
        _checks.number("learning_rate", self.learning_rate, low=0, open_low=True, open_high=True)
        for name in ("momentum", "ema"):
            _checks.number(name, getattr(self, name), low=0, high=1, open_high=True)
        if isinstance(self.lam, str):
            raise TypeError(
                f"lam must be a number; got {self.lam!r}. For a λ that follows the validation "
                "rows, pass lam=1.0, online=True; for one estimated on held-out labels, use "
                "DeSSLClassifier(lam='auto', module=...)."
            )
        for name in ("weight_decay", "lam"):
            _checks.number(name, getattr(self, name), low=0, open_high=True)
        _checks.number("risk_limit", self.risk_limit, low=0, open_low=True)

    def _check_agreement(self) -> None:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError(
                f"exactly one of steps and epochs must be given; got steps={self.steps}, "
                f"epochs={self.epochs}."
            )
        check_options(self.risk, on=None if self.on == "unlabelled" else self.on, bound=self.bound)
        if self.adds_on_all and self.include_labelled:
            which = f"risk={self.risk!r}" if RISKS[self.risk].on_all else "on='all'"
            raise ValueError(
                f"{which} adds labelled rows to the mean of H, but include_labelled already draws "
                "them: together they would count twice. Choose one."
            )
        if RISKS[self.risk].unlabelled and self.unlabelled_batch == 0:
            raise ValueError(
                f"risk={self.risk!r} needs unlabelled rows; got unlabelled_batch=0. "
                f"Use risk={COMPLETE_CASE!r} to train on labelled rows alone."
            )
        if self.online and not RISKS[self.risk].takes_back:
            raise ValueError(
                f"online=True estimates the λ of a debiased risk; got risk={self.risk!r}. Use "
                "risk='debiased', or a fixed lam."
            )
        if self.patience is not None and self.select == "last":
            raise ValueError(
                "patience needs a validation metric; got select='last'. "
                "Choose the metric, such as select='accuracy'."
            )
        if self.optimiser == "adamw" and self.momentum != TrainPlan.momentum:
            raise ValueError("momentum is for SGD and Muon; AdamW has none. Omit it.")
        if self.nesterov and self.momentum == 0 and self.optimiser == "sgd":
            raise ValueError("Nesterov's momentum needs momentum > 0. Pass nesterov=False.")

    @property
    def drawn_unlabelled(self) -> int:
        """Unlabelled rows drawn per step: none in the complete case."""
        return self.unlabelled_batch if RISKS[self.risk].unlabelled else 0

    @property
    def adds_on_all(self) -> bool:
        """Whether H is added on labelled and unlabelled rows together."""
        return self.on == "all" or RISKS[self.risk].on_all

    def epoch_steps(self, n_labelled: int) -> int:
        """Steps per pass through the labelled rows.

        >>> TrainPlan(epochs=1, labelled_batch=72).epoch_steps(900)
        12
        """
        return max(1, n_labelled // self.labelled_batch)

    def total_steps(self, n_labelled: int) -> int:
        """Steps of the whole run."""
        return self.steps or (self.epochs or 0) * self.epoch_steps(n_labelled)

    def evaluation_interval(self, n_labelled: int) -> int:
        """Steps from one evaluation to the next."""
        if self.evaluate_every is not None:
            return self.evaluate_every
        if self.epochs is not None:
            return self.epoch_steps(n_labelled)
        return max(1, (self.steps or 0) // EVALUATIONS)

    def learning_rate_at(self, step: int, steps: int) -> float:
        """Learning rate of a step, the first being 0."""
        return self.learning_rate * schedule_from(self.schedule)(step, steps)

    def lam_at(self, step: int, steps: int) -> float:
        """λ of a step, the first being 0."""
        return self.lam * schedule_from(self.ramp)(step, steps)

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as JSON can represent them."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        for name in ("online", "patience_after"):
            if not values[name]:  # so that runs from before this setting can be resumed
                del values[name]
        return values | {name: schedule_dict(values[name]) for name in ("schedule", "ramp")}

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Self:
        """Read settings back; unknown names are errors.

        >>> TrainPlan.from_dict({"steps": 10, "learning_rat": 0.1})
        Traceback (most recent call last):
        ValueError: a TrainPlan has no setting 'learning_rat'; did you mean 'learning_rate'?
        """
        if not isinstance(settings, Mapping):
            raise TypeError(
                "the settings of a TrainPlan must be a dict by name, as as_dict() returns them; "
                f"got {type(settings).__name__}."
            )
        known = [field.name for field in dataclasses.fields(cls)]
        for name in settings:
            if name not in known:
                import difflib

                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known)}."
                raise ValueError(f"a TrainPlan has no setting {name!r}; {hint}")
        return cls(**settings)


def _ramp_from(description: ScheduleLike) -> Schedule:
    """Read a schedule of λ; "linear" for a ramp is usually a mistake, since it lowers λ."""
    ramp = schedule_from(description)
    if isinstance(description, str) and ramp(1, 1) < 1:
        raise ValueError(
            f"ramp={description!r} lowers λ during the run. To raise it, pass 'linear_ramp' or "
            f"'ramp'; to lower it, pass dessl.schedules.{type(ramp).__name__}()."
        )
    return ramp
