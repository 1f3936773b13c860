"""Variance of the debiased risk and of its gradient over many splits, compared with theorem 3.1.

    V(λ)/V(0),   V(λ) = V(mean_L L + λ (mean_U H − mean_L H)) over the splits of a finite population

Gradients are treated like losses, with traces of covariances as variances.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from dessl import _checks
from dessl._checks import ArrayLike
from dessl.evaluation.risk_quality.ratio import (
    Spread,
    Traces,
    VarianceRatio,
    centred_traces,
    split_traces,
)
from dessl.evaluation.risk_quality.splits import checked_pair, row_mean, split_means


def variance_ratio_over_lambda(
    loss: ArrayLike,
    h: ArrayLike,
    lams: ArrayLike,
    *,
    n_labelled: int = 40,
    splits: int = 100,
    generator: torch.Generator | None = None,
) -> VarianceRatio:
    """Return V(debiased risk)/V(complete case) at each λ; arguments as :func:`risk_over_lambda`.

    >>> loss, h = [0.2, 0.9, 0.4, 1.3, 0.1], [0.3, 0.6, 0.5, 0.7, 0.1]
    >>> variance_ratio_over_lambda(loss, h, [0.0, 1.0], n_labelled=2).theory
    tensor([1.0000, 0.1872], dtype=torch.float64)
    """
    loss_, h_ = checked_pair(loss, h)
    return gradient_variance_ratio_over_lambda(
        loss_[:, None],
        h_[:, None],
        lams,
        n_labelled=n_labelled,
        splits=splits,
        generator=generator,
    )


def gradient_variance_ratio_over_lambda(
    gradients_loss: ArrayLike,
    gradients_h: ArrayLike,
    lams: ArrayLike,
    *,
    n_labelled: int = 40,
    splits: int = 100,
    generator: torch.Generator | None = None,
) -> VarianceRatio:
    """Return tr V(∇ debiased risk)/tr V(∇ complete case) at each λ, from per-sample gradients.

    Args:
        gradients_loss: ∇L of each row, (n, parameters).
        gradients_h: ∇H of each row, (n, parameters).
        lams: The λ, (lams,).
        n_labelled: Labelled rows per split.
        splits: Number of splits.
        generator: Source of the splits; seeded with 0 by default.
    """
    g_loss = _checks.float64("gradients_loss", gradients_loss, ndim=2)
    g_h = _checks.float64("gradients_h", gradients_h, ndim=2)
    _same_shape("gradients_loss", g_loss, "gradients_h", g_h)
    drawn = split_means(row_mean(g_loss), row_mean(g_h), g_loss, n_labelled, splits, generator)
    rows = centred_traces(g_loss, g_h)
    spread = Spread(rows, split_traces(drawn), n_labelled, len(g_loss) - n_labelled)
    return spread.over(lams)


def last_layer_variance_ratio_over_lambda(
    features: ArrayLike,
    logit_gradients_loss: ArrayLike,
    logit_gradients_h: ArrayLike,
    lams: ArrayLike,
    *,
    n_labelled: int = 40,
    splits: int = 100,
    generator: torch.Generator | None = None,
) -> VarianceRatio:
    """Return the gradient ratio for a linear last layer, whose gradients are outer products δ φᵀ.

    Args:
        features: Input φ of the layer, (n, features), with a column of ones if it has a bias.
        logit_gradients_loss: ∂L/∂logits, (n, classes): :func:`dessl.theory.logit_gradients`.
        logit_gradients_h: ∂H/∂logits, (n, classes).
        lams: The λ, (lams,).
        n_labelled: Labelled rows per split.
        splits: Number of splits.
        generator: Source of the splits; seeded with 0 by default.
    """
    phi = _checks.float64("features", features, ndim=2)
    d_loss = _checks.float64("logit_gradients_loss", logit_gradients_loss, ndim=2)
    d_h = _checks.float64("logit_gradients_h", logit_gradients_h, ndim=2)
    _same_shape("logit_gradients_loss", d_loss, "logit_gradients_h", d_h)
    _checks.same_length("features", phi, "logit_gradients_loss", d_loss)

    def mean_of(deltas: Tensor) -> Callable[[Tensor], Tensor]:
        return lambda rows: (deltas[rows].T @ phi[rows]).flatten() / len(rows)

    # One class at a time: centring avoids cancellation, and the outer products are never stored.
    of_classes = [
        centred_traces(a[:, None] * phi, b[:, None] * phi)
        for a, b in zip(d_loss.T, d_h.T, strict=True)
    ]
    rows = Traces(*(sum(parts) for parts in zip(*of_classes, strict=True)))
    drawn = split_means(mean_of(d_loss), mean_of(d_h), phi, n_labelled, splits, generator)
    return Spread(rows, split_traces(drawn), n_labelled, len(phi) - n_labelled).over(lams)


def _same_shape(name: str, value: Tensor, other_name: str, other: Tensor) -> None:
    if value.shape != other.shape:
        raise ValueError(
            f"{name} and {other_name} must have the same shape; "
            f"got {tuple(value.shape)} and {tuple(other.shape)}."
        )
