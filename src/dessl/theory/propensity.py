"""The λ that minimises the variance of the inverse-propensity form.

Given the rows, (1/n) Σ_i [(r_i/π_i)(L_i − λH_i) + λH_i] varies with the labels alone, by
(1/n²) Σ_i ((1 − π_i)/π_i)(L_i − λH_i)², which is least for

    λ* = E[((1−π)/π) L H] / E[((1−π)/π) H²].

L is known only for labelled rows, each with probability π, so their weights are (1 − π)/π². If the
risk is divided by Σ 1/π rather than n (Hájek), L and H are centred first.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from dessl import _checks
from dessl._checks import ArrayLike


class PropensityLambda(NamedTuple):
    """λ* and the variance that it leaves.

    Attributes:
        lam: The estimate.
        standard_error: Standard error of the estimate, valid if variances differ between rows.
        variance_ratio: The variance due to the choice of labels at ``lam``, relative to λ = 0.
    """

    lam: float
    standard_error: float
    variance_ratio: float


def inverse_propensity_lambda(
    loss: ArrayLike, h: ArrayLike, propensity: ArrayLike, *, normalise: bool = False
) -> PropensityLambda:
    """Estimate the λ that minimises the variance of :func:`dessl.inverse_propensity_risk`.

    Args:
        loss: L of labelled rows, shape (n_l,), n_l ≥ 3: held out, or out of fold.
        h: H of the same rows.
        propensity: π of the same rows, in (0, 1].
        normalise: Whether the risk is divided by Σ 1/π, as in that function.

    >>> found = inverse_propensity_lambda([1.0, 2.0, 3.0], [1.0, 2.0, 4.0], [0.5, 0.5, 0.5])
    >>> round(found.lam, 4)  # (1 + 4 + 12) / (1 + 4 + 16)
    0.8095
    """
    loss_ = _checks.float64("loss", loss, ndim=1)
    h_ = _checks.float64("h", h, ndim=1)
    chance = _checks.float64("propensity", propensity, ndim=1)
    _checks.same_length("loss", loss_, "h", h_)
    _checks.same_length("propensity", chance, "loss", loss_)
    _checks.between("propensity", chance, 0, 1, open_low=True)
    if len(loss_) < 3:
        raise ValueError(
            f"a slope with its error needs at least 3 labelled rows; got {len(loss_)}. Use a fixed "
            "λ."
        )
    if normalise:
        loss_, h_ = (_from_mean(part, chance) for part in (loss_, h_))
    weights = (1 - chance) / chance.square()
    squares = float((weights * h_.square()).sum())
    if squares == 0:
        return PropensityLambda(0.0, float("inf"), 1.0)
    lam = float((weights * loss_ * h_).sum()) / squares
    rest = loss_ - lam * h_
    error = float((weights * h_ * rest).square().sum().sqrt()) / squares
    before = float((weights * loss_.square()).sum())
    after = float((weights * rest.square()).sum())
    return PropensityLambda(lam, error, after / before if before else 1.0)


def _from_mean(values: Tensor, chance: Tensor) -> Tensor:
    return values - (values / chance).sum() / torch.reciprocal(chance).sum()
