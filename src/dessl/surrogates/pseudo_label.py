"""Pseudo-labels: H(x) = 1[max p ≥ τ] · −Σ_y q(y) log p(y|x), q the arg-max or a sharpened p."""

import math

import torch

from dessl import _checks
from dessl.functional import log_probabilities, pseudo_label
from dessl.surrogates.base import Model, Rows, Scores, Surrogate, View
from dessl.surrogates.targets import confident_labels, sharpened
from dessl.surrogates.views import checked_view, plain_view, row_logits


class PseudoLabel(Surrogate):
    """Cross-entropy to a row's own confident prediction (Lee, 2013).

    Hard (T = 0): H(x) = −log max_y p(y|x) where max p ≥ τ, else 0; Rényi's min-entropy at τ = 0.
    Soft (0 < T < 1): H(x) = −Σ q log p where max p ≥ τ, else 0, with q ∝ p^(1/T) held fixed. At
    T = 1 the gradient of the soft form is p − q = 0: use :class:`Entropy` for it.

    L is computed on the same view of the row. Both forms lie in [0, log K], since a sharpened q is
    closer to the arg-max than p, so the debiased risk is bounded below for every λ.

    Args:
        threshold: τ; a row below it counts as a zero.
        temperature: T; 0 for the hard label.
        view: View of a row for the model.
        seed: Seed of the view's draws.

    >>> import torch
    >>> rows = Rows(torch.tensor([[3.0, 0.0], [0.1, 0.0]]), torch.arange(2))
    >>> PseudoLabel(threshold=0.7)(lambda x: x, rows).h
    tensor([0.0486, 0.0000])
    """

    bounded_up_to = math.inf

    def __init__(
        self,
        threshold: float = 0.95,
        *,
        temperature: float = 0.0,
        view: View = plain_view,
        seed: int = 0,
    ) -> None:
        super().__init__(seed=seed)
        self.threshold = _checks.number("threshold", threshold, low=0.0, high=1.0)
        self.temperature = _checks.number(
            "temperature", temperature, low=0.0, high=1.0, open_high=True
        )
        self.view = checked_view("view", view)

    def forward(self, model: Model, rows: Rows) -> Scores:
        """Return H (n,) and the logits (1, n, classes)."""
        logits = row_logits(model, self.view(rows.x, self.generator(rows.x.device)))
        if self.temperature == 0:
            return Scores(pseudo_label(logits, self.threshold), logits.unsqueeze(0))
        log_p = log_probabilities(logits)
        confidence, _ = confident_labels(log_p)
        loss = -(sharpened(log_p, self.temperature) * log_p).sum(-1)
        return Scores(torch.where(confidence < self.threshold, 0.0, loss), logits.unsqueeze(0))
