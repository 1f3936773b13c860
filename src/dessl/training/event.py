"""Event: what a run reports at each evaluation, and its line in the history."""

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

from dessl._json import finite


@dataclass(frozen=True)
class Event:
    """A run at one evaluation; means are over the steps since the one before.

    Attributes:
        step: Steps done.
        steps: Steps of the whole run.
        epoch: Passes through the labelled rows.
        risk: Mean of what was minimised.
        loss: Mean of L over labelled rows.
        h_labelled: Mean of the H that debiasing takes back.
        h_unlabelled: Mean of the H that semi-supervised learning adds.
        mask_labelled: Share of labelled rows with H ≠ 0.
        mask_unlabelled: Share of unlabelled rows with H ≠ 0; None where none are drawn.
        gradient_norm: Mean norm of the gradient.
        learning_rate: Of the last step.
        lam: λ of the last step.
        steps_per_second: Since the evaluation before.
        validation: Metrics on the validation part, of the averaged weights if the plan has ``ema``.
        correlation: ρ(L, H) over validation rows.
        lam_opt: Estimated λ of least variance, from validation rows.
        best: Whether this is the best evaluation so far by ``plan.select``.
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

    def as_line(self) -> str:
        """Return one line of JSON; NaN is written as null."""
        return json.dumps(finite(dataclasses.asdict(self)), allow_nan=False) + "\n"

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read an event back from a line."""
        return cls(**values)


def history_text(events: Iterable[Event]) -> str:
    """Return events as lines for a checkpoint, NaN as NaN: a resumed history is the unbroken one.

    >>> history_from(history_text([]))
    []
    """
    return "".join(json.dumps(dataclasses.asdict(event)) + "\n" for event in events)


def history_from(text: str) -> list[Event]:
    """Read back what :func:`history_text` gave."""
    return [Event.from_dict(json.loads(line)) for line in text.splitlines()]


Callback: TypeAlias = Callable[[Event], None]
