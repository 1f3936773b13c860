"""The divergence guard: detect divergence, and explain it."""

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from dessl.risk import RISKS
from dessl.surrogates.base import Scores, Surrogate
from dessl.training.member import Event
from dessl.training.plan import TrainPlan

TERMS = {
    "labelled_logits": "a logit of a labelled row",
    "loss": "the loss L",
    "h_labelled": "H of labelled rows",
    "h_unlabelled": "H of unlabelled rows",
    "gradient_norm": "the gradient",
    "risk": "the risk",
    "logits": "a logit of a validation row",
}

_H_AT_THE_START = (
    "No update had been made and L is finite, so H itself is not: look for log(0), 0/0 or overflow "
    "in it."
)
_MODEL_AT_THE_START = (
    "No update had been made: check the model's initial logits and the scale of the data."
)
AT_THE_START = {  # neither λ nor the learning rate can be the cause
    "labelled_logits": _MODEL_AT_THE_START,
    "loss": _MODEL_AT_THE_START,
    "h_labelled": _H_AT_THE_START,
    "h_unlabelled": _H_AT_THE_START,
    "gradient_norm": "No update had been made and L and H are finite, so one of their derivatives "
    "is not: look for the square root or the logarithm of 0 in H and in the model.",
}
MASKED = (
    " If the model excludes classes by logits of -inf, use a large negative number such as -1e4."
)


class DivergenceError(RuntimeError):
    """A run whose risk became NaN, infinite or too large.

    Attributes:
        step: The step, the first being 1.
        term: A key of ``TERMS``: the quantity that went wrong first.
        value: Value of that quantity.
    """

    def __init__(self, message: str, *, step: int, term: str, value: float) -> None:
        super().__init__(message)
        self.step, self.term, self.value = step, term, value

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle including notes, so that a run in another process can report how it ended."""
        made = partial(type(self), step=self.step, term=self.term, value=self.value)
        return made, self.args, self.__dict__


class NotFiniteError(ValueError):
    """Scores that are not finite, so that there is no risk; the run reports the step."""

    def __init__(self, values: dict[str, float]) -> None:
        super().__init__("the scores are not finite")
        self.values = values


def check_classes(logits: Tensor, n_classes: int) -> None:
    """Refuse logits (..., classes) with fewer classes than the data; one logit stands for two.

    >>> check_classes(torch.zeros(1, 8, 2), 3)
    Traceback (most recent call last):
    ValueError: the model must give a logit for each of the data's 3 classes; it gives 2 for a row.
    """
    if max(2, logits.shape[-1]) < n_classes:
        raise ValueError(
            f"the model must give a logit for each of the data's {n_classes} classes; it gives "
            f"{logits.shape[-1]} for a row."
        )


def check_gradient(logits: Tensor) -> None:
    """Refuse logits through which L cannot train the model.

    >>> check_gradient(torch.zeros(1, 8, 2))
    Traceback (most recent call last):
    ValueError: the logits must have a gradient, or L cannot train the model. Detach targets only, \
and compute no logits for L under torch.no_grad().
    """
    if not logits.requires_grad:
        raise ValueError(
            "the logits must have a gradient, or L cannot train the model. Detach targets only, "
            "and compute no logits for L under torch.no_grad()."
        )


def check_loss(loss: Tensor) -> None:
    """Refuse an L without a gradient: H alone would train the model.

    >>> check_loss(torch.ones(()))
    Traceback (most recent call last):
    ValueError: loss must have a gradient, or labels cannot train the model. Compute it from the \
logits without .detach(), torch.no_grad() or argmax.
    """
    if not loss.requires_grad:
        raise ValueError(
            "loss must have a gradient, or labels cannot train the model. Compute it from the "
            "logits without .detach(), torch.no_grad() or argmax."
        )


def check_dtype(weights: Iterable[Tensor], x: Tensor, error: RuntimeError) -> None:
    """Explain an error of a forward pass if the model needs rows of another type.

    Weights may have another floating type, and embeddings look up whole numbers.

    >>> weights, error = [torch.zeros(1).double()], RuntimeError("must have the same dtype")
    >>> check_dtype(weights, torch.ones(1, 1), error)
    Traceback (most recent call last):
    TypeError: the model cannot compute on float32 rows: its weights are float64. Convert it with \
