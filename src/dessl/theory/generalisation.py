"""The generalisation bound of theorem 3.6, computed for a finite set of models.

    R(θ) ≤ R̂(θ) + 2 R_n + κ √(log(4/δ)/n)      with probability 1 − δ, for all θ at once
    κ = 4√2 c,   c = M max{ (1+|λ|)/π, |λ|/(1−π) },   |L| ≤ M, |H| ≤ M

The paper's proof bounds ℓ = L/π + …, which lacks a factor r; with it, ℓ = (r/π) L + …, each row
contributes either the labelled or the unlabelled term, hence the maximum.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from dessl import _checks
from dessl._checks import ArrayLike

SIGNS_AT_ONCE = 2**22  # 32 MB of int64, and as much of float64


class GeneralisationBound(NamedTuple):
    """The bound and its parts.

    Attributes:
        bound: Upper bound on the risk of each model, shape (models,).
        risk: The debiased risk of each model, weighted by πn and (1−π)n, shape (models,).
        rademacher: Monte-Carlo estimate of the Rademacher complexity R_n.
        rademacher_standard_error: Its Monte-Carlo standard error.
        kappa: The constant κ.
        deviation: κ √(log(4/δ)/n).
    """

    bound: Tensor
    risk: Tensor
    rademacher: float
    rademacher_standard_error: float
    kappa: float
    deviation: float


def generalisation_constant(lam: float, pi: float, maximum: float) -> float:
    """Return κ for losses and H with absolute values up to ``maximum``.

    >>> round(generalisation_constant(lam=1.0, pi=0.5, maximum=1.0), 4)
    22.6274
    """
    lam = _checks.number("lam", lam, open_low=True, open_high=True)
    pi = _checks.number("pi", pi, low=0.0, high=1.0, open_low=True, open_high=True)
    maximum = _checks.number("maximum", maximum, low=0.0, open_low=True)
    return 4 * math.sqrt(2) * maximum * max((1 + abs(lam)) / pi, abs(lam) / (1 - pi))


def generalisation_bound(
    loss: ArrayLike,
    h_labelled: ArrayLike,
    h_unlabelled: ArrayLike,
    lam: float = 1.0,
    *,
    maximum: float,
    pi: float | None = None,
    delta: float = 0.05,
    draws: int = 1000,
    generator: torch.Generator | None = None,
) -> GeneralisationBound:
    """Bound the risk of every model of a finite set at once.

    Args:
        loss: L of each labelled row under each model, shape (models, n_l).
        h_labelled: H of the same rows, shape (models, n_l).
        h_unlabelled: H of the unlabelled rows, shape (models, n_u).
        lam: λ.
        maximum: M, a bound on |L| and |H| known in advance, not estimated from this sample.
        pi: π, the probability that a row is labelled; n_l/n if not given.
        delta: The probability with which the bound may fail.
        draws: Number of Rademacher vectors.
        generator: Source of the Rademacher signs.

    >>> loss = torch.tensor([[0.1, 0.9], [0.8, 0.3]])
    >>> bound = generalisation_bound(loss, loss, loss, maximum=1.0, delta=0.1)
    >>> bound.risk
    tensor([0.5000, 0.5500], dtype=torch.float64)
    """
    loss_ = _checks.float64("loss", loss, ndim=2)
    h_l = _checks.float64("h_labelled", h_labelled, ndim=2)
    h_u = _checks.float64("h_unlabelled", h_unlabelled, ndim=2)
    if loss_.shape != h_l.shape or h_l.shape[0] != h_u.shape[0]:
        raise ValueError(
            "loss and h_labelled must be (models, n_l) and h_unlabelled (models, n_u); got "
            f"{tuple(loss_.shape)}, {tuple(h_l.shape)} and {tuple(h_u.shape)}."
        )
    n_l, n = loss_.shape[1], loss_.shape[1] + h_u.shape[1]
    share = n_l / n if pi is None else pi
    kappa = generalisation_constant(lam, share, maximum)
    for name, values in (("loss", loss_), ("h_labelled", h_l), ("h_unlabelled", h_u)):
        advice = "Bound H itself, or pass a larger maximum."
        _checks.between(name, values, -maximum, maximum, advice=advice)
    delta = _checks.number("delta", delta, low=0, high=1, open_low=True, open_high=True)
    rows = torch.cat([(loss_ - lam * h_l) / share, lam * h_u / (1 - share)], dim=1)
    complexity, error = _rademacher(rows, draws, generator)
    risk = rows.mean(1)
    deviation = kappa * math.sqrt(math.log(4 / delta) / n)
    return GeneralisationBound(
        risk + 2 * complexity + deviation, risk, complexity, error, kappa, deviation
    )


def _rademacher(rows: Tensor, draws: int, generator: torch.Generator | None) -> tuple[float, float]:
    """E max over models of (1/n) Σ ε_i ℓ_i, with its Monte-Carlo standard error."""
    _checks.whole_number("draws", draws, low=2)
    n = rows.shape[1]
    source = torch.Generator().manual_seed(0) if generator is None else generator
    suprema = []
    block = max(1, SIGNS_AT_ONCE // n)
    for start in range(0, draws, block):
        size = (min(block, draws - start), n)
        bits = torch.randint(2, size, generator=source, device=source.device)
        signs = (2 * bits - 1).to(rows)
        suprema.append((signs @ rows.T / n).amax(1))
    values = torch.cat(suprema)
    return float(values.mean()), float(values.std()) / math.sqrt(draws)
