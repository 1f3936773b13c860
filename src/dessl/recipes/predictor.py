"""Predictor: rows as they come → standardised → the members' mean log-probabilities, normalised.

PooledPredictor: such networks with teachers beside them.
"""

import copy
import dataclasses
from collections.abc import Iterable
from typing import Self

import torch
from torch import Tensor, nn

from dessl.evaluation.metrics import predicted_logits
from dessl.functional import log_probabilities
from dessl.teachers import Pooled

ROWS_AT_ONCE = 16_384  # of a pool, whose neighbours are found faster for many rows together


class Predictor(nn.Module):
    """One or several trained networks with the scaling of their inputs, as one model.

    Several members, each trained with other labels held out, give

        p(y|x) ∝ exp(mean over members of log softmax(member(x)))

    The geometric mean: the arithmetic one is underconfident, its members being calibrated each.

    Args:
        members: Networks from standardised rows to logits (n, classes).
        mean: What is subtracted: shape (features,) or (channels, 1, 1), or () for nothing.
        std: What is divided by, likewise.

    Shape:
        Rows (n, features) of floats or uint8 images (n, channels, height, width), as they are in
        the data, to log-probabilities (n, classes).

    >>> predictor = Predictor([nn.Identity(), nn.Identity()], torch.tensor(1.0), torch.tensor(2.0))
    >>> predictor(torch.tensor([[1.0, 1.0]])).exp()
    tensor([[0.5000, 0.5000]])
    """

    mean: Tensor
    std: Tensor

    def __init__(self, members: Iterable[nn.Module], mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        if not len(self.members):
            raise ValueError("a Predictor needs at least one member; got none.")
        self.register_buffer("mean", mean.detach().clone())
        self.register_buffer("std", std.detach().clone())
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """Log-probabilities (n, classes) of rows as they come."""
        floats = x.to(self.mean.dtype)
        levels = floats / 255 if x.dtype == torch.uint8 else floats
        rows = (levels - self.mean) / self.std
        log_p = torch.stack([log_probabilities(member(rows)) for member in self.members])
        return log_probabilities(log_p.mean(0))

    def in_float64(self) -> Self:
        """Return a copy in which a row's answer does not depend on the rows beside it."""
        return copy.deepcopy(self).double()


class PooledPredictor(nn.Module):
    """Networks and teachers as one model: p(y|x) ∝ Π p_m(y|x)^w_m.

    Args:
        networks: The anchor of the pool.
        pool: Fitted teachers and all weights; who predicts for its anchor is replaced here.

    Shape:
        Rows as in :class:`Predictor`, to log-probabilities (n, classes), float64.
    """

    def __init__(self, networks: Predictor, pool: Pooled) -> None:
        super().__init__()
        self.networks = networks
        self.pool = dataclasses.replace(pool, anchor_predict=self._anchor)
        self.eval()

    @property
    def members(self) -> nn.ModuleList:
        """The networks."""
        return self.networks.members

    def forward(self, x: Tensor) -> Tensor:
        """Log-probabilities (n, classes) of rows as they come; no gradient passes."""
        return self.pool.predict_log_proba(x).to(x.device)

    def in_float64(self) -> Self:
        """Return the same pool around a copy of the networks in float64."""
        return type(self)(self.networks.in_float64(), self.pool)

    def _anchor(self, x: Tensor) -> Tensor:
        logits = predicted_logits(self.networks, x, transform=lambda batch: batch)
        return logits.double().cpu()


def predicted_log_proba(model: Predictor | PooledPredictor, x: Tensor) -> Tensor:
    """Return log-probabilities (n, classes), float64, of many rows as they come, in batches."""
    batch = ROWS_AT_ONCE if isinstance(model, PooledPredictor) else 512
    log_p = predicted_logits(model, x, batch_size=batch, transform=lambda rows: rows)
    return log_p.double().cpu()
