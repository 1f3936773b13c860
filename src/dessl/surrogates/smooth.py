"""Bounding a log-loss H: −log((1 − ε)p + ε/K) ≤ log(K/ε), on labelled and unlabelled rows."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from dessl import _checks
from dessl.functional import expm1, log_probabilities
from dessl.surrogates.base import Model, Rows, Scores, Surrogate
from dessl.surrogates.function import surrogate_from

# exp(-80) is a normal float32 with room to multiply, and no loss that matters is larger.
FLOOR = -80.0


class Smooth(Surrogate):
    """Any surrogate with every probability p it sees replaced by (1 − ε)p + ε/K.

    H is then at most of the order of log(K/ε), so L − λH cannot decrease indefinitely and the
    debiased risk is bounded below for every λ. It stays unbiased, since H changes in the same way
    on labelled and unlabelled rows, by one fixed function. The objective at λ = 0 does not change:
    L is computed on the surrogate's own views and the model's own, unsmoothed logits.

    Targets and confidences that the surrogate takes from the model are smoothed too. A row with
    confidence c has (1 − ε)c + ε/K: a threshold τ on c is (1 − ε)τ + ε/K here, and a threshold
    above 1 − ε + ε/K masks every row. If the surrogate has its own teacher, that is not smoothed:
    its targets have no gradient and cannot make H unbounded.

    Args:
        surrogate: The surrogate to bound, or a function h(logits) or h(model, x).
        epsilon: ε in (0, 1): the weight of the uniform distribution in the mixture.

    >>> from dessl.surrogates.teacher import Teacher
    >>> rows = Rows(torch.tensor([[500.0, 0.0]]), torch.tensor([0]))
    >>> wrong = Teacher([[0.0, 1.0]])
    >>> wrong(lambda x: x, rows).h, Smooth(wrong, epsilon=0.1)(lambda x: x, rows).h
    (tensor([500.]), tensor([2.9957]))
    """

    bounded_up_to = math.inf

    def __init__(
        self, surrogate: Surrogate | Callable[..., Tensor], *, epsilon: float = 0.01
    ) -> None:
        super().__init__()
        self.surrogate = surrogate_from(surrogate)
        self.epsilon = _checks.number(
            "epsilon", epsilon, low=0.0, high=1.0, open_low=True, open_high=True
        )

    def prepare(self, model: nn.Module, n_rows: int, n_classes: int) -> None:
        """Prepare the surrogate, with the unsmoothed model."""
        self.surrogate.prepare(model, n_rows, n_classes)

    def forward(self, model: Model, rows: Rows) -> Scores:
        """Return the bounded H (n,) and the model's own logits (views, n, classes)."""
        scores: Scores = self.surrogate(SmoothedModel(model, self.epsilon), rows)
        return Scores(scores.h, unsmoothed(scores.logits, self.epsilon))

    def step_scores(self, model: Model, rows: Rows, n_labelled: int) -> Scores:
        """Return the same for a step, without the work that the surrogate can skip."""
        seen = SmoothedModel(model, self.epsilon)
        h, logits = self.surrogate.step_scores(seen, rows, n_labelled)
        return Scores(h, unsmoothed(logits, self.epsilon))

    def needs_own_run(self) -> str:
        """Return the surrogate's reason: smoothing has no state."""
        if type(self) is not Smooth:  # a subclass may have
            return super().needs_own_run()
        return self.surrogate.needs_own_run()

    def after_step(self, model: nn.Module, rows: Rows, scores: Scores) -> None:
        """Update the surrogate with the scores it returned, with smoothed logits."""
        with torch.no_grad():
            logits = smoothed(scores.logits, self.epsilon)
        self.surrogate.after_step(model, rows, Scores(scores.h, logits))


class SmoothedModel:
    """A model whose probabilities are (1 − ε)p + ε/K; a single logit becomes two."""

    def __init__(self, model: Model, epsilon: float) -> None:
        self.model = model
        self.epsilon = epsilon

    def __call__(self, x: Tensor) -> Tensor:
        """Smoothed logits (n, classes) of rows x."""
        return smoothed(self.model(x), self.epsilon)


def smoothed(logits: Tensor, epsilon: float) -> Tensor:
    """Return logits of (1 − ε)p + ε/K, shape (..., classes), from which p can be recovered.

    They are log(1 + c·p) with c = (1 − ε)K/ε, which is log((1 − ε)p + ε/K) up to a constant. Floats
    near zero have full relative precision, so that even a tiny p is not lost next to ε/K.

    >>> smoothed(torch.tensor([[9.0, -9.0]]), epsilon=0.1).softmax(-1)
    tensor([[0.9500, 0.0500]])
    """
    log_p = log_probabilities(logits)
    # Only the value is floored: the gradient passes, so that unsmoothed() can undo it exactly.
    # The difference is 0, and NaN for a class that is excluded by a logit of −∞.
    through = (log_p - log_p.detach()).nan_to_num(0.0)
    log_p = torch.where(log_p < FLOOR, FLOOR + through, log_p)
    return torch.log1p(_scale(log_p, epsilon) * log_p.exp())


def unsmoothed(logits: Tensor, epsilon: float) -> Tensor:
    """Return log p, shape (..., classes), from the result of :func:`smoothed`.

    The gradients of the two cancel, so that L's gradient is that of the model's own logits. A
    probability below e⁻⁸⁰ is returned as e⁻⁸⁰, with the correct gradient.

    >>> logits = smoothed(torch.tensor([[50.0, 0.0]]), epsilon=0.1)
    >>> unsmoothed(logits, epsilon=0.1).exp()
    tensor([[1.0000e+00, 1.9287e-22]])
    """
    return expm1(logits).log() - math.log(_scale(logits, epsilon))


def _scale(logits: Tensor, epsilon: float) -> float:
    return (1 - epsilon) * logits.shape[-1] / epsilon
