"""Proper scoring rules of probabilities: cross-entropy −log p_y, Brier Σ_k (p_k − 1[k = y])²."""

import torch
from torch import Tensor

from dessl._checks import ArrayLike
from dessl.evaluation.metrics.predictions import checked_pair


def true_class(values: Tensor, y: Tensor) -> Tensor:
    """Each row's value at its true class: (n, classes), (n,) → (n,)."""
    return values.gather(1, y[:, None]).squeeze(1)


def squared_errors(values: Tensor, y: Tensor) -> Tensor:
    """Each row's Σ_k (p_k − 1[k = y])², (n,): all terms are non-negative, so nothing cancels."""
    right = true_class(values, y)
    others = values.scatter(1, y[:, None], 0.0)
    return others.square().sum(dim=1) + (1 - right).square()


def sample_cross_entropy(probabilities: ArrayLike, y: ArrayLike) -> Tensor:
    """Each row's −log p_y, (n,); infinite if the true class has probability zero.

    Args:
        probabilities: (n, classes), rows summing to one.
        y: (n,) class numbers.

    >>> sample_cross_entropy([[0.5, 0.5], [0.25, 0.75]], [0, 0])
    tensor([0.6931, 1.3863], dtype=torch.float64)
    """
    values, labels = checked_pair(probabilities, y)
    return -torch.log(true_class(values, labels))


def sample_brier(probabilities: ArrayLike, y: ArrayLike) -> Tensor:
    """Each row's Σ_k (p_k − 1[k = y])², (n,), between 0 and 2.

    Args:
        probabilities: (n, classes), rows summing to one.
        y: (n,) class numbers.

    >>> sample_brier([[0.5, 0.5], [0.25, 0.75]], [0, 0])
    tensor([0.5000, 1.1250], dtype=torch.float64)
    """
    return squared_errors(*checked_pair(probabilities, y))


def cross_entropy(probabilities: ArrayLike, y: ArrayLike) -> float:
    """The mean of −log p_y, in nats; nothing is clipped.

    It is infinite if any true class has probability zero, which happens easily with a float32
    softmax: ``metrics_from_logits`` uses log-probabilities instead, which do not underflow.

    Args:
        probabilities: (n, classes), rows summing to one.
        y: (n,) class numbers.

    >>> round(cross_entropy([[0.5, 0.5], [0.25, 0.75]], [0, 0]), 4)
    1.0397
    """
    return float(sample_cross_entropy(probabilities, y).mean())


def brier(probabilities: ArrayLike, y: ArrayLike) -> float:
    """The mean of Σ_k (p_k − 1[k = y])², the multiclass sum: between 0 and 2.

    In the binary case it is twice the one-class form.

    Args:
        probabilities: (n, classes), rows summing to one.
        y: (n,) class numbers.

    >>> brier([[0.5, 0.5], [0.25, 0.75]], [0, 0])
    0.8125
    """
    return float(sample_brier(probabilities, y).mean())
