"""Targets made from predictions: arg-max, sharpened and aligned labels, all without gradients.

All take log-probabilities, shape (..., classes).
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from dessl import _checks


def confident_labels(log_p: Tensor) -> tuple[Tensor, Tensor]:
    """Return max p and arg max p, each of shape (...).

    >>> confidence, label = confident_labels(torch.tensor([[0.25, 0.75]]).log())
    >>> confidence, label
    (tensor([0.7500]), tensor([1]))
    """
    log_confidence, label = log_p.detach().max(-1)
    return log_confidence.exp(), label


def negative_log(log_p: Tensor, label: Tensor) -> Tensor:
    """Return −log p(label), shape (...); the gradient flows to log_p.

    >>> negative_log(torch.tensor([[0.25, 0.75]]).log(), torch.tensor([0]))
    tensor([1.3863])
    """
    return -log_p.gather(-1, label.unsqueeze(-1)).squeeze(-1)


def sharpened(log_p: Tensor, temperature: float) -> Tensor:
    """Return q(y) ∝ p(y)^(1/T), probabilities of the shape of log_p.

    >>> sharpened(torch.tensor([[0.25, 0.75]]).log(), temperature=0.5)
    tensor([[0.1000, 0.9000]])
    """
    return (log_p.detach() / temperature).softmax(-1)


def aligned(log_p: Tensor, running: Tensor, prior: Tensor) -> Tensor:
    """Return log q, q(y) ∝ p(y) · prior(y) / running(y): distribution alignment.

    >>> running, prior = torch.tensor([0.2, 0.8]), torch.tensor([0.5, 0.5])
    >>> aligned(torch.tensor([[0.2, 0.8]]).log(), running, prior).exp()
    tensor([[0.5000, 0.5000]])
    """
    # A class that is never predicted has a running mean that underflows to zero in the end.
    log_running = running.clamp(min=torch.finfo(running.dtype).tiny).log()
    return (log_p.detach() + prior.log() - log_running).log_softmax(-1)


def checked_prior(prior: Sequence[float] | None) -> tuple[float, ...] | None:
    """Return the classes' probabilities as a tuple; None, for a uniform one, stays None."""
    if prior is None:
        return None
    given = _checks.numbers_of("prior", prior, advice="Pass one probability for each class.")
    values = tuple(_checks.number("prior", value, low=0.0, open_low=True) for value in given)
    if abs(sum(values) - 1) > 1e-6:
        raise ValueError(f"prior must sum to 1; got {sum(values):g}. Divide it by its sum.")
    return values


def prior_of_classes(
    prior: tuple[float, ...] | None, n_classes: int, device: torch.device
) -> Tensor:
    """Return a prior, uniform if not given, as a tensor (classes,).

    >>> prior_of_classes(None, 2, torch.device("cpu"))
    tensor([0.5000, 0.5000])
    """
    values = prior or (1 / n_classes,) * n_classes
    if len(values) != n_classes:
        raise ValueError(
            f"prior must hold one probability for each of the {n_classes} classes; "
            f"got {len(values)}."
        )
    return torch.tensor(values, device=device)