model.float(); for speed on a GPU, use TrainPlan(precision="bf16").
    """
    said = str(error)
    if x.is_floating_point() and "ind" in said and ("Long" in said or "int64" in said):
        raise TypeError(
            f"the model needs whole numbers to look up, but SemiData holds numbers as "
            f"{_type_name(x.dtype)}. Call x.long() in its forward."
        ) from error
    seen = x.dtype if x.is_floating_point() else torch.float32  # views make levels floats
    dtypes = {weight.dtype for weight in weights if weight.is_floating_point()}
    other = sorted(_type_name(dtype) for dtype in dtypes - {seen})
    if other and "type" in said:
        raise TypeError(
            f"the model cannot compute on {_type_name(seen)} rows: its weights are "
            f"{' and '.join(other)}. Convert it with model.float(); for speed on a GPU, use "
            'TrainPlan(precision="bf16").'
        ) from error


def _type_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def not_finite(scores: Scores, n_labelled: int) -> dict[str, float]:
    """Return a value that is not finite for each part of the scores that has one."""
    parts = {
        "labelled_logits": scores.logits[:, :n_labelled],
        "h_labelled": scores.h[:n_labelled],
        "h_unlabelled": scores.h[n_labelled:],
    }
    return bad_values(parts)


def bad_values(parts: dict[str, Tensor]) -> dict[str, float]:
    """Return a value that is not finite for each part that has one.

    >>> bad_values({"loss": torch.tensor([1.0, torch.inf]), "risk": torch.zeros(2)})
    {'loss': inf}
    """
    bad = {name: part[~torch.isfinite(part)].detach() for name, part in parts.items()}
    return {name: float(values[0]) for name, values in bad.items() if len(values)}


def divergence(
    values: dict[str, float],
    step: int,
    lam: float,
    plan: TrainPlan,
    surrogate: Surrogate,
) -> DivergenceError:
    """Return an error that names the term, the step, and what is known of its cause.

    Args:
        values: Values of the terms at that step.
        step: Number of the step, from 1.
        lam: λ of that step.
        plan: Plan of the run.
        surrogate: Surrogate of the run.
    """
    broken = [name for name in TERMS if not math.isfinite(values.get(name, 0.0))]
    term = broken[0] if broken else _largest(values)
    value = values[term]
    what = "was" if broken else f"(risk {values['risk']:g}, limit {plan.risk_limit:g}) was"
    message = f"the run diverged at step {step}: {TERMS[term]} {what} {value:g}, with λ = {lam:g}. "
    if broken and step == 1 and term in AT_THE_START:
        advice = AT_THE_START[term]
    else:
        advice = _advice(lam, plan, surrogate)
    if value == -math.inf and "logits" in term:
        advice += MASKED
    return DivergenceError(message + advice, step=step, term=term, value=value)


def past_bound(lam: float, plan: TrainPlan, surrogate: Surrogate) -> str:
    """Return a sentence if the debiased risk is unbounded below at λ, else nothing.

    Args:
        lam: λ.
        plan: Plan of the run.
        surrogate: Surrogate of the run.
    """
    if not _may_run_away(plan) or lam <= surrogate.bounded_up_to:
        return ""
    name, ways = type(surrogate).__name__, _ways_out(plan)
    if not plan.online:
        return (
            f"λ = {lam:g} is past {name}'s bound, {surrogate.bounded_up_to:g}: the debiased risk "
            f"has no lower bound there and may diverge. Lower lam, {ways}."
        )
    if max(surrogate.separate_bounds):  # each λ stops at its bound
        return ""
    return (
        f"online=True keeps λ at 0: the debiased risk of {name} has no lower bound at any λ above "
        f"0. To use it, {ways.removeprefix('or ')}."
    )


def without_gradient(scores: Scores) -> Tensor | None:
    """Return H (n,) of a step if no gradient flows through it, else None.

    >>> without_gradient(Scores(torch.ones(2), torch.ones(1, 2, 3, requires_grad=True)))
    tensor([1., 1.])
    """
    return scores.h if scores.logits.requires_grad and not scores.h.requires_grad else None


def no_effect(h: Tensor | None, lam: float, plan: TrainPlan, surrogate: Surrogate) -> str:
    """Return a warning if H of the first step cannot train the model, else nothing.

    An H of 0 has no effect yet, such as that of a term that must first see all rows.

    Args:
        h: Result of :func:`without_gradient` for the first step; its values are read.
        lam: λ.
        plan: Plan of the run.
        surrogate: Surrogate of the run.
    """
    if h is None or not lam or not RISKS[plan.risk].unlabelled or not bool(h.any()):
        return ""
    return (
        f"H of {type(surrogate).__name__} has no gradient, so λ = {lam:g} has no effect and the "
        "model is trained on labelled rows alone. Compute H from the model's logits without "
        ".detach(), torch.no_grad() or argmax; detach targets only."
    )


def not_resumed(names: Sequence[str]) -> str:
    """Return a warning if a resumed run starts with attributes that had changed, else nothing.

    Args:
        names: The attributes, such as ``"Own.count"``.
    """
    if not names:
        return ""
    return (
        f"this resumed run is not the uninterrupted one: {', '.join(names)} had changed, but "
        "checkpoints do not contain plain attributes, so they start anew. Keep the state of a "
        "term in buffers (register_buffer), or return it from get_extra_state."
    )


def always_zero(event: Event, surrogate: Surrogate, plan: TrainPlan) -> str:
    """Return a warning if H, which is rarely 0, was 0 for every row up to an evaluation.

    Args:
        event: The first evaluation.
        surrogate: Surrogate of the run.
        plan: Plan of the run.
    """
    used = RISKS[plan.risk].unlabelled and event.lam and surrogate.rarely_zero
    if not used or event.mask_unlabelled != 0 or event.mask_labelled != 0:
        return ""
    name = type(surrogate).__name__
    return (
        f"H of {name} was exactly 0 for every row of the first {event.step} steps, so unlabelled "
        f"rows have no effect. Check that the model's predictions depend on what {name} changes in "
        "a row, or that your function can be other than 0."
    )


def _may_run_away(plan: TrainPlan) -> bool:
    """Whether an unbounded H can make the plan's risk unbounded below."""
    return RISKS[plan.risk].takes_back and plan.bound is None


def _ways_out(plan: TrainPlan) -> str:
    bounded = "bound" in RISKS[plan.risk].options
    first = "pass bound='nonnegative', " if bounded else ""
    return f"{first}or smooth H with dessl.surrogates.Smooth"


def _largest(values: dict[str, float]) -> str:
    """Which of the risk's parts an explosion comes from."""
    return max(("loss", "h_labelled", "h_unlabelled"), key=lambda name: abs(values[name]))


def _advice(lam: float, plan: TrainPlan, surrogate: Surrogate) -> str:
    if known := past_bound(lam, plan, surrogate):
        return known
    name, usual = type(surrogate).__name__, "check the learning rate and the scale of the data."
    if not _may_run_away(plan):
        return usual.capitalize()
    if surrogate.bound_is_stated:
        return f"λ is not past {name}'s stated bound, {surrogate.bounded_up_to:g}: {usual}"
    return (
        f"{name} states no bounded_up_to, so it is unknown whether the debiased risk has a lower "
        "bound at this λ. If H can become arbitrarily large, lower lam, "
        f"{_ways_out(plan)}; if it cannot, {usual}"
    )
