"""Unsupervised data augmentation: H(x) = 1[max p(x₁) > β] · −Σ_y q(y) log p(y|x₂)."""

import torch
from torch import Tensor

from dessl import _checks
from dessl.functional import log_probabilities
from dessl.surrogates.base import View
from dessl.surrogates.targets import confident_labels, sharpened
from dessl.surrogates.views import strong_view, weak_view
from dessl.surrogates.weak_to_strong import Targets, WeakToStrong


class UDA(WeakToStrong):
    """Cross-entropy from the sharpened prediction on a row to its strong view (Xie et al., 2020).

    H(x) = −Σ_y q(y) log p(y|x₂) where max_y p(y|x₁) > β, else 0, with q ∝ p(·|x₁)^(1/T) held fixed,
    x₁ the weak and x₂ the strong view. The original's KL divergence differs by q's entropy, which
    has no gradient.

    L is computed on both views, ½ + ½, as in the paper's FixMatch. A soft q has mass q(k) on
    classes other than y; a strong view with p(k|x₂) → 0 and p(y|x₂) → 1 has L → −½ log p(y|x₁) and
    H → ∞. So the debiased risk is unbounded below for every λ > 0: bound it, or smooth H.

    Args:
        threshold: β; a row at or below it counts as a zero.
        temperature: T.
        weak: View that pseudo-labels are computed from.
        strong: View that is trained on them.
        targets: As in :class:`WeakToStrong`.
        seed: Seed of the views' draws.

    >>> import torch
    >>> from dessl.surrogates.base import Rows
    >>> same = lambda x, generator: x
    >>> uda = UDA(threshold=0.5, temperature=0.5, weak=same, strong=same)
    >>> uda(lambda x: x, Rows(torch.tensor([[0.25, 0.75]]).log(), torch.tensor([0]))).h
    tensor([0.3975])
    """

    bounded_up_to = 0.0

    def __init__(
        self,
        threshold: float = 0.8,
        *,
        temperature: float = 0.4,
        weak: View = weak_view,
        strong: View = strong_view,
        targets: Targets = "joint",
        seed: int = 0,
    ) -> None:
        super().__init__(weak=weak, strong=strong, targets=targets, seed=seed)
        self.threshold = _checks.number("threshold", threshold, low=0.0, high=1.0)
        self.temperature = _checks.number("temperature", temperature, low=0.0, open_low=True)

    def h(self, weak: Tensor, strong: Tensor) -> Tensor:
        """Return H (n,) from the logits of the weak and the strong view, (n, classes)."""
        log_weak, log_strong = log_probabilities(weak.detach()), log_probabilities(strong)
        confidence, _ = confident_labels(log_weak)
        loss = -(sharpened(log_weak, self.temperature) * log_strong).sum(-1)
        # 0, or NaN if the confidence is: it is not masked, but reported by the risk.
        return torch.where(confidence > self.threshold, loss, 0.0 * confidence)
