"""Per-sample losses and unlabelled terms on logits: (n, classes) in, (n,) out.

Every function treats each row on its own: no averaging, no labels of other rows. Logits of shape
(n, 1) are a binary model's log-odds of class 1 and stand for the two-class logits (0, z). Half
precision is computed and returned in float32, as PyTorch's autocast does for losses. Gradients flow
through every argument that has one: detach what is meant as a fixed target. A logit of −∞ excludes
a class: it adds 0 to sums over classes whose weight is 0 there, and has the gradient 0.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from dessl import _checks


def log_probabilities(logits: Tensor) -> Tensor:
    """Return log p for each class, shape (..., classes), from logits (..., classes) or (..., 1).

    >>> log_probabilities(torch.tensor([[0.0]])).exp()
    tensor([[0.5000, 0.5000]])
    """
    _check_logits("logits", logits)
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    if logits.shape[-1] == 1:
        return torch.cat([F.logsigmoid(-logits), F.logsigmoid(logits)], dim=-1)
    return F.log_softmax(logits, dim=-1)


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Return −log p(y), the usual L, for integer labels y of shape (n,).

    >>> cross_entropy(torch.tensor([[0.0, 0.0], [3.0, 0.0]]), torch.tensor([0, 0]))
    tensor([0.6931, 0.0486])
    """
    log_p = log_probabilities(logits)
    _check_tensor("y", y)
    if y.is_floating_point() or y.dtype == torch.bool or y.shape != logits.shape[:-1]:
        raise ValueError(
            f"y must hold one integer label for each row, shape {tuple(logits.shape[:-1])}; "
            f"got {y.dtype} of shape {tuple(y.shape)}. For soft labels use cross_entropy_to; "
            "in dessl.objective, loss=cross_entropy_to."
        )
    advice = "Rows without a label (-1) have no loss: leave them out."
    y = y.long()  # a small integer cannot be compared with many classes
    _checks.between("y", y, 0, log_p.shape[-1] - 1, advice=advice)
    return -log_p.gather(-1, y.unsqueeze(-1)).squeeze(-1)


def entropy(logits: Tensor) -> Tensor:
    """Return Shannon's entropy −Σ p log p in nats (Grandvalet & Bengio, 2004).

    >>> entropy(torch.tensor([[1.0, 0.0, -1.0]]))
    tensor([0.8324])
    """
    log_p = log_probabilities(logits)
    return -(log_p.exp() * _finite(log_p)).sum(-1)


def renyi_entropy(logits: Tensor, alpha: float) -> Tensor:
    """Return the Rényi entropy log(Σ p^α)/(1−α): Shannon's at α = 1, the min-entropy at α = ∞.

    The min-entropy −log max p is the pseudo-label term without a threshold (paper, appendix B).

    >>> renyi_entropy(torch.tensor([[1.0, 0.0, -1.0]]), alpha=2.0)
    tensor([0.6723])
    """
    alpha = _checks.number("alpha", alpha, low=0.0)
    if alpha == 1.0:
        return entropy(logits)
    log_p = log_probabilities(logits)
    if math.isinf(alpha):
        return -log_p.max(-1).values  # not amax: see pseudo_label
    if abs(alpha - 1) >= 0.25:
        power = (alpha * log_p).masked_fill(log_p == -math.inf, -math.inf)  # 0 · ∞ at α = 0
        return torch.logsumexp(power, -1) / (1 - alpha)
    # Near α = 1 the sum is 1 + Σ p (p^(α−1) − 1): only its small part is summed, so that dividing
    # by 1 − α does not blow rounding up. Far tails take the plain difference: it cannot overflow.
    p, log_p = log_p.exp(), _finite(log_p)
    power = (alpha - 1) * log_p
    near = p * expm1(power.clamp(-1, 1))
    far = (log_p + power).exp() - p
    return torch.log1p(torch.where(power.abs() < 1, near, far).sum(-1)) / (1 - alpha)


def pseudo_label(logits: Tensor, threshold: float = 0.0) -> Tensor:
    """Return −log max p where max p ≥ τ, else 0 (Lee, 2013).

    A masked row stays in the mean and counts as zero.

    >>> pseudo_label(torch.tensor([[3.0, 0.0], [0.1, 0.0]]), threshold=0.7)
    tensor([0.0486, 0.0000])
    """
    # Not amax: its gradient searches for the maximum's value among numbers that a compiler may have
    # recomputed, and is NaN if rounding hides it; max stores the index.
    log_p = log_probabilities(logits).max(-1).values
    # NaN is below no threshold: it is not masked, but reported by the risk.
    return torch.where(log_p.exp() < _threshold(threshold), 0.0, -log_p)


