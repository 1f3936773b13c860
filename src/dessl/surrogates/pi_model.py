"""Π-model: H(x) = Div(p_θ(·|v(x)), p_θ̂(·|v′(x))) for two stochastic passes over one row."""

import math
from typing import Literal

import torch

from dessl import _checks
from dessl.functional import kl_divergence, squared_distance
from dessl.surrogates.base import Model, Rows, Scores, Surrogate, View
from dessl.surrogates.views import checked_view, jittered_view, row_logits

Divergence = Literal["squared_distance", "kl"]
DIVERGENCES = {"squared_distance": squared_distance, "kl": kl_divergence}


class PiModel(Surrogate):
    """Agreement of two passes with separate draws (Sajjadi et al., 2016; Laine & Aila, 2017).

    v and v′ are two draws of one view; dropout and other noise of the model are redrawn too.
    Without any noise, in view or model, H is zero. The second pass is the target, θ̂ is θ without
    gradient (paper, appendix B). For the squared distance, a gradient through both passes would be
    twice as large on average: double λ to match Laine & Aila. Their distance is the mean over the K
    classes, ours the sum: their weight w is our λ = w/K.

    L is computed on the first pass. The squared distance is at most 2, so the debiased risk is
    bounded below for every λ; the Kullback-Leibler divergence KL(p_θ̂ ‖ p_θ) is not bounded,
    and grows if the passes disagree, so with it no λ > 0 is safe.

    Args:
        view: The view of a row, drawn twice.
        divergence: ``"squared_distance"`` Σ (p − q)², or ``"kl"``.
        seed: Seed of the view's draws.

    >>> rows = Rows(torch.tensor([[1.0, 0.0, -1.0]]), torch.tensor([0]))
    >>> scores = PiModel()(lambda x: x, rows)
    >>> scores.h.shape, scores.logits.shape
    (torch.Size([1]), torch.Size([1, 1, 3]))
    """

    rarely_zero = True

    def __init__(
        self,
        *,
        view: View = jittered_view,
        divergence: Divergence = "squared_distance",
        seed: int = 0,
    ) -> None:
        super().__init__(seed=seed)
        _checks.one_of("divergence", divergence, tuple(DIVERGENCES))
        self.view = checked_view("view", view)
        self.divergence = divergence
        self.bounded_up_to = 0.0 if divergence == "kl" else math.inf

    def forward(self, model: Model, rows: Rows) -> Scores:
        """Return the divergences (n,) and the first pass's logits (1, n, classes)."""
        generator = self.generator(rows.x.device)
        logits = row_logits(model, self.view(rows.x, generator))
        with torch.no_grad():
            target = model(self.view(rows.x, generator))
        return Scores(DIVERGENCES[self.divergence](logits, target), logits.unsqueeze(0))
