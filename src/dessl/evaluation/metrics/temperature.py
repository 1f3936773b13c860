"""Temperature scaling: the T that makes softmax(logits / T) fit held-out labels best.

With β = 1/T the mean of logsumexp(β·z) − β·z_y is convex in β; its slope is E_p[z] − z_y and its
curvature Var_p(z) (Guo et al., 2017).
"""

import math
import warnings

import torch
from torch import Tensor

from dessl import _checks
from dessl._checks import ArrayLike
from dessl.evaluation.metrics.predictions import checked_labels, checked_logits
from dessl.evaluation.metrics.scoring import true_class

COLDEST, HOTTEST = 0.01, 100.0


def _slope_and_curvature(logits: Tensor, y: Tensor, beta: float) -> tuple[float, float]:
    p = torch.softmax(beta * logits, dim=1)
    mean = (p * logits).sum(dim=1)
    variance = (p * (logits - mean[:, None]).square()).sum(dim=1)
    return float((mean - true_class(logits, y)).mean()), float(variance.mean())


def fitted_temperature(logits: ArrayLike, y: ArrayLike) -> float:
    """Return the temperature that minimises cross-entropy on these rows, between 0.01 and 100.

    Fit it on validation rows, not on the rows you report. If the optimum is 0 (every row is
    correct) or infinity (the logits are uninformative), the end of the range is returned with a
    warning.

    Args:
        logits: (n, classes), or (n,) or (n, 1) for a one-logit binary model.
        y: (n,) class numbers.

    >>> logits = torch.tensor([[4.0, 0.0]] * 4)  # as sure as 98 %, right 3 times of 4
    >>> round(fitted_temperature(logits, [0, 0, 0, 1]), 4)  # 4 / log 3
    3.641
    """
    values = checked_logits(logits)
    labels = checked_labels(y, rows=len(values), classes=values.shape[1], device=values.device)
    low, high = 1 / HOTTEST, 1 / COLDEST
    for end, outside in ((low, 1), (high, -1)):
        if outside * _slope_and_curvature(values, labels, end)[0] >= 0:
            warnings.warn(
                f"no temperature between {COLDEST:g} and {HOTTEST:g} is best for these "
                f"{len(labels)} rows; {1 / end:g} is returned. Fit it on more validation rows.",
                stacklevel=2,
            )
            return 1 / end
    return 1 / _root(values, labels, low, high)


def _root(logits: Tensor, y: Tensor, low: float, high: float) -> float:
    """Newton's method on the slope, with bisection (in log β) if a step would leave the bracket."""
    beta = 1.0
    for _ in range(100):
        slope, curvature = _slope_and_curvature(logits, y, beta)
        low, high = (low, beta) if slope > 0 else (beta, high)
        proposal = beta - slope / curvature if curvature > 0 else math.inf
        if not low <= proposal <= high:
            proposal = math.sqrt(low * high)
        if abs(proposal - beta) <= 1e-13 * beta:
            return proposal
        beta = proposal
    return beta


def temperature_scaled(logits: ArrayLike, temperature: float) -> Tensor:
    """Return logits / T, (n, classes) in float64; the predicted classes do not change.

    >>> temperature_scaled([[4.0, 0.0]], 2.0)
    tensor([[2., 0.]], dtype=torch.float64)
    """
    _checks.number("temperature", temperature, low=0, open_low=True)
    return checked_logits(logits) / temperature
