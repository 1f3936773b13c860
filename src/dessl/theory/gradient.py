"""λ_opt for the gradient of the risk: the λ that minimises the trace of its covariance.

    λ_opt = m · tr Cov(∇L, ∇H) / tr Cov(∇H),   m = n_u/n (main form) or 1 (all-data form)

Each row enters through three inner products of its centred gradients. For a linear last layer,
logits = W φ + b, a gradient is the outer product δ φᵀ of the logit gradient δ and the features φ,
so those products need no per-sample backward pass: ⟨δ φᵀ, δ' φᵀ⟩ = (δ·δ') |φ|².
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from dessl import _checks
from dessl._checks import ArrayLike
from dessl.risk import On
from dessl.theory.centre import centred
from dessl.theory.lambda_estimate import (
    NO_SLOPE,
    LambdaEstimate,
    Shrink,
    SlopeFit,
    estimate_from_slope,
)


def optimal_lambda_gradient(
    gradients_loss: ArrayLike,
    gradients_h: ArrayLike,
    n_unlabelled: int,
    *,
    shrink: Shrink | None = "james_stein",
    on: On = "unlabelled",
    clip: tuple[float, float] | None = None,
) -> LambdaEstimate:
    """Estimate the λ that minimises the gradient's variance, from per-sample gradients.

    Args:
        gradients_loss: ∇L of each labelled row, shape (n_l, parameters), n_l ≥ 3.
        gradients_h: ∇H of the same rows, shape (n_l, parameters).
        n_unlabelled: n_u.
        shrink: As in :func:`dessl.theory.optimal_lambda`, with F the squared ratio of the slope to
            its standard error.
        on: ``"unlabelled"`` or ``"all"``.
        clip: Bounds (low, high) on λ.

    Returns:
        The estimate; ``correlation`` and ``variance_ratio`` refer to traces.

    >>> gradients = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    >>> optimal_lambda_gradient(2 * gradients, gradients, n_unlabelled=9).lam
    1.5
    """
    g_loss = _checks.float64("gradients_loss", gradients_loss, ndim=2)
    g_h = _checks.float64("gradients_h", gradients_h, ndim=2)
    if g_loss.shape != g_h.shape:
        raise ValueError(
            "gradients_loss and gradients_h must have the same rows and parameters; "
            f"got {tuple(g_loss.shape)} and {tuple(g_h.shape)}."
        )
    g_loss, g_h = centred(g_loss), centred(g_h)
    products = _Products((g_loss * g_loss).sum(1), (g_loss * g_h).sum(1), (g_h * g_h).sum(1))
    return _estimate(products, n_unlabelled, shrink, on, clip)


def optimal_lambda_last_layer(
    features: ArrayLike,
    logit_gradients_loss: ArrayLike,
    logit_gradients_h: ArrayLike,
    n_unlabelled: int,
    *,
    bias: bool = True,
    shrink: Shrink | None = "james_stein",
    on: On = "unlabelled",
    clip: tuple[float, float] | None = None,
) -> LambdaEstimate:
    """Estimate the λ that minimises the gradient's variance, for a linear last layer.

    Args:
        features: Input φ of the last layer for each labelled row, shape (n_l, features).
        logit_gradients_loss: ∂L/∂logits of each row, shape (n_l, classes): :func:`logit_gradients`.
        logit_gradients_h: ∂H/∂logits of the same rows, shape (n_l, classes).
        n_unlabelled: n_u.
        bias: Whether the layer has a bias.
        shrink: As in :func:`optimal_lambda_gradient`.
        on: ``"unlabelled"`` or ``"all"``.
        clip: Bounds (low, high) on λ.

    >>> features = torch.tensor([[1.0], [2.0], [-1.0]])
    >>> deltas = torch.tensor([[0.5, -0.5], [-0.2, 0.2], [0.1, -0.1]])
    >>> estimate = optimal_lambda_last_layer(features, 3 * deltas, deltas, n_unlabelled=7)
    >>> round(estimate.lam, 6)
    2.1
    """
    phi = _checks.float64("features", features, ndim=2)
    d_loss = _checks.float64("logit_gradients_loss", logit_gradients_loss, ndim=2)
    d_h = _checks.float64("logit_gradients_h", logit_gradients_h, ndim=2)
    if d_loss.shape != d_h.shape or len(phi) != len(d_loss):
        raise ValueError(
            "features and both logit gradients must have the same rows and classes; got "
            f"{tuple(phi.shape)}, {tuple(d_loss.shape)} and {tuple(d_h.shape)}."
        )
    if bias:
        phi = torch.cat([phi, torch.ones_like(phi[:, :1])], dim=1)
    products = _Products(
        _centred_products(d_loss, d_loss, phi),
        _centred_products(d_loss, d_h, phi),
        _centred_products(d_h, d_h, phi),
    )
    return _estimate(products, n_unlabelled, shrink, on, clip)


def logit_gradients(per_sample: Callable[[Tensor], Tensor], logits: Tensor) -> Tensor:
    """Return ∂f_i/∂logits_i for each row i, shape (n, classes), in one backward pass.

    Rows of a per-sample function are independent, so the gradient of its sum contains them all.

    >>> from dessl.functional import entropy
    >>> logit_gradients(entropy, torch.tensor([[1.0, 0.0, -1.0]]))
    tensor([[-0.2826,  0.1408,  0.1418]])
    """
    leaf = logits.detach().clone().requires_grad_()  # a clone: inference_mode's tensors take none
    with torch.enable_grad():
        values = _checks.per_sample("per_sample(logits)", per_sample(leaf), hint="Do not average.")
        _checks.same_length("per_sample(logits)", values, "logits", leaf)
        (gradient,) = torch.autograd.grad(values.sum(), leaf)
    return gradient


class _Products(NamedTuple):
    """⟨∇L, ∇L⟩, ⟨∇L, ∇H⟩ and ⟨∇H, ∇H⟩ of each row's centred gradients, each of shape (n,)."""

    loss: Tensor
    cross: Tensor
    h: Tensor


