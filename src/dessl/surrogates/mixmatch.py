"""MixMatch: H(x) = 1/(A·K) Σ_a ‖p(x̃_a) − q̃_a‖², on augmented rows x̃ and guesses q̃ after mixup."""

import math
from typing import Literal

import torch
from torch import Tensor

from dessl import _checks
from dessl.augment import Mixed, mixup
from dessl.functional import log_probabilities
from dessl.surrogates.base import Model, Rows, Scores, Surrogate, View
from dessl.surrogates.passes import side_pass
from dessl.surrogates.targets import sharpened
from dessl.surrogates.views import checked_view, jittered_view, joint_logits

Distance = Literal["squared", "cross_entropy"]


class MixMatch(Surrogate):
    """Distance from mixed rows to equally mixed, guessed labels (Berthelot et al., 2019).

    For each row, with A augmented views x_a and a partner j drawn for each from all views of all
    rows of the batch, blindly:

        q ∝ (1/A Σ_a p(·|x_a))^(1/T),    w = max(v, 1 − v), v from Beta(α, α),
        x̃_a = w x_a + (1 − w) x_j,       q̃_a = w q + (1 − w) q_j,
        H(x) = 1/A Σ_a 1/K Σ_y (p(y|x̃_a) − q̃_a(y))²,

    or −Σ_y q̃_a(y) log p(y|x̃_a) in place of the squares. No gradient flows through the guesses,
    and the pass on mixed rows does not update BatchNorm's running statistics.

    L is computed on the A unmixed views. What a per-row, blind H cannot include: in the original,
    labelled rows are mixed too, with their labels, and partners' targets are the true labels if
    known; here every target is a guess.

    With squares, H ≤ 2/K, so the debiased risk is bounded below for every λ. With cross-entropy, L
    does not constrain the mixed row, where p(y|x̃) → 0 makes H → ∞: the risk is unbounded for every
    λ > 0.

    Args:
        distance: ``"squared"`` or ``"cross_entropy"``.
        augmentations: A.
        temperature: T.
        alpha: α of the mixing weights.
        view: Augmented view of a row.
        seed: Seed of the views', weights' and partners' draws.

    >>> rows = Rows(torch.tensor([[3.0, 0.0], [0.0, 1.0]]), torch.arange(2))
    >>> scores = MixMatch()(lambda x: x, rows)
    >>> scores.h.shape, scores.logits.shape
    (torch.Size([2]), torch.Size([2, 2, 2]))
    """

    bounded_up_to = math.inf
    adds_to_rows = True

    def __init__(
        self,
        distance: Distance = "squared",
        *,
        augmentations: int = 2,
        temperature: float = 0.5,
        alpha: float = 0.75,
        view: View = jittered_view,
        seed: int = 0,
    ) -> None:
        super().__init__(seed=seed)
        _checks.one_of("distance", distance, ("squared", "cross_entropy"))
        self.distance = distance
        self.augmentations = _checks.whole_number("augmentations", augmentations, low=1)
        self.temperature = _checks.number("temperature", temperature, low=0.0, open_low=True)
        self.alpha = _checks.number("alpha", alpha, low=0.0, open_low=True)
        self.view = checked_view("view", view)
        if distance == "cross_entropy":
            self.bounded_up_to = 0.0

    def forward(self, model: Model, rows: Rows) -> Scores:
        """Return H (n,) and the logits of the unmixed views, (A, n, classes)."""
        generator = self.generator(rows.x.device)
        views = [self.view(rows.x, generator) for _ in range(self.augmentations)]
        logits = joint_logits(model, views)
        mean_log_p = log_probabilities(logits).logsumexp(0)  # up to a constant
        guess = sharpened(mean_log_p, self.temperature)
        mixed = mostly_own(torch.cat(views), self.alpha, generator)
        target = mixed.mix(guess.repeat(len(views), 1))
        log_p = log_probabilities(side_pass(model)(mixed.x))
        if self.distance == "squared":
            distances = (log_p.exp() - target).square().mean(-1)
        else:
            distances = -(target * log_p).sum(-1)
        return Scores(distances.view(len(views), -1).mean(0), logits)


def mostly_own(x: Tensor, alpha: float, generator: torch.Generator) -> Mixed:
    """Mix each row with another, with the larger weight on itself: w = max(v, 1 − v).

    >>> mixed = mostly_own(torch.eye(3), 1.0, torch.Generator().manual_seed(0))
    >>> bool((mixed.lam >= 0.5).all())
    True
    """
    drawn = mixup(x, alpha, generator)
    mixed = Mixed(x, torch.maximum(drawn.lam, 1 - drawn.lam), drawn.partner)
    return Mixed(mixed.mix(x), mixed.lam, mixed.partner)  # PyTorch 2.11 compiles no _replace
