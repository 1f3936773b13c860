"""The mean teacher: θ̄ ← d·θ̄ + (1 − d)·θ after every step, d = min(decay, 1 − 1/(t + 1))."""

import copy
from collections.abc import Sequence
from typing import Protocol, Self

import torch
from torch import Tensor, nn

from dessl import _checks
from dessl.surrogates.state import check_fine_enough, device_of


class EMATeacher(nn.Module):
    """A model whose weights are the exponential moving average of another's.

    In the first steps t, d = 1 − 1/(t + 1) gives them equal weights, as in the code of
    Tarvainen & Valpola (2017); from t = 1/(1 − decay) on, d is the decay.

    The teacher is always in evaluation mode: no dropout, and BatchNorm uses running statistics, so
    that a row's target depends on that row alone and the forward pass changes no state. Those
    statistics are averaged like the weights; buffers that are not floats or are in half precision,
    and entries of a buffer without an average, such as the −∞ of a mask, are copied. Trained
    weights in half precision are an error: their average would not change.

    Args:
        model: The initial model, of which a deep copy is made.
        decay: Decay of the average, in [0, 1); 0 copies the model at every step.

    >>> model = nn.Linear(2, 3)
    >>> teacher = EMATeacher(model, decay=0.99)
    >>> x = torch.ones(1, 2)
    >>> bool((teacher(x) == model(x)).all()), teacher(x).requires_grad
    (True, False)
    """

    steps: Tensor

    def __init__(self, model: nn.Module, decay: float) -> None:
        super().__init__()
        self.decay = checked_decay(decay)
        self.model = copy.deepcopy(model).requires_grad_(False).eval()
        steps = torch.zeros((), dtype=torch.int64, device=device_of(model))
        self.register_buffer("steps", steps)

    def train(self, mode: bool = True) -> Self:  # noqa: ARG002 (nn.Module's signature)
        """Stay in evaluation mode, whatever the student's mode."""
        return super().train(False)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (n, classes) without gradients."""
        with torch.no_grad():
            logits: Tensor = self.model(x)
        return logits

    def follow(self, model: nn.Module) -> None:
        """Update the average after a step of the model."""
        own = [*self.model.parameters(), *self.model.buffers()]
        move_average(own, [*model.parameters(), *model.buffers()], self)
        with torch.no_grad():
            for mine, its in zip(self.model.buffers(), model.buffers(), strict=True):
                if mine.is_floating_point():  # ∞ − ∞ is NaN; chosen where the tensors are
                    mine.copy_(torch.where(mine.isnan(), its, mine))


class Average(Protocol):
    """The state of an average: the number of its steps, shape (), and its decay."""

    steps: Tensor
    decay: float


@torch.no_grad()
def move_average(averages: Sequence[Tensor], values: Sequence[Tensor], average: Average) -> None:
    """Update an average by one step, without inspecting values, in a few kernels for all tensors.

    Integers are copied, and so are untrained tensors in half precision.

    Args:
        averages: The averaged tensors, updated in place.
        values: The tensors to average, in the same order; trained ones are in float32 or float64.
        average: The average, whose number of steps is increased.
    """
    average.steps += 1
    share = (1 / (average.steps + 1)).clamp(min=1 - average.decay)
    averaged = []
    for own, other in zip(averages, values, strict=True):
        if own.is_floating_point() and (other.requires_grad or own.element_size() >= 4):
            check_fine_enough(own)
            averaged.append((own, other))
        else:
            own.copy_(other)
    if averaged:
        own_ones = [own for own, _ in averaged]
        moves = torch._foreach_sub([other for _, other in averaged], own_ones)
        torch._foreach_mul_(moves, share)
        torch._foreach_add_(own_ones, moves)


def checked_decay(decay: float) -> float:
    """Reject a decay outside [0, 1)."""
    return _checks.number("decay", decay, low=0.0, high=1.0, open_high=True)


def prepared_teacher(teacher: EMATeacher | None) -> EMATeacher:
    """Reject a surrogate that was not prepared for a model."""
    if teacher is None:
        raise RuntimeError(
            "the teacher does not exist yet: it starts as a copy of the model. Call "
            "surrogate.prepare(model, n_rows, n_classes) before the first step."
        )
    return teacher
