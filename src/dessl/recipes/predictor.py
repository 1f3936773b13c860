"""Predictor: raw rows → standardised → the members' mean log-probabilities, normalised.

PooledPredictor combines networks with teachers; TaughtPredictor is a student trained on given
answers.
"""

import copy
import dataclasses
from collections.abc import Iterable
from functools import partial
from typing import Self

import torch
from torch import Tensor, nn

from dessl.evaluation.metrics import predicted_logits
from dessl.functional import log_probabilities
from dessl.models.reduced import area_averaged
from dessl.teachers import Pooled, Taught

FEATURES_AT_ONCE = 512
ROWS_AT_ONCE = 16_384  # for a pool: finding neighbours is faster for many rows at once


class Predictor(nn.Module):
    """One or several trained networks with the scaling of their inputs, as one model.

    Several members, each trained with other labels held out, give

        p(y|x) ∝ exp(mean over members of log softmax(member(x)))

    This is the geometric mean: the arithmetic mean of calibrated members is underconfident.

    Args:
        members: Networks from standardised rows to logits (n, classes).
        mean: Subtracted from the rows: shape (features,) or (channels, 1, 1), or ().
        std: Divisor of the rows; same shape.
        doubt: ε in [0, 1): p becomes (1 − ε) p + ε / classes. If only n held-out labels have
            checked the members' confidence, 1 / (n + 2): by Laplace's rule of succession, n correct
            answers support no more. Or d, (classes,): p becomes (1 − Σ d) p + d
            (:mod:`dessl.recipes.rare_classes`).
        reduced_to: Longest side of the images that the members see; None for all pixels.

    Shape:
        Rows (n, features) of floats or uint8 images (n, channels, height, width), as in
        the data, to log-probabilities (n, classes).

    >>> predictor = Predictor([nn.Identity(), nn.Identity()], torch.tensor(1.0), torch.tensor(2.0))
    >>> predictor(torch.tensor([[1.0, 1.0]])).exp()
    tensor([[0.5000, 0.5000]])
    """

    mean: Tensor
    std: Tensor
    doubt: Tensor | None
    longest: Tensor | None

    def __init__(
        self,
        members: Iterable[nn.Module],
        mean: Tensor,
        std: Tensor,
        doubt: float | Tensor = 0.0,
        reduced_to: int | None = None,
    ) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        if not len(self.members):
            raise ValueError("a Predictor needs at least one member; got none.")
        self.register_buffer("mean", mean.detach().clone())
        self.register_buffer("std", std.detach().clone())
        known = torch.as_tensor(doubt, dtype=mean.dtype, device=mean.device).detach().clone()
        self.register_buffer("doubt", known if bool(known.any()) else None)
        self.reduced_to = reduced_to
        self.register_buffer("longest", None if reduced_to is None else torch.tensor(reduced_to))
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """Log-probabilities (n, classes) of raw rows."""
        return self.doubted(log_probabilities(self._each(x).mean(0)))

    @torch.no_grad()
    def each(self, x: Tensor) -> Tensor:
        """Log-probabilities (members, n, classes) of raw rows by each member alone."""
        return self.doubted(self._each(x.to(self.mean.device)))

    def _each(self, x: Tensor) -> Tensor:
        rows = self._seen(x)
        return torch.stack([log_probabilities(member(rows)) for member in self.members])

    def doubted(self, log_p: Tensor) -> Tensor:
        """Mix log-probabilities (n, classes) with a fixed distribution, weighted by the doubt.

        >>> sure = Predictor([nn.Identity()], torch.tensor(0.0), torch.tensor(1.0), doubt=0.1)
        >>> sure(torch.tensor([[100.0, 0.0]])).exp()
        tensor([[0.9500, 0.0500]])
        """
        if self.doubt is None:
            return log_p
        doubt = self.doubt.to(log_p)
        added = doubt if doubt.ndim else doubt / log_p.shape[-1]
        return ((1 - doubt.sum()) * log_p.exp() + added).log()

    def in_float64(self) -> Self:
        """Return a copy whose prediction of a row does not depend on the rest of the batch."""
        return copy.deepcopy(self).double()

    @torch.no_grad()
    def features(self, x: Tensor) -> Tensor:
        """The inputs of the first member's last linear layer for raw rows, (n, d).

        >>> network = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))
        >>> predictor = Predictor([network], torch.tensor(0.0), torch.tensor(1.0))
        >>> x = torch.tensor([[1.0, -1.0]])
        >>> predictor.features(x).equal(network[0](x).relu())
        True
        """
        member = self.members[0]
        last = [part for part in member.modules() if isinstance(part, nn.Linear)]
        if not last:
            raise ValueError(
                "features are the inputs of the last nn.Linear, but the network has none."
            )
        found: list[Tensor] = []
        hook = last[-1].register_forward_pre_hook(lambda _, given: found.append(given[0]))
        try:
            for rows in torch.split(x.to(self.mean.device), FEATURES_AT_ONCE):
                member(self._seen(rows))
        finally:
            hook.remove()
        return torch.cat([part.flatten(1) for part in found])

    def _seen(self, x: Tensor) -> Tensor:
        if self.reduced_to is not None:
            x = area_averaged(x, self.reduced_to)
        floats = x.to(self.mean.dtype)
        levels = floats / 255 if x.dtype == torch.uint8 else floats
        return (levels - self.mean) / self.std


class PooledPredictor(nn.Module):
    """Networks and teachers as one model: p(y|x) ∝ Π p_m(y|x)^w_m.

    Args:
        networks: The anchor of the pool.
        pool: Fitted teachers and all weights; its anchor's predictions come from ``networks``, and
            so do the features of teachers that use them.

    Shape:
        Rows, see :class:`Predictor`, to log-probabilities (n, classes), float64.
    """

    def __init__(self, networks: Predictor, pool: Pooled) -> None:
        super().__init__()
        self.networks = networks
        columns = networks.features if pool.on_features else pool.columns
        anchor = partial(predicted_log_proba, networks)
        self.pool = dataclasses.replace(pool, anchor_predict=anchor, columns=columns)
        self.eval()

    @property
    def members(self) -> nn.ModuleList:
        """The networks."""
        return self.networks.members

    def forward(self, x: Tensor) -> Tensor:
        """Log-probabilities (n, classes) of raw rows; without gradients."""
        return self.pool.predict_log_proba(x).to(x.device)

    def in_float64(self) -> Self:
        """Return the same pool around a copy of the networks in float64."""
        return type(self)(self.networks.in_float64(), self.pool)


class TaughtPredictor(nn.Module):
    """A student trained on gold labels and a teacher's answers, as a model.

    Args:
        taught: Result of :func:`dessl.teachers.learn_from_answers`.

    Shape:
        Raw rows (n, features) to log-probabilities (n, classes), float64.
    """

    def __init__(self, taught: Taught) -> None:
        super().__init__()
        self.taught = taught
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """Log-probabilities (n, classes) from the student alone, without its teacher."""
        return self.taught.predict_log_proba(x)

    def in_float64(self) -> Self:
        """Return itself: its networks predict in float32."""
        return self


AnyPredictor = Predictor | PooledPredictor | TaughtPredictor


def predicted_log_proba(model: AnyPredictor, x: Tensor) -> Tensor:
    """Return log-probabilities (n, classes), float64, of many raw rows, in batches."""
    batch = 512 if isinstance(model, Predictor) else ROWS_AT_ONCE
    log_p = predicted_logits(model, x, batch_size=batch, transform=lambda rows: rows)
    return log_p.double().cpu()
