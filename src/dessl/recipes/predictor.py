"""Predictor: rows as they come → standardised → the members' mean log-probabilities, normalised."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from dessl.functional import log_probabilities


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