def cross_entropy_to(logits: Tensor, probabilities: Tensor) -> Tensor:
    """Return −Σ q log p, for target probabilities q of the logits' shape.

    For one-logit models q has shape (n, 1) too: the probability of class 1. On the CPU, rows that
    are not distributions are rejected; on a GPU or in compiled code, q is not inspected.

    >>> cross_entropy_to(torch.tensor([[3.0, 0.0]]), torch.tensor([[0.5, 0.5]]))
    tensor([1.5486])
    """
    log_p = log_probabilities(logits)
    _same_shape("probabilities", probabilities, logits)
    if logits.shape[-1] == 1:
        probabilities = torch.cat([1 - probabilities, probabilities], dim=-1)
    _checks.distributions("probabilities", probabilities)
    return -(probabilities * _finite_where_zero(probabilities, log_p)).sum(-1)


def confident_cross_entropy(logits: Tensor, target_logits: Tensor, threshold: float) -> Tensor:
    """Return −log p(k) for the target's arg-max class k where its probability ≥ τ, else 0.

    FixMatch's term: ``logits`` of the strong view, ``target_logits`` of the weak one. No gradient
    reaches the target: neither an arg-max nor a threshold has one.

    >>> strong, weak = torch.tensor([[0.0, 0.0]]), torch.tensor([[5.0, 0.0]])
    >>> confident_cross_entropy(strong, weak, threshold=0.95)
    tensor([0.6931])
    """
    log_p = log_probabilities(logits)
    _same_shape("target_logits", target_logits, logits)
    log_confidence, label = log_probabilities(target_logits.detach()).max(-1)
    confidence = log_confidence.exp()
    loss = -log_p.gather(-1, label.unsqueeze(-1)).squeeze(-1)
    # 0, or NaN if the confidence is: it is not masked, but reported by the risk.
    return torch.where(confidence >= _threshold(threshold), loss, 0.0 * confidence)


def kl_divergence(logits: Tensor, target_logits: Tensor) -> Tensor:
    """Return KL(q ‖ p) = Σ q (log q − log p), q the target's and p the logits' distribution.

    >>> kl_divergence(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 0.0]]))
    tensor([0.5023])
    """
    log_p = log_probabilities(logits)
    _same_shape("target_logits", target_logits, logits)
    log_q = log_probabilities(target_logits)
    q = log_q.exp()
    return (q * (_finite(log_q) - _finite_where_zero(q, log_p))).sum(-1)


def squared_distance(logits: Tensor, target_logits: Tensor) -> Tensor:
    """Return Σ (p − q)² between the two distributions, at most 2 (Mean Teacher, Π-model).

    >>> squared_distance(torch.tensor([[0.0, 0.0]]), torch.tensor([[9.0, -9.0]]))
    tensor([0.5000])
    """
    p = log_probabilities(logits).exp()
    _same_shape("target_logits", target_logits, logits)
    return (p - log_probabilities(target_logits).exp()).square().sum(-1)


def expm1(x: Tensor) -> Tensor:
    """Return exp(x) − 1, precise near zero even when compiled.

    Compiled for a CPU, ``torch.expm1`` is computed literally as exp(x) − 1: zero for a small x.

    >>> expm1(torch.tensor([1e-20, 1.0]))
    tensor([1.0000e-20, 1.7183e+00])
    """
    return 2 * torch.sinh(x / 2) * torch.exp(x / 2)


def _finite(log_p: Tensor) -> Tensor:
    """Return log 0 as the smallest number: times a weight of 0 it is 0 and not NaN."""
    least = torch.finfo(log_p.dtype).min
    return F.threshold(log_p, least, least)  # as clamp, with a cheaper gradient


def _finite_where_zero(weights: Tensor, log_p: Tensor) -> Tensor:
    """Do so only where the weight is 0: elsewhere −w log 0 is infinite."""
    return torch.where(weights == 0, _finite(log_p), log_p)


def _check_logits(name: str, logits: Tensor) -> None:
    if not isinstance(logits, Tensor) or not logits.is_floating_point():
        got = logits.dtype if isinstance(logits, Tensor) else type(logits).__name__
        raise TypeError(f"{name} must be a floating-point tensor (n, classes); got {got}.")
    if logits.ndim < 2 or logits.shape[-1] == 0:
        raise ValueError(
            f"{name} must have shape (n, classes), or (n, 1) for a binary model's log-odds; "
            f"got {tuple(logits.shape)}. For log-odds of shape (n,) pass {name}.unsqueeze(-1)."
        )


def _check_tensor(name: str, value: object) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{name} must be a torch.Tensor; got {type(value).__name__}. "
            "Convert it with torch.as_tensor(...)."
        )


def _same_shape(name: str, value: Tensor, logits: Tensor) -> None:
    _check_tensor(name, value)
    if value.shape != logits.shape:
        raise ValueError(
            f"{name} must have the logits' shape {tuple(logits.shape)}; got {tuple(value.shape)}."
        )


def _threshold(threshold: float) -> float:
    return _checks.number("threshold", threshold, low=0.0, high=1.0)