def _centred_products(left: Tensor, right: Tensor, phi: Tensor) -> Tensor:
    """⟨a_i φ_iᵀ − mean, b_i φ_iᵀ − mean⟩ for each row, without forming an outer product.

    The first row is subtracted first, so that constant gradients leave no rounding error:
    a_i φ_iᵀ − a_0 φ_0ᵀ = (a_i − a_0) φ_iᵀ + a_0 (φ_i − φ_0)ᵀ, a sum of two outer products.
    """
    lefts = torch.stack([left - left[0], left[:1].expand_as(left)])
    rights = torch.stack([right - right[0], right[:1].expand_as(right)])
    phis = torch.stack([phi, phi - phi[0]])
    mean_left = (lefts.mT @ phis).sum(0) / len(phi)
    mean_right = (rights.mT @ phis).sum(0) / len(phi)
    among = torch.einsum("rnk,snk->nrs", lefts, rights)
    own = (among * torch.einsum("rnd,snd->nrs", phis, phis)).sum((1, 2))
    crossed = ((lefts @ mean_right + rights @ mean_left) * phis).sum((0, 2))
    return own - crossed + (mean_left * mean_right).sum()


def _estimate(
    products: _Products,
    n_unlabelled: int,
    shrink: Shrink | None,
    on: On,
    clip: tuple[float, float] | None,
) -> LambdaEstimate:
    n = len(products.h)
    if n < 3:
        raise ValueError(f"the estimate needs at least 3 labelled rows; got {n}.")
    total_loss, total_cross, total_h = (float(part.sum()) for part in products)
    if total_h <= 0:
        return estimate_from_slope(NO_SLOPE, 0.0, n, n_unlabelled, shrink=shrink, on=on, clip=clip)
    slope = total_cross / total_h
    # A ratio of means: its error is that of the mean of cross − slope · h.
    residuals = products.cross - slope * products.h
    error = math.sqrt(float(residuals.square().sum()) * n / (n - 1)) / total_h
    scale = math.sqrt(total_loss * total_h)
    rho = max(-1.0, min(1.0, total_cross / scale)) if scale else 0.0
    fit = SlopeFit(slope, error, total_loss / total_h)
    return estimate_from_slope(fit, rho, n, n_unlabelled, shrink=shrink, on=on, clip=clip)
