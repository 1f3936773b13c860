"""Correct a biased teacher's answers with gold labels.

With p the complete case and ℓ = centred log-answers of teachers m, the corrected prediction is

    softmax( a log p + Σ_m t_m ℓ_m + Σ_m ℓ_m D_m + b ),

fitted on gold rows by  Σ CE + (a − 1)² + 0.1 Σ_m t_m² + 2 (Σ_m |D_m|² + |b|²).

The penalties shrink to the complete case, so with few gold rows an unproven teacher stays unused. t
may be negative: a teacher that is reliably wrong is as useful as one that is reliably right. p must
be out of fold, or the correction relies too much on the complete case.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

EPSILON = 0.01  # added to every answered probability: no answer is certain
PENALTY_COMPLETE_CASE = 1.0  # on (a − 1)²
PENALTY_TEACHER = 0.1  # on t²
PENALTY_MATRIX = 2.0  # on |D|² and |b|²
ITERATIONS = 500


def centred_log(answers: Tensor) -> Tensor:
    """Return log((q + ε)/(1 + εC)) minus its mean over the classes, float64, same shape as q.

    A row of equal probabilities, such as a missing answer, is a row of zeros.

    >>> centred_log(torch.tensor([[0.5, 0.5], [1.0, 0.0]]))
    tensor([[ 0.0000,  0.0000],
            [ 2.3076, -2.3076]], dtype=torch.float64)
    """
    q = answers.double()
    logs = ((q + EPSILON) / (1 + EPSILON * q.shape[-1])).log()
    return logs - logs.mean(-1, keepdim=True)


@dataclass(frozen=True)
class Correction:
    """A fitted correction.

    Attributes:
        power: a, the exponent of the complete case.
        trust: t of each teacher, (teachers,).
        matrix: D, (teachers, classes, classes): row r is what an answer r adds to each class.
        offset: b, (classes,).
    """

    power: float
    trust: Tensor
    matrix: Tensor
    offset: Tensor

    def __call__(self, log_p: Tensor, log_answers: Tensor) -> Tensor:
        """Return corrected log-probabilities (n, classes), float64.

        Args:
            log_p: The complete case's log-probabilities, (n, classes).
            log_answers: :func:`centred_log` of each teacher's answers, (teachers, n, classes).
        """
        said = torch.einsum("m,mnc->nc", self.trust, log_answers)
        said = said + torch.einsum("mnr,mrc->nc", log_answers, self.matrix)
        return (self.power * log_p.double() + said + self.offset).log_softmax(-1)

    def tensors(self) -> dict[str, Tensor]:
        """All parameters as tensors, to be saved without pickle."""
        power = torch.tensor(self.power, dtype=torch.float64)
        return {
            "power": power,
            "trust": self.trust,
            "matrix": self.matrix,
            "offset": self.offset,
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Self:
        """Rebuild from the result of :meth:`tensors`."""
        parts = {name: tensors[name].double() for name in ("trust", "matrix", "offset")}
        return cls(float(tensors["power"]), **parts)


def fitted_correction(
    log_p: Tensor, log_answers: Tensor, y: Tensor, *, matrix: bool = True
) -> Correction:
    """Fit a correction on gold rows; the problem is convex, with one solution.

    Args:
        log_p: Out-of-fold log-probabilities of the complete case, (n, classes).
        log_answers: :func:`centred_log` of each teacher's answers, (teachers, n, classes).
        y: Gold labels, (n,).
        matrix: Whether D is fitted; otherwise each teacher only has t.

    >>> log_p = torch.full((60, 2), 0.5).log()
    >>> y = torch.arange(60) % 2
    >>> wrong = centred_log(torch.eye(2)[1 - y] * 0.8 + 0.1).unsqueeze(0)
    >>> correction = fitted_correction(log_p, wrong, y, matrix=False)
    >>> right = correction(log_p, wrong).exp().gather(1, y[:, None])
    >>> bool(correction.trust < -1), bool(right.min() > 0.9)
    (True, True)
    """
    _check(log_p, log_answers, y)
    from scipy.optimize import minimize

    problem = _Problem.of(log_p, log_answers, y, matrix=matrix)
    start = np.zeros(problem.size)
    start[0] = 1.0
    found = minimize(
        problem.value,
        start,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": ITERATIONS, "gtol": 1e-8, "ftol": 1e-13},
    )
    power, trust, d, b = problem.parts(found.x)
    return Correction(power, *(torch.from_numpy(part.copy()) for part in (trust, d, b)))


def _check(log_p: Tensor, log_answers: Tensor, y: Tensor) -> None:
    rows, wanted = tuple(log_p.shape), "(teachers, n, classes)"
    if log_p.ndim != 2 or log_answers.ndim != 3 or tuple(log_answers.shape[1:]) != rows:
        raise ValueError(
            f"log_p must have shape (n, classes) and log_answers {wanted}; got {rows} and "
            f"{tuple(log_answers.shape)}. Stack the answers of several teachers first."
        )
    if y.shape != log_p.shape[:1]:
        raise ValueError(
            f"y must have one gold label for each of the {len(log_p)} rows; got {tuple(y.shape)}."
        )


@dataclass(frozen=True)
class _Problem:
    log_p: NDArray[np.float64]  # (n, classes)
    answers: NDArray[np.float64]  # (teachers, n, classes)
    y: NDArray[np.int64]
    matrix: bool

    @classmethod
    def of(cls, log_p: Tensor, answers: Tensor, y: Tensor, *, matrix: bool) -> Self:
        arrays = (log_p.double().cpu().numpy(), answers.double().cpu().numpy())
        return cls(*arrays, y.long().cpu().numpy(), matrix)

    @property
    def shape(self) -> tuple[int, int]:
        return self.answers.shape[0], self.answers.shape[2]

    @property
    def size(self) -> int:
        teachers, classes = self.shape
        return 1 + teachers + classes + (teachers * classes**2 if self.matrix else 0)

    def parts(
        self, x: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return a, t, D and b out of one vector."""
        teachers, classes = self.shape
        t, b = x[1 : 1 + teachers], x[1 + teachers : 1 + teachers + classes]
        d = x[1 + teachers + classes :] if self.matrix else np.zeros(teachers * classes**2)
        return float(x[0]), t, d.reshape(teachers, classes, classes), b

    def value(self, x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return the penalised loss and its gradient."""
        a, t, d, b = self.parts(x)
        said = np.einsum("m,mnc->nc", t, self.answers)
        if self.matrix:
            said += np.einsum("mnr,mrc->nc", self.answers, d)
        logits = a * self.log_p + said + b
        logits -= logits.max(1, keepdims=True)
        log_q = logits - np.log(np.exp(logits).sum(1, keepdims=True))
        rows = np.arange(len(self.y))
        loss = -log_q[rows, self.y].sum() + PENALTY_COMPLETE_CASE * (a - 1) ** 2
        loss += PENALTY_TEACHER * (t @ t) + PENALTY_MATRIX * ((d**2).sum() + b @ b)
        slope = np.exp(log_q)  # of the loss in the logits: q − e_y
        slope[rows, self.y] -= 1
        gradient = [
            [(slope * self.log_p).sum() + 2 * PENALTY_COMPLETE_CASE * (a - 1)],
            np.einsum("nc,mnc->m", slope, self.answers) + 2 * PENALTY_TEACHER * t,
            slope.sum(0) + 2 * PENALTY_MATRIX * b,
        ]
        if self.matrix:
            both = np.einsum("mnr,nc->mrc", self.answers, slope) + 2 * PENALTY_MATRIX * d
            gradient.append(both.ravel())
        return float(loss), np.concatenate(gradient)
