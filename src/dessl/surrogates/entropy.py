"""Entropy minimisation: H(x) = −Σ_y p(y|x) log p(y|x)."""

import math

from dessl.functional import entropy
from dessl.surrogates.base import Model, Rows, Scores, Surrogate, View
from dessl.surrogates.views import checked_view, plain_view, row_logits


class Entropy(Surrogate):
    """Shannon entropy of the prediction (Grandvalet & Bengio, 2004).

    L is computed on the same view of the row. The entropy lies in [0, log K], so the debiased risk
    is bounded below for every λ.

    Args:
        view: View of a row for the model.
        seed: Seed of the view's draws.

    >>> import torch
    >>> rows = Rows(torch.tensor([[1.0, 0.0, -1.0]]), torch.tensor([0]))
    >>> Entropy()(lambda x: x, rows).h
    tensor([0.8324])
    """

    bounded_up_to = math.inf
    rarely_zero = True

    def __init__(self, *, view: View = plain_view, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.view = checked_view("view", view)

    def forward(self, model: Model, rows: Rows) -> Scores:
        """Return the entropies (n,) and the logits (1, n, classes)."""
        logits = row_logits(model, self.view(rows.x, self.generator(rows.x.device)))
        return Scores(entropy(logits), logits.unsqueeze(0))
