"""L and H of rows with known labels, without gradients and without affecting a run's draws."""

from typing import NamedTuple

import torch
from torch import Tensor

from dessl import _checks
from dessl.functional import cross_entropy, log_probabilities
from dessl.surrogates.base import Model, Rows, Surrogate

ROWS_AT_ONCE = 512  # so that many images fit in memory


class LossesAndTerms(NamedTuple):
    """L and H of each row, and the model's confidence in its first view; shape (n,) each."""

    loss: Tensor
    h: Tensor
    confidence: Tensor


@torch.no_grad()
def losses_and_terms(
    model: Model, surrogate: Surrogate, rows: Rows, y: Tensor, *, at_once: int = ROWS_AT_ONCE
) -> LossesAndTerms:
    """Return L, its mean over the views, and H of each row.

    The surrogate uses fresh generators and its state does not change, so that this has no side
    effects. Half precision is returned as float32.

    Args:
        model: The model, in evaluation mode if it has modes.
        surrogate: The term, prepared for the rows' ids.
        rows: n rows.
        y: Their labels, shape (n,).
        at_once: Number of rows in a forward pass.

    >>> from dessl.surrogates.entropy import Entropy
    >>> rows = Rows(torch.tensor([[0.0, 0.0], [2.0, 0.0]]), torch.arange(2))
    >>> losses_and_terms(lambda x: x, Entropy(), rows, torch.tensor([0, 0])).loss
    tensor([0.6931, 0.1269])
    """
    if not len(y):
        raise ValueError("rows must have at least one row; got none.")
    found = []
    with surrogate.draws_apart(rows.x.device):
        for first in range(0, len(y), at_once):
            part = slice(first, first + at_once)
            h, logits = surrogate(model, Rows(rows.x[part], rows.ids[part]))
            logits = _checks.summable(logits)
            losses = torch.stack([cross_entropy(view, y[part]) for view in logits])
            confidence = log_probabilities(logits[0]).exp().amax(-1)
            found.append((losses.mean(0), _checks.summable(h), confidence))
    return LossesAndTerms(*(torch.cat(parts) for parts in zip(*found, strict=True)))
